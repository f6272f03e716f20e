"""Judge a released package on held-out cities, beside the least-squares engineer.

`python -m benchmarks.heldout.judge [--model PACKAGE|champion] CITY…` prints Markdown. A city is a folder with
points, footprints and `labels.csv`; where its name begins with a kind of `BARS`, the bars of that kind stand beside
the figures. Without `--model` the engineer is judged alone. `--report FOLDER` writes what the model's confidence is
worth: interval coverage by slices, accuracy against coverage, and all figures as JSON.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import geopandas
import numpy as np
import pandas as pd

from benchmarks.common import parse, parser, refusing
from benchmarks.heldout.report import Examined, write_report
from benchmarks.heldout.scores import BARS, ENGINEER, ENGINEER_ALL, MODEL, beside_labels, score, table
from benchmarks.makers.ninth.city import make_city
from plumbline.core.compass import QUADRANTS
from plumbline.core.errors import InputError
from plumbline.export.package import verify_package
from plumbline.params import Prepare
from plumbline.prepare.abstention import strain_error
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


def engineer(city: CityFiles, prepare: Prepare) -> tuple[pd.DataFrame, geopandas.GeoDataFrame]:
    """What least squares say of every building with enough points, as predictions; and the footprints.

    Beside them `strain_error_permille`, of the building's points.
    """
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
        "strain_error_permille": strain_error(sequences),
    }
    return pd.DataFrame(columns), buildings


def examine(folder: Path, model: str | None) -> Examined:
    """Judge one city, by the model and by least squares."""
    city = find_files(folder)
    labels = read_labels(city.labels)
    kind = max((name for name in BARS if city.name.startswith(name)), key=len, default="")
    prepare, said = Prepare(), None
    if model is not None:
        prepare = verify_package(resolve_model(model)).prepare
        said = predicted(city, model)
    by_hand, buildings = engineer(city, prepare)
    known = pd.DataFrame({"building_id": buildings["building_id"], "area_m2": buildings.geometry.area})
    rows = [(city.name, kind, ENGINEER_ALL, score(by_hand, labels, len(buildings)))]
    if said is None:
        return Examined(city.name, kind, rows, None, None, beside_labels(by_hand, labels))
    ok = said[said["status"] == "ok"]
    same = by_hand[by_hand["building_id"].isin(ok["building_id"])]
    both = (MODEL, ok), (ENGINEER, same)
    rows = [(city.name, kind, who, score(part, labels, len(buildings))) for who, part in both] + rows
    known = known.merge(by_hand[["building_id", "strain_error_permille"]], on="building_id")
    return Examined(
        city.name,
        kind,
        rows,
        said["status"].value_counts().to_dict(),
        beside_labels(ok, labels).merge(known, on="building_id"),
        beside_labels(same, labels),
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Judge and print."""
    asked = parser("heldout.judge", __doc__)
    asked.add_argument("cities", type=Path, nargs="*", metavar="CITY")
    asked.add_argument("--model", help="package folder, or a name that `plumbline predict` takes")
    asked.add_argument("--report", type=Path, metavar="FOLDER", help="write report.md, coverage.svg and scores.json")
    given = parse(asked, argv, model="pretrained")
    if not given.cities and not given.smoke:
        asked.error("the following arguments are required: CITY")
    with tempfile.TemporaryDirectory() as scratch, refusing():
        if given.smoke and not given.cities:
            given.cities = [Path(scratch) / "sentinel-smoke"]
            make_city(given.cities[0], "C", 40, 1)
            given.report = given.report or Path(scratch) / "report"
        names = [city.resolve().name for city in given.cities]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InputError(
                f"CITY: {twice[0]} found twice, and a report knows a city by its folder's name. Judge one at a time."
            )
        cities = [examine(city, given.model) for city in given.cities]
        if given.report is not None:
            write_report(cities, f"Held-out cities, {given.model or 'least squares'}", given.report)
    print(table([row for city in cities for row in city.rows]))


if __name__ == "__main__":
    main()
