"""Write one city of the ninth maker.

python -m benchmarks.makers.ninth OUT --band X|C --buildings N --seed S [--sound SHARE] [--courses KIND] [--years Y]
    [--along-line SHARE]

X: TerraSAR-X, 46 points a building. C: Sentinel-1, 12. Mechanisms have equal shares of the buildings that are unsound.
Labels also have `accepted` quadrants, the `mechanism`, its `parts`, the day on which damage `begins`, and settlement
and tilt of the whole building. Courses: `late` begin in the last fifth of the record, `sudden` ones are over within an
epoch, `quickening` ones become 5 times as fast in its last tenth. Along a line means: in the twentieth
of the town nearest to it; `line.geojson` has it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import head, line, parse, parser, refusing
from benchmarks.makers.ninth.city import SOUND, make_city
from benchmarks.makers.ninth.series import COURSES
from benchmarks.makers.ninth.settings import BANDS


def main(argv: Sequence[str] | None = None) -> None:
    """Write one city, and print what it holds."""
    asked = parser("makers.ninth", __doc__)
    asked.add_argument("out", type=Path, nargs="?", help="city folder to write; its name is the city's")
    asked.add_argument("--band", choices=list(BANDS), help="needed, but for --smoke")
    asked.add_argument("--buildings", type=int, default=1500)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--sound", type=float, default=SOUND, help=f"share of sound buildings; default {SOUND:g}")
    asked.add_argument("--courses", choices=list(COURSES), default="any", help="of the failures in time")
    asked.add_argument("--years", type=float, help="of the record; else drawn")
    asked.add_argument("--along-line", type=float, help="share of the failures along a line; else they are anywhere")
    given = parse(asked, argv, band="X", buildings=12)
    with tempfile.TemporaryDirectory() as scratch, refusing():
        if given.smoke and given.out is None:
            given.out = Path(scratch) / "xband-smoke"
        if given.out is None or given.band is None:
            asked.error("OUT and --band are needed; see --help")
        about = given.sound, given.courses, given.years, given.along_line
        make_city(given.out, given.band, given.buildings, given.seed, *about)
        print(head("file", "rows", "epochs"))
        for path in sorted(given.out.glob("*.csv")):
            columns, *rows = path.read_text(encoding="utf-8").splitlines()
            print(line(path.name, f"{len(rows):,}", sum(name.isdigit() for name in columns.split(","))))


if __name__ == "__main__":
    main()
