"""Write one city of the seventh maker.

python -m benchmarks.makers.seventh OUT --kind xband|sentinel|sentinel_12_days|sentinel_real --buildings N --seed S
    [--residuals ASCENDING DESCENDING]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.makers.seventh.city import make_city
from benchmarks.makers.seventh.settings import KINDS
from plumbline.core.errors import InputError


def main() -> None:
    """Write one city."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.makers.seventh", description=main.__doc__)
    parser.add_argument("out", type=Path, help="city folder to write; its name is the city's")
    parser.add_argument("--kind", choices=list(KINDS), required=True)
    parser.add_argument("--buildings", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--residuals", type=Path, nargs=2, metavar=("ASCENDING", "DESCENDING"),
        help="EGMS L2b products, csv or zip, for sentinel_real",
    )  # fmt: skip
    given = parser.parse_args()
    try:
        make_city(given.out, given.kind, given.buildings, given.seed, given.residuals)
    except InputError as error:
        print(f"ERROR {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
