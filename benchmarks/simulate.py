"""How fast invented cities are made, and in how much memory.

    python -m benchmarks.simulate [BUILDINGS ...]

Each city of C-band buildings (five years, 12 days apart) is made with one worker and with all cores, in processes of
their own; memory is the largest sum over a process and its children. The bytes must be equal. Prints Markdown.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import ROOT, cores, head, line, parse, parser, stamp, watched
from plumbline.core.files import sha256_folder

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


def run(script: Path, buildings: int, out: Path, workers: int) -> tuple[float, float]:
    """Return seconds and peak memory in MB of making one city."""
    command = [sys.executable, script, buildings, out, workers]
    seconds, memory, code = watched(command, env=os.environ | {"PYTHONPATH": str(ROOT / "src")})
    if code:
        raise SystemExit(code)
    return seconds, memory


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    asked = parser("simulate", __doc__)
    asked.add_argument("buildings", type=int, nargs="*", default=[20_000])
    asked.add_argument("--workers", type=int, nargs="+", default=sorted({1, cores()}))
    given = parse(asked, argv, buildings=[40], workers=[1, 2])
    print(f"{stamp()}\n")
    print(head("buildings", "workers", "s", "buildings/s", "points/s", "peak MB", "times one worker"))
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
