"""Write one city of the seventh maker.

python -m benchmarks.makers.seventh OUT --kind xband|sentinel|sentinel_12_days|sentinel_real --buildings N --seed S
    [--residuals ASCENDING DESCENDING]
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import maker, write_city
from benchmarks.makers.seventh.city import make_city
from benchmarks.makers.seventh.settings import KINDS


def main(argv: Sequence[str] | None = None) -> None:
    """Write one city."""
    asked = maker("makers.seventh", __doc__, KINDS, 3000)
    asked.add_argument(
        "--residuals",
        type=Path,
        nargs=2,
        metavar=("ASCENDING", "DESCENDING"),
        help="EGMS L2b products, csv or zip, for sentinel_real",
    )
    write_city(
        asked, argv, lambda given: make_city(given.out, given.kind, given.buildings, given.seed, given.residuals)
    )


if __name__ == "__main__":
    main()
