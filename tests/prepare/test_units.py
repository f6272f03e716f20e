"""The same city in files of another unit: read as what they are, and as what they are not."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from plumbline.core.errors import InputError
from plumbline.params import Ingest, Prepare, Simulate
from plumbline.prepare.stage import prepare
from plumbline.simulate.stage import simulate
from plumbline.sources.city.ingest import ingest
from tests.refusals import refuses
from tests.sources.points.opening import read_points

PARAMS = Prepare(block_m=40, split={"train": 0.4, "tune": 0.2, "calibrate": 0.2, "test": 0.2})
COLUMNS = {
    "point_id": "id",
    "easting": "e",
    "northing": "n",
    "height": "h",
    "los_east": "le",
    "los_north": "ln",
    "los_up": "lu",
}
MOTION = ("speed", "noise_low", "noise_high")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def cities(tmp_path_factory):
    """A city of C and one of X band, each track as a table of columns in mm and in m."""
    root = tmp_path_factory.mktemp("units")
    small = {"c": {"band": "C", "buildings": 50, "seed": 1}, "x": {"band": "X", "buildings": 40, "seed": 7}}
    showcase = {"band": "C", "buildings": 4, "seed": 3}
    simulate(
        Simulate.model_validate({"cities": small, "showcase": showcase, "years": 1.5, "damaged": 0.1}), root / "made"
    )
    for name in small:
        for unit, factor, digits in (("mm", 1.0, 1), ("m", 1e-3, 4)):
            folder = root / f"{name}_{unit}"
            folder.mkdir()
            for path in (root / "made" / "cities" / name).iterdir():
                if path.suffix != ".csv" or path.name == "labels.csv":
                    (folder / path.name).write_bytes(path.read_bytes())
                    continue
                write_table(folder / path.name, read_points(path), factor, digits)
    return root


def write_table(path, track, factor, digits):
    values = np.round(track.displacement.astype(float) * factor, digits)
    days = [f"D{str(day).replace('-', '')}" for day in track.epochs]
    table = pd.DataFrame(
        np.column_stack([track.easting, track.northing, track.height, track.los, values]),
        columns=["e", "n", "h", "le", "ln", "lu", *days],
    )
    table.insert(0, "id", track.point_id)
    table.to_csv(path, index=False)


def audited(folder, out, unit):
    """Status and value of the rules on motion, of a city whose displacements are said to be in `unit`."""
    described = {
        "columns": COLUMNS,
        "units": {"displacement": unit},
        "positive": "towards",
        "epochs": "D%Y%m%d",
        "crs": "EPSG:3035",
    }
    ingest([folder], Ingest.model_validate({"products": {"*": described}}), out / "in")
    prepare(out / "in", PARAMS, out / "out")
    rules = json.loads((out / "out" / "audit" / "audit.json").read_text())["rules"]
    return {rule["name"]: (rule["status"], rule["value"]) for rule in rules if rule["name"] in MOTION}


@pytest.mark.parametrize(("band", "unit"), [("c", "m"), ("x", "mm")])
def test_a_city_read_in_its_own_unit_passes(cities, tmp_path, band, unit):
    found = audited(cities / f"{band}_{unit}", tmp_path, unit)
    assert {name: status for name, (status, _) in found.items()} == dict.fromkeys(MOTION, "pass")
    # What the simulator puts in: 2-5 mm or 1-2 mm of the point, and 2-5 mm that a building's points share.
    assert 1 < found["noise_low"][1] < 7


def test_metres_taken_for_millimetres_fail(cities, tmp_path):
    with refuses("audit.failed", "noise_low: 0.00", "bound 0.03", "Look at the unit of the displacements"):
        audited(cities / "c_m", tmp_path, "mm")
    assert not (tmp_path / "out").exists()


# By the reader, where it meets an outlier far enough off: surely on C band. On X band it depends on the city.
@pytest.mark.parametrize(
    ("band", "keys"),
    [("c", {"points.impossible_displacement"}), ("x", {"points.impossible_displacement", "audit.failed"})],
)
def test_millimetres_taken_for_metres_fail(cities, tmp_path, band, keys):
    with pytest.raises(InputError, match=r"100000 mm|noise_high: \d{3,}") as refusal:
        audited(cities / f"{band}_mm", tmp_path, "m")
    assert refusal.value.key in keys
