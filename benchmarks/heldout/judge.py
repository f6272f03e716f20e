"""Judge a released package on held-out cities, beside the least-squares engineer.

`python -m benchmarks.heldout.judge [--model PACKAGE|champion] CITY…` prints Markdown. A city is a folder with
points, footprints and `labels.csv`; where its name begins with a kind of `BARS`, the bars of that kind stand beside
the figures. Without `--model` the engineer is judged alone. `benchmarks.heldout.mechanisms` has slices of one city.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.common import parse, parser, refusing
from benchmarks.heldout.scores import BARS, ENGINEER, ENGINEER_ALL, MODEL, Scores, score, table
from benchmarks.makers.ninth.city import make_city
from plumbline.core.compass import QUADRANTS
from plumbline.core.errors import InputError
from plumbline.export.package import verify_package
from plumbline.params import Prepare
from plumbline.prepare.buildings import prepare_buildings
from plumbline.release.resolve import resolve_model
from plumbline.serve.predictions import read_predictions
from plumbline.sources.city.files import CityFiles, find_files
from plumbline.sources.city.in_memory import read_tracks
from plumbline.sources.city.labels import read_labels
from plumbline.sources.footprints.buildings import read_buildings
from plumbline.validate.measure import least_squares


def predicted(city: CityFiles, model: str) -> pd.DataFrame:
    """What the command `plumbline predict` says of a city."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "predictions.parquet"
        points = [word for path in city.products for word in ("--points", str(path))]
        command = ["predict", *points, "--buildings", str(city.footprints), "--model", model, "--output", str(output)]
        done = subprocess.run(
            [sys.executable, "-m", "plumbline", *command], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise InputError(f"plumbline predict ended with {done.returncode}: {done.stderr.strip()}")
        return pd.DataFrame(read_predictions(output).drop(columns="geometry"))


def engineer(city: CityFiles, prepare: Prepare) -> tuple[pd.DataFrame, int]:
    """What least squares say of every building with enough points, as predictions; and the number of footprints."""
    tracks = read_tracks(city.products)
    buildings = read_buildings(city.footprints, tracks[0].crs)
    sequences = prepare_buildings(tracks, buildings, prepare).sequences
    said = least_squares(sequences)
    columns = {
        "building_id": sequences.building_id.astype(object),
        "n_points": sequences.length,
        "quadrant": np.array(QUADRANTS, object)[said.probability.argmax(1)],
        "quadrant_confidence": said.probability.max(1),
        "severity_permille": said.severity,
        "severity_low": said.low,
        "severity_high": said.high,
    }
    return pd.DataFrame(columns), len(buildings)


def examine(folder: Path, model: str | None) -> list[tuple[str, str, str, Scores]]:
    """Judge one city, by the model and by least squares; return its name, kind, who judged, and the scores."""
    city = find_files(folder)
    labels = read_labels(city.labels)
    kind = max((name for name in BARS if city.name.startswith(name)), key=len, default="")
    prepare = Prepare() if model is None else verify_package(resolve_model(model)).prepare
    by_hand, buildings = engineer(city, prepare)
    parts = [(ENGINEER_ALL, by_hand)]
    if model is not None:
        said = predicted(city, model)
        ok = said[said["status"] == "ok"]
        parts = [(MODEL, ok), (ENGINEER, by_hand[by_hand["building_id"].isin(ok["building_id"])]), *parts]
    return [(city.name, kind, who, score(part, labels, buildings)) for who, part in parts]


def main(argv: Sequence[str] | None = None) -> None:
    """Judge and print."""
    asked = parser("heldout.judge", __doc__)
    asked.add_argument("cities", type=Path, nargs="*", metavar="CITY")
    asked.add_argument("--model", help="package folder, or a name that `plumbline predict` takes")
    given = parse(asked, argv, model="pretrained")
    if not given.cities and not given.smoke:
        asked.error("the following arguments are required: CITY")
    with tempfile.TemporaryDirectory() as scratch, refusing():
        if given.smoke and not given.cities:
            given.cities = [Path(scratch) / "sentinel-smoke"]
            make_city(given.cities[0], "C", 40, 1)
        rows = [row for city in given.cities for row in examine(city, given.model)]
    print(table(rows))


if __name__ == "__main__":
    main()
