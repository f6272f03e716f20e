"""What the engineer's corner fits find of the damage that borrowed mode puts into a folder of real points.

    python -m benchmarks.borrowed ../shared/data/ustica docs/borrowed_ustica.png

The folder holds EGMS L2b products and one file of footprints; other files in it (EGMS L3) are left alone. Prints
Markdown and, where a second argument says where, draws severity found against severity put in.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.common import head, line, parse, parser
from plumbline.params import Prepare, Simulate
from plumbline.prepare.buildings import prepare_buildings
from plumbline.simulate.stage import simulate
from plumbline.sources.footprints.buildings import read_buildings
from plumbline.sources.points.read import read_points
from plumbline.validate.measure import least_squares

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PATTERNS = ("EGMS_L2b*.zip", "EGMS_L2b*.csv", "*.geojson")
LEVELS = {"easy": "tab:green", "medium": "tab:orange", "hard": "tab:red"}
Array = NDArray[np.float64]


def recover(folder: Path) -> pd.DataFrame:
    """Put damage into the products of `folder`, and look for it: severity and quadrant put in, found, and level."""
    with tempfile.TemporaryDirectory() as scratch:
        borrowed, out = Path(scratch) / "borrowed", Path(scratch) / "out"
        borrowed.mkdir()
        for path in (path for pattern in PATTERNS for path in folder.glob(pattern)):
            (borrowed / path.name).symlink_to(path.resolve())
        small = {"band": "C", "buildings": 4, "seed": 0}
        sections = {"cities": {"unused": small}, "showcase": small, "borrowed": {"real": {"folder": borrowed}}}
        simulate(Simulate.model_validate(sections), out, workers=1)
        city = out / "cities" / "real"
        tracks = [read_points(path) for path in sorted(city.glob("*.csv")) if path.name != "labels.csv"]
        buildings = read_buildings(city / "footprints.geojson", tracks[0].crs)
        labels = pd.read_csv(city / "labels.csv", keep_default_na=False).set_index("building_id")
        sequences = prepare_buildings(tracks, buildings, Prepare()).sequences
    found = least_squares(sequences)
    put_in = labels.loc[sequences.building_id]
    return pd.DataFrame(
        {
            "put_in": put_in["severity_permille"].to_numpy(),
            "found": np.asarray(found.severity, float),
            "quadrant": put_in["quadrant"].to_numpy(),
            "found_quadrant": np.array(["NE", "NW", "SW", "SE"])[np.asarray(found.probability).argmax(axis=1)],
            "level": put_in["difficulty"].to_numpy(),
        }
    )


def correlation(table: pd.DataFrame) -> float:
    """Rank correlation (Spearman) of severity found with severity put in."""
    return float(table["put_in"].rank().corr(table["found"].rank()))


def invented(out: Path) -> Path:
    """Have a little city simulated in place of real points, whose motion is put aside as that of real ones is."""
    small = {"band": "C", "buildings": 40, "seed": 0}
    sections = {"cities": {"unused": small}, "showcase": small, "years": 2.0}
    simulate(Simulate.model_validate(sections), out, workers=1)
    return out / "showcase"


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print and draw."""
    asked = parser("borrowed", __doc__)
    asked.add_argument("folder", type=Path, nargs="?", default=Path("../shared/data/ustica"))
    asked.add_argument("picture", type=Path, nargs="?")
    given = parse(asked, argv, folder=None)
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or invented(Path(scratch) / "invented")
        show(recover(folder), given.picture or Path(scratch) / "picture.png")


def show(table: pd.DataFrame, picture: Path) -> None:
    """Print the table and draw."""
    print(head("level", "buildings", "rank correlation", "median absolute error, permille", "quadrant right"))
    figure, axes = plt.subplots(figsize=(5.2, 5), dpi=110)
    for name, part in [("all", table), *((level, table[table["level"] == level]) for level in LEVELS)]:
        error = (part["found"] - part["put_in"]).abs().median()
        damaged = part[part["quadrant"] != ""]
        right = (damaged["quadrant"] == damaged["found_quadrant"]).mean()
        print(line(name, len(part), f"{correlation(part):.2f}", f"{error:.2f}", f"{right:.2f}"))
        if name in LEVELS:
            shown = np.maximum(part[["put_in", "found"]], 0.05)
            axes.scatter(shown["put_in"], shown["found"], s=9, color=LEVELS[name], alpha=0.7, label=name)
    axes.plot([0.05, 10], [0.05, 10], color="0.5", linewidth=1)
    axes.set(xscale="log", yscale="log", xlim=(0.04, 12), ylim=(0.04, 12))
    axes.set(xlabel="severity put in, permille (0.05: less, or none)", ylabel="severity found by corner fits, permille")
    axes.set_title(f"{len(table)} footprints over real points, rank correlation {correlation(table):.2f}", fontsize=10)
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(picture)


if __name__ == "__main__":
    main()
