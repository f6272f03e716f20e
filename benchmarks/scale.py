"""`ingest` and `prepare` on millions of points: time, and the peak memory of all processes together.

`python -m benchmarks.scale [POINTS]`; the default, 5 million points of 200 epochs, needs 25 GB of disk for an hour.
Prints Markdown; `docs/benchmarks` keeps dated copies.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import yaml

from benchmarks.common import ROOT, head, line, parse, parser, project_settings, stamp

POINTS_A_BUILDING = 13.5
"""On it and around it, in the simulator's C band, both tracks together."""


def memory_mb(root: int) -> float:
    """Proportional set size of a process and all below it: shared pages count once."""
    total, waiting = 0, [root]
    while waiting:
        pid = waiting.pop()
        try:
            total += int(re.search(r"^Pss: +(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)[1])  # type: ignore[index]
            for task in Path(f"/proc/{pid}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        except (OSError, TypeError):
            continue
    return total / 1024


def run(*arguments: str) -> tuple[float, float]:
    """Run a stage: seconds, and peak memory in MB."""
    began, peak = time.perf_counter(), 0.0
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen([sys.executable, "-m", "plumbline", *arguments], env=environment)
    ended = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not ended.wait(0.25):
            peak = max(peak, memory_mb(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = process.wait()
    ended.set()
    watcher.join()
    if code:
        sys.exit(f"{arguments} ended with {code}")
    return time.perf_counter() - began, peak


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    asked = parser("scale", __doc__)
    asked.add_argument("points", type=float, nargs="?", default=5e6)
    asked.add_argument("--years", type=float, default=3.75)
    given = parse(asked, argv, points=1000, years=1.0)
    params = project_settings()
    buildings = round(given.points / POINTS_A_BUILDING)
    params["simulate"]["cities"] = {
        "country": {"band": "C", "buildings": buildings, "seed": 1, "years": given.years, "revisit_days": 6}
    }
    params["simulate"]["showcase"] = {"band": "C", "buildings": 4, "seed": 2}
    with tempfile.TemporaryDirectory() as temporary, contextlib.chdir(temporary):
        Path("params.yaml").write_text(yaml.safe_dump(params))
        rows = {stage: run(stage) for stage in ("simulate", "ingest", "prepare")}
        city = Path("data/simulate/cities/country")
        size = sum(path.stat().st_size for path in city.glob("EGMS*.csv"))
        about = yaml.safe_load(Path("data/ingest/country/city.json").read_text())
        read = sum(track["points_read"] for track in about["tracks"])
        epochs = [track["epochs"] for track in about["tracks"]]
    print(f"{stamp()}\n")
    print(f"{buildings:,} buildings, {read:,} points of {epochs} epochs, {size / 1e9:.2f} GB of csv.\n")
    print(head("stage", "s", "points/s", "peak memory of all its processes, MB"))
    for stage, (seconds, peak) in rows.items():
        print(line(stage, f"{seconds:.0f}", f"{read / seconds:,.0f}", f"{peak:,.0f}"))


if __name__ == "__main__":
    main()
