import numpy as np
import pytest

from plumbline.core.errors import InputError
from plumbline.core.on_disk import folder_of
from plumbline.params import Product
from plumbline.sources.points.read import is_product
from tests.refusals import refuses
from tests.sources.make import EPOCHS, L3, egms, rows, text
from tests.sources.points import write_columns, write_mintpy, write_ortho, write_stamps
from tests.sources.points.formats.write_layouts import rows as rows_of_layout
from tests.sources.points.opening import open_points, read_points
from tests.sources.points.write_points import ANGLES


def write_all(folder):
    """One file of each format, with names that say nothing."""
    cells = {
        "egms-l3": text(write_ortho.cells(), [*L3, *EPOCHS]),
        "egms": text(rows()),
        "depsi": text(rows_of_layout("depsi")),
        "stamps": text(write_stamps.rows()),
        "columns": text(write_columns.rows()),
    }
    paths = {}
    for number, (name, content) in enumerate(cells.items()):
        paths[name] = folder / f"{number}"
        paths[name].write_text(content, encoding="utf-8")
    paths["mintpy"] = write_mintpy.Stack().write(folder / "5")
    asked = Product(**ANGLES)
    return paths, {"0": Product(component="up"), "2": asked, "3": asked, "4": write_columns.described()}


@pytest.mark.parametrize("asked", ["egms", "egms-l3", "depsi", "stamps", "mintpy", "columns"])
def test_a_format_is_told_by_the_content_or_forced_and_a_wrong_one_is_refused(tmp_path, asked):
    paths, about = write_all(tmp_path)
    for name, path in paths.items():
        if name == asked:
            assert is_product(path)
            assert len(read_points(path, about)) == len(read_points(path, about, format=asked)) in (6, 10)
        else:
            with pytest.raises(InputError, match=rf"/\d[:,] .*({asked}|columns|states)"):
                read_points(path, about, format=asked)


def test_an_unknown_format_is_refused_with_the_formats_known(tmp_path):
    (tmp_path / "a.csv").write_text("lat,lon,v\n1,2,3\n")
    with refuses("points.unknown_format", "a.csv", "lat, lon, v", "EGMS L3", "columns"):
        read_points(tmp_path / "a.csv")
    with refuses("products.unknown_format", "a.csv", "'csv'", ": egms-l3; ", ": depsi"):
        read_points(tmp_path / "a.csv", format="csv")


def test_what_a_format_does_not_use_may_not_be_stated(tmp_path):
    paths, _ = write_all(tmp_path)
    with refuses("products.unused_setting", paths["egms"], "heading_deg, incidence_deg", "format egms"):
        read_points(paths["egms"], {"*": Product(**ANGLES)})


def test_points_of_every_format_can_be_moved_and_raised(tmp_path):
    paths, about = write_all(tmp_path)
    change = {"moved_m": (-5.0, 3.5), "raised_m": -44.5}
    moved = {name: product.model_copy(update=change) for name, product in about.items()} | {"*": Product(**change)}
    for name, path in paths.items():
        before, after = read_points(path, about), read_points(path, moved)
        np.testing.assert_allclose(after.easting - before.easting, -5.0, atol=1e-6, err_msg=name)
        np.testing.assert_allclose(after.northing - before.northing, 3.5, atol=1e-6, err_msg=name)
        np.testing.assert_allclose(after.height - before.height, -44.5, atol=1e-6, err_msg=name)
        np.testing.assert_array_equal(after.displacement, before.displacement)
        notes = " ".join(open_points(path, moved).notes)
        assert "moved by -5 m east and 3.5 m north" in notes
        assert "heights are raised by -44.5 m" in notes


def test_an_egms_product_can_have_another_name_and_the_city_s_crs(tmp_path):
    path = egms(tmp_path / "a.csv")
    own, other = read_points(path), read_points(path, {"*": Product(track="asc")}, crs="EPSG:32633")
    assert (own.name, own.crs, other.name, other.crs) == ("a", "EPSG:3035", "asc", "EPSG:32633")
    # Lengths stay what they are, to the two projections' scales.
    lengths = [np.hypot(np.ptp(track.easting), np.ptp(track.northing)) for track in (own, other)]
    assert lengths[1] == pytest.approx(lengths[0], rel=1e-2)
    np.testing.assert_array_equal(own.displacement, other.displacement)
    with refuses("crs.unknown", path, "EPSG:1"):
        read_points(path, crs="EPSG:1")
    with refuses("crs.not_metric", path, "EPSG:4326"):
        read_points(path, crs="EPSG:4326")


def test_series_in_a_folder_are_those_in_memory(tmp_path):
    paths, about = write_all(tmp_path)
    (tmp_path / "out").mkdir()
    for path in paths.values():
        inside, away = read_points(path, about), read_points(path, about, folder=tmp_path / "out")
        assert folder_of(away.displacement) == tmp_path / "out"
        np.testing.assert_array_equal(away.displacement, inside.displacement)
        np.testing.assert_array_equal(np.concatenate(list(away.series())), inside.displacement)
