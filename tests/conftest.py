"""What several folders of tests share, and how the tests are shared out between workers."""

from pathlib import Path

import pytest
from hypothesis import settings

from tests.tiny import tiny

__all__ = ["tiny"]

# Without deadlines: on a busy machine a first call may take long. `--hypothesis-profile=thorough` looks further.
settings.register_profile("quick", deadline=None, max_examples=40)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile("quick")

TESTS = Path(__file__).parent
SHARED = ("tiny", "prefect_database")
"""Fixtures that take long to make: all files that need one share a worker, which makes it once."""
FIRST = (*SHARED, "flows", "train")
"""Groups, or what their names begin with, that take long: begun late, one would keep one worker at work alone."""


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file together, and those of all files that need the same shared fixture."""
    group = {item.path: ".".join(item.path.relative_to(TESTS).with_suffix("").parts) for item in items}
    for name in reversed(SHARED):
        group |= {item.path: name for item in items if name in getattr(item, "fixturenames", ())}
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group[item.path]))
    items.sort(key=lambda item: place(group[item.path]))


def place(group: str) -> int:
    """Position in the order of execution."""
    return next((number for number, name in enumerate(FIRST) if group.startswith(name)), len(FIRST))
