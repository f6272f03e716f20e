"""What several folders of tests share, and how the tests are shared out between workers."""

import gc
import logging
import os
import random
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

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

TESTS = Path(__file__).parent
FAMILIES = (
    ("serve", "service", "release"),
    ("sources", "core", "simulate", "flows"),
    ("train", "model", "compress", "export", "validate"),
    ("prepare", "realdata"),
    ("fields",),
)
"""Folders whose tests import the same libraries: a worker collects whole families, and imports no others' libraries."""
HEAVY = frozenset(
    {
        *("tiny", "tiny_fields", "prefect_server", "harness"),
        *("work", "spoiled", "adapters", "fitted", "sent"),  # of tests/train and tests/compress
    }
)
"""Fixtures that train, export or start a server: tests that use one of them are marked `heavy`."""


def pytest_addoption(parser):
    parser.addoption("--shuffle", metavar="SEED", help="Run the tests in an order drawn from this seed.")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Tell a worker how the tests are shared out: xdist itself does not."""
    node.workerinput["dist"] = node.config.option.dist


@pytest.hookimpl(tryfirst=True)
def pytest_ignore_collect(collection_path, config):
    """Leave the folders of other workers out: with `--dist each`, a worker runs all that it collects."""
    worker = getattr(config, "workerinput", {"dist": "no"})
    if worker["dist"] != "each" or collection_path.parent != TESTS:
        return None
    family = next((n for n, folders in enumerate(FAMILIES, 1) if collection_path.name in folders), 0)
    return True if family % worker["workercount"] != int(worker["workerid"].removeprefix("gw")) else None


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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    for item in items:
        if not HEAVY.isdisjoint(item.fixturenames):
            item.add_marker(pytest.mark.heavy)
    if "chaos" not in (config.option.markexpr or ""):
        left = [item for item in items if item.get_closest_marker("chaos")]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]
    if config.option.shuffle:
        random.Random(config.option.shuffle).shuffle(items)


def pytest_make_parametrize_id(val, argname):
    """Bytes are named after their argument: gzip writes the second into them, and every worker has to find one name."""
    return argname if isinstance(val, bytes) else None


def pytest_collection_finish():
    # What the libraries have made by now stays until the end. To look for cycles in it, again and again, takes longer
    # than many a test.
    gc.freeze()
    gc.enable()
