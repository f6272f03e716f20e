"""Write one city of the eighth maker.

python -m benchmarks.makers.eighth OUT --kind xband|sentinel|sentinel_real --buildings N --seed S
    [--residuals ASCENDING DESCENDING] [--revisit-days N] [--years Y]

The judged cities (docs/pretrained.md) have 3,000 buildings: xband seed 101; sentinel seeds 201, and 202 with
--revisit-days 12 --years 5.5; sentinel_real seed 301 with the residuals of tracks 117 and 022 of Ustica.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import maker, write_city
from benchmarks.makers.eighth.city import make_city
from benchmarks.makers.eighth.sensors import SENSORS


def main(argv: Sequence[str] | None = None) -> None:
    """Write one city of the eighth maker."""
    asked = maker("makers.eighth", __doc__, SENSORS, 3000)
    asked.add_argument(
        "--residuals",
        type=Path,
        nargs=2,
        metavar=("ASCENDING", "DESCENDING"),
        help="EGMS L2b products of one place, csv or zip, for sentinel_real",
    )
    asked.add_argument("--revisit-days", type=int, help="between epochs, instead of the satellite's own")
    asked.add_argument("--years", type=float, help="of observation, instead of the satellite's own")
    write_city(
        asked,
        argv,
        lambda given: make_city(
            given.out, given.kind, given.buildings, given.seed, given.residuals, given.revisit_days, given.years
        ),
    )


if __name__ == "__main__":
    main()
