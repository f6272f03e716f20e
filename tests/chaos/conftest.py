"""The chaos suite: real processes, real kills. `make chaos` runs it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.chaos.table import Fault, write_page
from tests.flows.conftest import prefect_database, prefect_home, prefect_server, project

__all__ = ["prefect_database", "prefect_home", "prefect_server", "project"]
PASSED = pytest.StashKey[bool]()


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
