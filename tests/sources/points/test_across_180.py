"""Points at 180 degrees are at one place, whatever their longitudes count from."""

import numpy as np
import pandas as pd
import pytest
import yaml
from pyproj import Transformer

from plumbline.params import Ingest
from tests.refusals import warning_keys
from tests.sources.footprints.test_cases import CASES
from tests.sources.points.opening import read_points

FIJI = CASES / "fiji-geojson"


def read(tmp_path, change, **columns):
    """The points with other coordinates, in the CRS and columns given."""
    about = yaml.safe_load((FIJI / "my.yaml").read_text())["ingest"]
    (product,) = about["products"].values()
    product |= columns
    table = pd.read_csv(FIJI / "fj_asc.csv")
    table["X"], table["Y"] = change(table["X"].to_numpy(), table["Y"].to_numpy())
    table.to_csv(tmp_path / "fj_asc.csv", index=False)
    return read_points(tmp_path / "fj_asc.csv", Ingest(**about).products)


WEB = {
    "crs": "EPSG:3857",
    "columns": {"point_id": "id", "easting": "X", "northing": "Y", "height": "h", "incidence": "inc", "heading": "az"},
}


@pytest.mark.parametrize(
    ("change", "columns"),
    [
        (lambda lon, lat: (lon % 360, lat), {}),
        (Transformer.from_crs("EPSG:4326", "EPSG:3857", always_xy=True).transform, WEB),
    ],
    ids=["from 0", "web"],
)
def test_their_zone_is_the_one_there(tmp_path, caplog, change, columns):
    track = read(tmp_path, change, **columns)
    assert track.crs in ("EPSG:32760", "EPSG:32701")
    assert np.ptp(track.easting) < 150
    assert not warning_keys(caplog)
