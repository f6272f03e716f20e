"""Points at 180 degrees are at one place, whatever their longitudes count from."""

import csv

import numpy as np
import pytest
import yaml

from plumbline.params import Ingest
from plumbline.sources.points.read import read_points
from tests.sources.footprints.test_cases import CASES

FIJI = CASES / "fiji-geojson"
ABOUT = yaml.safe_load((FIJI / "my.yaml").read_text())["ingest"]


def read(tmp_path, change):
    with (FIJI / "fj_asc.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        row["X"] = f"{change(float(row['X'])):.9f}"
    path = tmp_path / "fj_asc.csv"
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return read_points(path, Ingest(**ABOUT).products)


@pytest.mark.parametrize("change", [lambda lon: lon % 360, lambda lon: (lon + 180) % 360 - 180])
def test_longitudes_count_from_0_or_from_minus_180(tmp_path, caplog, change):
    track = read(tmp_path, change)
    assert track.crs in ("EPSG:32760", "EPSG:32701")
    assert np.ptp(track.easting) < 150
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
