"""What several folders of tests share, and how the tests are shared out between workers."""

import gc
import logging
import os
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from plumbline import pretrained
from tests import guard

if "PYTEST_XDIST_WORKER" in os.environ:
    # Until all are collected: what libraries make while they load stays to the end, and to look for cycles in it takes
    # a fifth of the time.
    gc.disable()
# Without deadlines: on a busy machine a first call may take long. The first tries the same examples each time, so that
# a change is judged by what it changed; the others look for new ones.
# A test's folder serves all of its examples: each writes its file anew.
USUAL = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
settings.register_profile("quick", USUAL, max_examples=15, derandomize=True)
settings.register_profile("more", USUAL, max_examples=60)
settings.register_profile("thorough", USUAL, max_examples=1000)
settings.load_profile("quick")

ROOT = Path(__file__).parents[1]
SERVER = re.compile(r"\b(prefect_(server|home|database)|harness)\b")
"""How a file that needs the shared Prefect server is known: all of them go to one worker, which starts it once."""
HEAVY = frozenset(
    {
        *("tiny", "tiny_fields", "prefect_server", "harness"),
        *("work", "spoiled", "adapters", "fitted", "sent"),  # of tests/train and tests/compress
    }
)
"""Fixtures that train, export or start a server: tests that use one of them are marked `heavy`."""


@cache
def group(path: str) -> str:
    """What goes to one worker as a whole: the file, or all that need the shared server."""
    return "server" if SERVER.search((ROOT / path).read_text(encoding="utf-8")) else path


class Scheduling(LoadFileScheduling):
    """A file's tests stay together, and so do all files that need the server."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid.split("::")[0])


@pytest.fixture(autouse=True)
def plain_log():
    """Each test finds the program's log as an import leaves it, whatever fixtures and tests before have set."""
    own = logging.getLogger("plumbline")
    own.setLevel(logging.NOTSET)
    own.propagate, own.disabled = True, False


@pytest.fixture(scope="session")
def tiny():
    """One whole run of the pipeline, see tests/tiny.py."""
    # Seconds to load, for which the process that shares the tests out need not wait.
    from tests.tiny import shared_run

    return shared_run()


@pytest.fixture(scope="session")
def tiny_fields():
    """One whole run of the pipeline of fields, see tests/tiny_fields.py."""
    from tests.tiny_fields import shared_fields

    return shared_fields()


def pytest_configure():
    # The processes of a worker are those of the run.
    if sys.platform == "linux" and "PYTEST_XDIST_WORKER" not in os.environ:
        guard.begin()


def pytest_unconfigure():
    guard.end()


@pytest.fixture(scope="session")
def city():
    """Points and footprints of the cities of `tiny`, for tests that need no model made from them."""
    from tests.tiny import shared_city

    return shared_city()


@pytest.fixture(scope="session")
def package():
    """The package that comes with Plumbline, for tests to which any will do. It judges; `tiny` has learned little."""
    return pretrained.PACKAGE


@pytest.fixture(scope="session")
def fields_package():
    """The same for fields. Its network is large: restore with `tiny_fields` where it has to be asked."""
    return pretrained.FIELDS


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    for item in items:
        if not HEAVY.isdisjoint(item.fixturenames):
            item.add_marker(pytest.mark.heavy)
    if "chaos" not in (config.option.markexpr or ""):
        left = [item for item in items if item.get_closest_marker("chaos")]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]

    # What takes long goes first: begun late, it would keep one worker at work while the others are done.
    weight = {"slow": 4, "heavy": 1}
    load: Counter[str] = Counter()
    for item in items:
        load[group_of(item)] += sum(weight.get(mark.name, 0) for mark in item.iter_markers())
    items.sort(key=lambda item: (group_of(item) != "server", -load[group_of(item)]))


def pytest_make_parametrize_id(val, argname):
    """Bytes are named after their argument: gzip writes the second into them, and every worker has to find one name."""
    return argname if isinstance(val, bytes) else None


def group_of(item) -> str:
    """What a test goes to a worker with."""
    return group(item.path.relative_to(ROOT).as_posix())


def pytest_collection_finish():
    # What the libraries have made by now stays until the end. To look for cycles in it, again and again, takes longer
    # than many a test.
    gc.freeze()
    gc.enable()
