"""A table as large as its medium allows may have lost the rest, and is warned of wherever it is read."""

import pandas as pd
import pytest

from plumbline.sources.files.limits import warn_of_limits
from plumbline.sources.footprints.buildings import read_buildings
from tests.refusals import warned, warning_keys
from tests.sources.footprints.drawn import CRS
from tests.sources.make import squares, text
from tests.sources.points.opening import read_points
from tests.sources.points.test_vector_layer import PLACED, frame
from tests.sources.points.write_columns import described, rows


def with_columns(count):
    """Described points with so many columns in all; those that are added hold nothing of use."""
    cells = pd.DataFrame(rows())
    added = pd.DataFrame("1", cells.index, [f"X{number}" for number in range(count - cells.shape[1])])
    return pd.concat([cells, added], axis=1).to_dict("records")


@pytest.mark.parametrize(("count", "is_full"), [(254, False), (255, True), (256, False)])
def test_a_shapefile_with_all_columns_that_it_can_have(tmp_path, caplog, count, is_full):
    frame(with_columns(count + 2), "Lon", "Lat", 4326, keep=False).to_file(tmp_path / "f.gpkg")
    # A GeoPackage has no such limit, but may be made from a Shapefile.
    places = {"latitude": "geometry_latitude", "longitude": "geometry_longitude"}
    read_points(tmp_path / "f.gpkg", {"*": described(columns=PLACED | places)})
    assert bool(warned(caplog, "table.at_limit", "f.gpkg", "255 columns", "Shapefile")) == is_full


@pytest.mark.parametrize("count", [256, 1600, 16384])
def test_a_csv_with_all_columns_of_a_spreadsheet_or_a_database(tmp_path, caplog, count):
    (tmp_path / "f.csv").write_text(text(with_columns(count)), encoding="utf-8")
    read_points(tmp_path / "f.csv", {"*": described()})
    assert warned(caplog, "table.at_limit", "f.csv", f"{count} columns")


@pytest.mark.parametrize("n_rows", [65_535, 65_536, 1_048_575])
def test_as_many_rows_as_a_spreadsheet_has_with_its_header(caplog, n_rows):
    warn_of_limits("f.csv", n_rows=n_rows)
    assert warned(caplog, "table.at_limit", "f.csv", f"{n_rows} rows")
    caplog.clear()
    warn_of_limits("f.csv", n_rows=n_rows - 10)
    assert warning_keys(caplog) == []


def test_points_and_footprints_are_counted_with_those_that_are_left_out(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("plumbline.sources.files.limits.ROW_LIMITS", {7: "a small table"})
    cells = rows()
    cells[1] = cells[0]
    (tmp_path / "p.csv").write_text(text(cells), encoding="utf-8")
    read_points(tmp_path / "p.csv", {"*": described()})
    squares(6).to_file(tmp_path / "f.gpkg")
    read_buildings(tmp_path / "f.gpkg", CRS)
    assert [bool(warned(caplog, "table.at_limit", name, "6 rows")) for name in ("p.csv", "f.gpkg")] == [True] * 2
