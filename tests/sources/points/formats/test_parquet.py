from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.params import Product
from plumbline.sources.points.read import is_product
from plumbline.sources.points.track import Track
from tests.refusals import refuses, warned
from tests.sources.make import EPOCHS, L3, NEWER, OLDER_L2A, rows, squares, text, unless_refused
from tests.sources.points.opening import product_parts, read_points
from tests.sources.points.write_columns import described
from tests.sources.points.write_ortho import OLDER, cells


def pair(tmp_path: Path, header: list[str], name: str = "L3_U") -> tuple[Path, Path]:
    """The same table as csv and as Parquet."""
    table = cells(header=header) if header in (L3, OLDER) else rows(header=header)
    (tmp_path / f"{name}.csv").write_text(text(table, [*header, *EPOCHS]), encoding="utf-8")
    pq.write_table(pacsv.read_csv(tmp_path / f"{name}.csv"), tmp_path / f"{name}.parquet")
    return tmp_path / f"{name}.csv", tmp_path / f"{name}.parquet"


def assert_same(one: Track, other: Track) -> None:
    assert (one.crs, one.name) == (other.crs, other.name)
    for name in ("epochs", "point_id", "easting", "northing", "height", "los", "displacement", "coherence", "rmse"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.mark.parametrize("header", [NEWER, OLDER_L2A, L3, OLDER], ids=["L2b", "older L2a", "L3", "older L3"])
def test_a_product_reads_as_its_csv(tmp_path, header):
    csv, parquet = pair(tmp_path, header)
    assert is_product(parquet)
    assert product_parts(parquet) == [(0, None)]
    assert_same(read_points(parquet), read_points(csv))


def test_a_product_in_several_groups_and_with_identifiers_as_a_dictionary_reads_the_same(tmp_path):
    csv, parquet = pair(tmp_path, NEWER)
    table = pq.read_table(parquet)
    table = table.set_column(0, "pid", table["pid"].dictionary_encode())
    pq.write_table(table, parquet, row_group_size=2)
    assert_same(read_points(parquet), read_points(csv))


def test_spaces_around_the_names_of_columns_are_passed_over(tmp_path):
    csv, parquet = pair(tmp_path, NEWER)
    table = pq.read_table(parquet)
    spaced = {"rmse_ts": " rmse_ts", "height_ortho": "height_ortho "}
    pq.write_table(table.rename_columns([spaced.get(name, name) for name in table.column_names]), parquet)
    assert_same(read_points(parquet), read_points(csv))


def test_a_point_without_a_line_of_sight_is_left_out_where_its_code_is_stated(tmp_path, caplog):
    _, path = pair(tmp_path, NEWER)
    table = pq.read_table(path)
    place, values = table.column_names.index("los_up"), table["los_up"].to_pylist()
    pq.write_table(table.set_column(place, "los_up", pa.array([*values[:-1], -9999.0])), path)
    with refuses("points.out_of_range", "column los_up: -9999 ", "missing: [-9999]"):
        read_points(path)
    assert len(read_points(path, {"*": Product(missing=[-9999])})) == len(values) - 1
    assert warned(caplog, "points.left_out", f"{path.name}: 1 points", "line of sight")


@pytest.mark.parametrize(
    ("column", "values", "key", "places"),
    [
        ("easting", None, "csv.missing_column", [": column ", "header has pid"]),
        ("easting", pa.array([1.0] * 6), "points.out_of_range", [", row 1, ", ": 1 ", "500000"]),
        ("easting", pa.array(["a"] * 6), "parquet.column_type", [": string", "numbers"]),
        ("pid", pa.array([1.5] * 6), "parquet.column_type", [": double", "text"]),
        ("los_up", pa.array([None] * 6, pa.float64()), "points.out_of_range", [", row 1, ", ": no value"]),
        (EPOCHS[1], pa.array([0.0, 0, 0, 0, 1e300, 0]), "points.impossible_displacement", [", row 5, ", ": inf mm"]),
    ],
)
def test_a_column_that_is_not_what_it_has_to_be_is_named(tmp_path, column, values, key, places):
    _, parquet = pair(tmp_path, NEWER)
    table = pq.read_table(parquet)
    others = table.drop_columns([column])
    pq.write_table(others if values is None else others.append_column(column, values), parquet)
    with refuses(key, "L3_U.parquet", f"column {column}", *places):
        read_points(parquet)
    pq.write_table(table.slice(0, 0), parquet)
    with refuses("points.none", parquet):
        read_points(parquet)


def test_footprints_are_no_product_and_other_tables_are_refused(tmp_path):
    squares().to_parquet(tmp_path / "houses.parquet")
    assert not is_product(tmp_path / "houses.parquet")
    pq.write_table(pa.table({"a": [1], "b": [2]}), tmp_path / "a.parquet")
    # Columns of a Parquet file cannot be described: that would be the advice where a csv is unknown.
    for about in ({}, {"*": described()}):
        with refuses("parquet.other_table", "a.parquet", "columns a, b", "as csv"):
            read_points(tmp_path / "a.parquet", about)
    with refuses("products.other_format", "a.parquet", "format depsi"):
        read_points(tmp_path / "a.parquet", format="depsi")
    _, parquet = pair(tmp_path, NEWER)
    for about in (Product(component="up"), Product(separator=",")):
        with refuses("products.unused_setting", parquet, *about.model_fields_set, "format egms"):
            read_points(parquet, {"*": about})


@given(data=st.data())
def test_a_cut_or_changed_file_is_refused_or_reads_as_a_track(tmp_path, data):
    _, parquet = pair(tmp_path, NEWER)
    content = bytearray(parquet.read_bytes())
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    else:
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    parquet.write_bytes(content)
    track = unless_refused(lambda: read_points(parquet), parquet)
    if track is not None:
        assert np.isfinite(track.easting).all()
        assert not np.isinf(track.displacement).any()
