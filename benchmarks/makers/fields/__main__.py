"""Write one held-out scene of 1.28 km.

python -m benchmarks.makers.fields OUT --seed N --domain noise|atmosphere|unwrapping|sparse|plain [--tracks 2]

OUT holds a product a track (`EGMS_L2b_*.csv`), `truth.npz` (`up_mm`, `east_mm` at the centres of 10 m cells, first row
north; `left`, `top`, `cell_m`) and `scene.json`, which says what moves and how.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import head, line, parse, parser, refusing
from benchmarks.makers.fields.scene import make_scene
from benchmarks.makers.fields.settings import DOMAINS


def main(argv: Sequence[str] | None = None) -> None:
    """Write one scene, and print what its products hold."""
    asked = parser("makers.fields", __doc__)
    asked.add_argument("out", type=Path, nargs="?", help="scene folder to write")
    asked.add_argument("--domain", choices=list(DOMAINS), help="needed, but for --smoke")
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--tracks", type=int, default=2, help="1 to 3; default 2: ascending and descending")
    given = parse(asked, argv, domain="sparse")
    with tempfile.TemporaryDirectory() as scratch, refusing():
        if given.smoke and given.out is None:
            given.out = Path(scratch) / "scene"
        if given.out is None or given.domain is None:
            asked.error("OUT and --domain are needed; see --help")
        made = make_scene(given.out, given.domain, given.seed, given.tracks)
        print(head("file", "rows", "epochs"))
        for track in made["tracks"]:
            print(line(track["file"], f"{track['points']:,}", track["epochs"]))


if __name__ == "__main__":
    main()
