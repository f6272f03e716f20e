"""What the tests cost: seconds of CPU, user and system, by test, file and folder.

make tests PYTEST_ARGS="-p tests.bill"    # writes one line a phase of a test into .plumbline/bill
python -m tests.bill                      # adds them up, as a table of Markdown

Programs that a test starts count where it waits for their end. A fixture that many tests share counts for the first.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

BILL = Path(".plumbline/bill").absolute()
DEAREST = 40
"""Number of tests that are listed."""


def cpu_s() -> float:
    """Return the seconds of CPU of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def charge(name: str, start_s: float) -> None:
    """Write what has been spent since `start_s` on the account `name`."""
    with (BILL / f"{os.getpid()}.jsonl").open("a") as lines:
        lines.write(json.dumps([name, cpu_s() - start_s]) + "\n")


def pytest_configure(config):
    BILL.mkdir(parents=True, exist_ok=True)
    if not hasattr(config, "workerinput"):
        for old in BILL.glob("*.jsonl"):
            old.unlink()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection():
    """From the process's first moment on: what was imported until now was for the collection."""
    result = yield
    charge("collection and imports", 0.0)
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    start_s = cpu_s()
    result = yield
    charge(item.nodeid, start_s)
    return result


def table(title: str, accounts: Counter[str], rows: int | None = None) -> None:
    """Print the dearest accounts."""
    print(f"\n| CPU s | {title} |\n|---:|---|")
    for name, spent_s in accounts.most_common(rows):
        print(f"| {spent_s:.1f} | {name} |")


def main() -> None:
    """Print the bill of the last run."""
    tests: Counter[str] = Counter()
    for path in BILL.glob("*.jsonl"):
        for line in path.read_text().splitlines():
            name, spent_s = json.loads(line)
            tests[name] += spent_s
    folders: Counter[str] = Counter()
    for name, spent_s in tests.items():
        folders["/".join(name.split("::")[0].split("/")[:2])] += spent_s
    print(f"{sum(tests.values()):.0f} s of CPU, {len(tests) - 1} tests")
    table("folder", folders)
    table("test", tests, DEAREST)


if __name__ == "__main__":
    main()
