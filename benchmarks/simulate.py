"""How fast invented cities are made, and in how much memory.

    python -m benchmarks.simulate [BUILDINGS ...]

Each city of C-band buildings (five years, 12 days apart) is made with one worker and with all cores, in processes of
their own; memory is the largest sum over a process and its children. The bytes must be equal. Besides: one block of
histories as text, by `plumbline.simulate.radar.egms_writer` and by the ways that were used or thought of before. Prints
Markdown.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from benchmarks.common import ROOT, cores, head, line, parse, parser, stamp
from plumbline.core.files import sha256_folder
from plumbline.simulate.radar.egms_writer import history_cells, rows

RUN = """
import sys
from pathlib import Path
from plumbline.params import Simulate
from plumbline.simulate.stage import simulate
if __name__ == "__main__":
    city = {"band": "C", "buildings": int(sys.argv[1]), "seed": 1, "years": 5, "revisit_days": 12}
    few = {"band": "C", "buildings": 4, "seed": 1}
    simulate(Simulate.model_validate({"cities": {"one": city}, "showcase": few}), Path(sys.argv[2]), int(sys.argv[3]))
"""
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident(pid: int) -> int:
    """Bytes resident in a process and all below it, shared pages counted as often as they are shared."""
    try:
        own = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return own + sum(resident(int(child)) for child in children)


def run(script: Path, buildings: int, out: Path, workers: int) -> tuple[float, float]:
    """Seconds and peak memory in MB of making one city."""
    began, peak = time.perf_counter(), 0
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen([sys.executable, str(script), str(buildings), str(out), str(workers)], env=environment)
    while process.poll() is None:
        peak = max(peak, resident(process.pid))
        time.sleep(0.2)
    if process.returncode:
        raise SystemExit(process.returncode)
    return time.perf_counter() - began, peak / 1e6


def one_by_one(values: np.ndarray) -> bytes:
    """Python's own formatting."""
    return "".join(",".join(f"{value:.1f}" for value in row) + "\n" for row in values.tolist()).encode()


def by_decimals(values: np.ndarray) -> bytes:
    """The way before: a table of decimals, written by pyarrow."""
    columns = []
    for column in values.T:
        scaled = np.rint(column * 10).astype(np.int64)
        words = np.ascontiguousarray(np.stack([scaled, scaled >> 63], axis=1))
        columns.append(pa.Array.from_buffers(pa.decimal128(18, 1), len(scaled), [None, pa.py_buffer(words)]))
    stream = pa.BufferOutputStream()
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
    pyarrow.csv.write_csv(pa.table(columns, names=[str(i) for i in range(len(columns))]), stream, options)
    return stream.getvalue().to_pybytes()


def formatting(histories: int) -> None:
    """Print the table of the ways to text."""
    values = np.round(np.random.default_rng(0).normal(0, 20, (histories, 150)), 1) + 0.0
    ways: dict[str, Callable[[np.ndarray], bytes]] = {
        "pyarrow decimals (before)": by_decimals,
        "Python, one by one": one_by_one,
        "plumbline.simulate.radar.egms_writer": lambda given: rows([history_cells(given)]),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    texts = {}
    for _ in range(6):
        for name, way in ways.items():
            began = time.perf_counter()
            texts[name] = way(values)
            times[name].append(time.perf_counter() - began)
    if len(set(texts.values())) != 1:
        raise SystemExit("the ways differ")
    baseline = float(np.median(times["pyarrow decimals (before)"][1:]))
    print(head("histories to text", "million numbers/s", "times the baseline"))
    for name, seconds in times.items():
        median = float(np.median(seconds[1:]))
        print(line(name, f"{values.size / median / 1e6:.1f}", f"{baseline / median:.1f}"))


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    asked = parser("simulate", __doc__)
    asked.add_argument("buildings", type=int, nargs="*", default=[20_000])
    asked.add_argument("--block", type=int, default=4096, help="histories of the block")
    asked.add_argument("--workers", type=int, nargs="+", default=sorted({1, cores()}))
    given = parse(asked, argv, buildings=[40], block=64, workers=[1, 2])
    print(f"{stamp()}\n")
    formatting(given.block)
    print("\n" + head("buildings", "workers", "s", "buildings/s", "points/s", "peak MB", "times one worker"))
    for buildings in given.buildings:
        alone, digests = 0.0, set()
        for workers in given.workers:
            with tempfile.TemporaryDirectory() as scratch:
                script, out = Path(scratch) / "run.py", Path(scratch) / "out"
                script.write_text(RUN)
                seconds, memory = run(script, buildings, out, workers)
                points = sum(path.read_bytes().count(b"\n") - 1 for path in out.glob("cities/one/EGMS*.csv"))
                digests.add(sha256_folder(out))
            alone = alone or seconds
            cells = [
                f"{buildings / seconds:,.0f}",
                f"{points / seconds:,.0f}",
                f"{memory:,.0f}",
                f"{alone / seconds:.2f}",
            ]
            print(line(f"{buildings:,}", workers, f"{seconds:.0f}", *cells), flush=True)
        if len(digests) != 1:
            raise SystemExit("the bytes differ with the number of workers")


if __name__ == "__main__":
    main()
