"""Write one city of the ninth maker.

python -m benchmarks.makers.ninth OUT --band X|C --buildings N --seed S [--sound SHARE]

X: TerraSAR-X, 46 points a building. C: Sentinel-1, 12. Mechanisms have equal shares of the buildings that are unsound.
Labels also have `accepted` quadrants, the `mechanism` and its `parts`.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.common import maker, write_city
from benchmarks.makers.ninth.city import SOUND, make_city
from benchmarks.makers.ninth.settings import BANDS


def main(argv: Sequence[str] | None = None) -> None:
    """Write one city of the ninth maker."""
    asked = maker("makers.ninth", __doc__, BANDS, 1500, "--band")
    asked.add_argument("--sound", type=float, default=SOUND, help=f"share of sound buildings; default {SOUND:g}")
    write_city(
        asked,
        argv,
        lambda given: make_city(given.out, given.kind, given.buildings, given.seed, given.sound),
        "X",
    )


if __name__ == "__main__":
    main()
