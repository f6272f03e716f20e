"""Write one held-out city.

python -m benchmarks.heldout OUT --kind xband|sentinel|sentinel_real --buildings N --seed S
    [--residuals FILE [--neighbours N]]
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import maker, write_city
from benchmarks.heldout.city import make_city
from benchmarks.heldout.sensors import SENSORS


def main(argv: Sequence[str] | None = None) -> None:
    """Write one city."""
    asked = maker("heldout", __doc__, SENSORS, 1500)
    asked.add_argument("--residuals", type=Path, help="EGMS L2b product, csv or zip, for sentinel_real")
    asked.add_argument(
        "--neighbours", type=int, default=1, help="of a residual the median line of so many series is taken; 1: its own"
    )
    write_city(
        asked,
        argv,
        lambda given: make_city(given.out, given.kind, given.buildings, given.seed, given.residuals, given.neighbours),
    )


if __name__ == "__main__":
    main()
