"""What the map shows of a field, from a file as `plumbline restore` writes it."""

import base64
import io

import numpy as np
import pytest

from plumbline.fields.prepare.grid import Grid
from plumbline.fields.restore.outputs import field_document, write_cog

rasterio = pytest.importorskip("rasterio")


def test_the_map_shows_gradients_in_their_unit(tmp_path):
    east = np.tile(np.arange(40.0), (30, 1))
    bands = {
        "los_mm": east - 20,
        "los_std_mm": 0 * east + 2,
        "gradient_mm_m": east / 1000,
        "gradient_low_mm_m": 0 * east,
        "gradient_high_mm_m": east / 500,
    }
    bands["gradient_mm_m"][:3] = np.nan
    whole = np.stack(list(bands.values())).astype(np.float32)
    grid = Grid(4_600_000.0, 1_750_000.0, 10.0, 30, 40)
    place = {"crs": "EPSG:3035", "work": tmp_path, "out": tmp_path / "f.tif"}
    write_cog(lambda a, b: whole[:, a:b], list(bands), grid, tags={}, **place)
    overlays = {one["name"]: one for one in field_document(tmp_path / "f.tif", "T")["overlays"]}
    ends = {name: [one["legend"][key] for key in ("least", "most", "unit")] for name, one in overlays.items()}
    assert ends == {
        "Towards the satellite": [-20.0, 20.0, "mm"],
        "Towards the satellite: uncertainty": [0.0, 2.0, "mm"],
        "Gradient": [0.0, 0.039, "mm/m"],
        "Gradient: at least (90 % interval)": [0.0, 0.001, "mm/m"],
        "Gradient: at most (90 % interval)": [0.0, 0.078, "mm/m"],
    }
    with rasterio.open(io.BytesIO(base64.b64decode(overlays["Gradient"]["png"].split(",")[1]))) as picture:
        shown = picture.read(4)
    assert not shown[:3].any()  # no value, no colour
    assert (shown[3:] == 255).all()
