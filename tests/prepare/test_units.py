"""The same city in files of another unit: read as what they are, and as what they are not."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from plumbline.params import Ingest
from plumbline.prepare.stage import prepare
from plumbline.sources.city.ingest import ingest
from tests.prepare.made import SMALL, simulate_small
from tests.prepare.split.test_same_ground import DESCRIBED
from tests.refusals import refuses
from tests.sources.points.opening import read_points

MOTION = ("speed", "noise_low", "noise_high")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def cities(tmp_path_factory):
    """A city, each track as a table of columns in mm and in m."""
    root = tmp_path_factory.mktemp("units")
    (city,) = simulate_small(root / "made", 50, years=1.5, damaged=0.1)
    for unit, factor, digits in (("mm", 1.0, 1), ("m", 1e-3, 4)):
        (root / unit).mkdir()
        for path in city.iterdir():
            if path.suffix == ".csv" and path.name != "labels.csv":
                write_table(root / unit / path.name, read_points(path), factor, digits)
            else:
                shutil.copy(path, root / unit)
    return root


def write_table(path, track, factor, digits):
    values = np.round(track.displacement.astype(float) * factor, digits)
    days = [f"D{str(day).replace('-', '')}" for day in track.epochs]
    table = pd.DataFrame(
        np.column_stack([track.easting, track.northing, track.height, track.los, values]),
        columns=["x", "y", "h", "le", "ln", "lu", *days],
    )
    table.insert(0, "id", track.point_id)
    table.to_csv(path, index=False)


def audited(folder, out, unit):
    """Status and value of the rules on motion, of a city whose displacements are said to be in `unit`."""
    described = DESCRIBED | {"units": {"displacement": unit}, "crs": "EPSG:3035"}
    ingest([folder], Ingest.model_validate({"products": {"*": described}}), out / "in")
    prepare(out / "in", SMALL, out / "out")
    rules = json.loads((out / "out" / "audit" / "audit.json").read_text())["rules"]
    return {rule["name"]: (rule["status"], rule["value"]) for rule in rules if rule["name"] in MOTION}


def test_a_city_read_in_its_own_unit_passes(cities, tmp_path):
    found = audited(cities / "m", tmp_path, "m")
    assert {name: status for name, (status, _) in found.items()} == dict.fromkeys(MOTION, "pass")
    # What the simulator puts in: 2-5 mm of the point, and 2-5 mm that a building's points share.
    assert 1 < found["noise_low"][1] < 7


def test_metres_taken_for_millimetres_fail(cities, tmp_path):
    with refuses("audit.failed", "noise_low: 0.00", "bound 0.03", "Look at the unit of the displacements"):
        audited(cities / "m", tmp_path, "mm")
    assert not (tmp_path / "out").exists()


def test_millimetres_taken_for_metres_fail(cities, tmp_path):
    """By the reader, which meets an outlier far enough off."""
    with refuses("points.impossible_displacement", "100000 mm"):
        audited(cities / "mm", tmp_path, "m")
