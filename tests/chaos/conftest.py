"""The chaos suite: real processes, real kills. `make chaos` runs all of it, `make test` what is marked as quick."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.table import Fault, write_page
from tests.flows.conftest import prefect_database, prefect_home, project

__all__ = ["prefect_database", "prefect_home", "project"]
PASSED = pytest.StashKey[bool]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without `-m chaos`, of this folder only what is marked `chaos(quick=True)`."""
    if "chaos" in (config.option.markexpr or ""):
        return
    here = Path(__file__).parent
    left = [item for item in items if here in item.path.parents and not _quick(item)]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


def _quick(item: pytest.Item) -> bool:
    return any(mark.kwargs.get("quick") for mark in item.iter_markers("chaos"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    report = yield
    if report.when == "call":
        item.stash[PASSED] = report.passed
    return report


@pytest.fixture
def fault(request: pytest.FixtureRequest) -> Iterator[Fault]:
    """The row of the table that a test fills in."""
    row = Fault("")
    yield row
    if request.node.stash.get(PASSED, False) and "PLUMBLINE_FAULTS" in os.environ:
        row.write()


def pytest_sessionfinish(session: pytest.Session) -> None:
    if "PLUMBLINE_FAULTS" in os.environ and not hasattr(session.config, "workerinput"):
        write_page()
