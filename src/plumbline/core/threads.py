"""Choose how long threads spin while they wait: long is best alone, and worst beside another program.

Threads of GNU OpenMP meet thousands of times a second. Alone on the machine it is fastest to wait for the others
without going to sleep; beside another busy program that takes the cores from the very thread that is waited for. The
figures: docs/decisions/0004. Neither setting changes a result.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import MutableMapping
from pathlib import Path

ALONE, BESIDE = 100_000, 1_000
"""Rounds of waiting before a thread sleeps."""
SET_BY_USER = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
LOOKS, BETWEEN_S = 5, 0.01
LOAD = Path("/proc/loadavg")


def set_spinning(environment: MutableMapping[str, str] = os.environ) -> None:
    """Set `GOMP_SPINCOUNT` before torch is loaded, unless the user has set it."""
    if any(name in environment for name in SET_BY_USER) or environment.get("OMP_NUM_THREADS") == "1":
        return
    environment["GOMP_SPINCOUNT"] = str(BESIDE if others_at_work() else ALONE)


def others_at_work(load: Path = LOAD) -> bool:
    """Return whether another process wants a core in most of a few samples; False if that cannot be measured."""
    found = []
    for look in range(LOOKS):
        if look:
            time.sleep(BETWEEN_S)
        try:
            found.append(int(load.read_text().split()[3].partition("/")[0]))  # runnable now, this process among them
        except (OSError, ValueError, IndexError):
            return False
    return statistics.median(found) > 1
