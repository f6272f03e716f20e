"""Write one held-out city.

python -m benchmarks.heldout OUT --kind xband|sentinel|sentinel_real --buildings N --seed S
    [--residuals FILE [--neighbours N]]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.heldout.city import make_city
from benchmarks.heldout.sensors import SENSORS
from plumbline.core.errors import InputError


def main() -> None:
    """Write one city."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.heldout", description=main.__doc__)
    parser.add_argument("out", type=Path, help="city folder to write")
    parser.add_argument("--kind", choices=list(SENSORS), required=True)
    parser.add_argument("--buildings", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--residuals", type=Path, help="EGMS L2b product, csv or zip, for sentinel_real")
    parser.add_argument(
        "--neighbours", type=int, default=1, help="of a residual the median line of so many series is taken; 1: its own"
    )
    given = parser.parse_args()
    try:
        make_city(given.out, given.kind, given.buildings, given.seed, given.residuals, given.neighbours)
    except InputError as error:
        print(f"ERROR {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
