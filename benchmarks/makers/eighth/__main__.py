"""Write one city of the eighth maker.

python -m benchmarks.makers.eighth OUT --kind xband|sentinel|sentinel_real --buildings N --seed S
    [--residuals ASCENDING DESCENDING] [--revisit-days N] [--years Y]

The judged cities (docs/pretrained.md) have 3,000 buildings: xband seed 101; sentinel seeds 201, and 202 with
--revisit-days 12 --years 5.5; sentinel_real seed 301 with the residuals of tracks 117 and 022 of Ustica.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.makers.eighth.city import make_city
from benchmarks.makers.eighth.sensors import SENSORS
from plumbline.core.errors import InputError


def main() -> None:
    """Write one city of the eighth maker."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.makers.eighth", description=main.__doc__)
    parser.add_argument("out", type=Path, help="city folder to write")
    parser.add_argument("--kind", choices=list(SENSORS), required=True)
    parser.add_argument("--buildings", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--residuals", type=Path, nargs=2, metavar=("ASCENDING", "DESCENDING"),
        help="EGMS L2b products of one place, csv or zip, for sentinel_real",
    )  # fmt: skip
    parser.add_argument("--revisit-days", type=int, help="between epochs, instead of the satellite's own")
    parser.add_argument("--years", type=float, help="of observation, instead of the satellite's own")
    given = parser.parse_args()
    try:
        make_city(
            given.out, given.kind, given.buildings, given.seed, given.residuals, given.revisit_days, given.years
        )  # fmt: skip
    except InputError as error:
        print(f"ERROR {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
