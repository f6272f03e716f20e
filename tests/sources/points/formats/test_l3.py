import numpy as np
import pytest

from plumbline.params import Product
from plumbline.sources.points.formats.egms import CELLS
from tests.refusals import refuses
from tests.sources.make import EPOCHS, L3, text, zipped
from tests.sources.points.opening import open_points, read_points
from tests.sources.points.write_ortho import OLDER, cells


def write(tmp_path, name="EGMS_L3_E45N17_100km_U_2020_2024_1.csv", header=L3):
    path = tmp_path / name
    path.write_text(text(cells(header=header), [*header, *EPOCHS]), encoding="utf-8")
    return path


@pytest.mark.parametrize("header", [L3, OLDER], ids=["newer", "older"])
@pytest.mark.parametrize(("letter", "vector"), [("U", [0, 0, 1]), ("E", [1, 0, 0])])
def test_the_line_of_sight_of_up_is_up_and_of_east_is_east(tmp_path, header, letter, vector):
    track = read_points(write(tmp_path, f"EGMS_L3_E45N17_100km_{letter}_2020_2024_1.csv", header))
    assert track.crs == "EPSG:3035"
    np.testing.assert_array_equal(track.los, [vector] * 6)
    np.testing.assert_array_equal(track.easting, 4_597_550 + 100 * np.arange(6))
    np.testing.assert_array_equal(track.height, np.arange(6) + 0.5)
    np.testing.assert_array_equal(track.displacement[2], np.array([2.0, -2.1, 2.2, -2.3], np.float32))
    np.testing.assert_array_equal(track.rmse, np.full(6, 0.5, np.float32))
    assert track.coherence is None


def test_the_name_in_the_zip_says_it_where_the_zip_does_not_and_it_is_said(tmp_path, caplog):
    content = text(cells(), [*L3, *EPOCHS])
    path = zipped(tmp_path / "download.zip", {"EGMS_L3_E45N17_100km_E_2020_2024_1.csv": content})
    with caplog.at_level("INFO", "plumbline"):
        assert read_points(path).los[0].tolist() == [1, 0, 0]
    assert "by its name, the motion is east" in caplog.text
    assert open_points(path).notes == (CELLS, "by its name, the motion is east")


def test_a_name_that_does_not_say_it_is_refused_and_what_is_stated_counts_before_it(tmp_path):
    path = write(tmp_path, "ortho.csv")
    with refuses("egms.unknown_component", path, "neither E nor U", "{component: up}"):
        read_points(path)
    both = zipped(tmp_path / "L3_U.zip", {"L3_E.csv": path.read_text()})
    with refuses("egms.unknown_component", both, "both E and U"):
        read_points(both)
    source = open_points(both, {"L3*": Product(component="east")})
    assert source.notes == (CELLS,)
    assert next(source.blocks()).los[0].tolist() == [1, 0, 0]


def test_an_l2_product_without_its_line_of_sight_is_no_l3(tmp_path):
    header = ["pid", "easting", "northing", "height_ortho", "rmse_ts", "temporal_coherence", "mean_velocity"]
    path = tmp_path / "x_U_.csv"
    path.write_text(text(cells(header=header), [*header, *EPOCHS]), encoding="utf-8")
    with refuses("csv.missing_column", path, "column los_east, los_north, los_up"):
        read_points(path)
