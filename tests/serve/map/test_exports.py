"""Files that the web page writes by itself."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import shapely

EXPORTS = Path(__file__).parents[3] / "web" / "src" / "exports.js"
HOLE = shapely.box(179.9999, -16.8, 180.0002, -16.7998).difference(
    shapely.box(180.00005, -16.79995, 180.0001, -16.79985)
)


@pytest.mark.skipif(shutil.which("node") is None, reason="node builds the page, and is not here")
@pytest.mark.parametrize(
    ("shape", "parts"),
    [
        (shapely.box(179.9, -16.8, 179.9001, -16.7999), 1),
        (shapely.box(180.0001, -16.8, 180.0002, -16.7999), 1),
        (shapely.box(180.0, -16.8, 180.0002, -16.7999), 1),
        (shapely.box(179.9998, -16.8, 180.0, -16.7999), 1),
        (shapely.box(179.9999, -16.8, 180.0002, -16.7999), 2),
        (HOLE, 2),
        (shapely.MultiPolygon([shapely.box(179.9, 1, 179.91, 1.1), shapely.box(179.99, 1, 180.01, 1.1)]), 3),
    ],
    ids=["west", "east", "from 180", "to 180", "across", "hole", "several"],
)
def test_a_footprint_across_180_degrees_is_cut_there(shape, parts):
    """As RFC 7946, 3.1.9, asks; the page itself draws it whole, beyond 180."""
    code = f"import {{ geojsonOf, csvOf }} from {json.dumps(EXPORTS.as_uri())};" + (
        f"const all = [{{ geometry: {shapely.to_geojson(shape)} }}];"
        "console.log(JSON.stringify([JSON.parse(geojsonOf([], all)).features[0].geometry, csvOf([], all)]))"
    )
    run = subprocess.run(["node", "--input-type=module", "-e", code], capture_output=True, text=True, check=True)
    geometry, table = json.loads(run.stdout)
    found = shapely.from_geojson(json.dumps(geometry))
    assert shapely.get_num_geometries(found) == parts
    assert found.is_valid
    for part in shapely.get_parts(found):
        west, _, east, _ = part.bounds
        assert -180 <= west < east <= 180
        assert east - west < 1
    assert found.area == pytest.approx(shape.area, rel=1e-6)
    wkt = table.splitlines()[1].strip().removeprefix(",").strip('"')
    assert shapely.from_wkt(wkt).equals(found)
