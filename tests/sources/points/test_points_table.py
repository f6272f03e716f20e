import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from plumbline.sources.points import points_table
from plumbline.sources.points.points_table import read_points_table, write_points
from plumbline.sources.points.track import Track
from tests.refusals import refuses
from tests.sources.make import track


@st.composite
def tracks(draw: st.DrawFn, name: str) -> Track:
    count, length = draw(st.integers(0, 7)), draw(st.integers(0, 5))
    column = hnp.arrays(np.float64, count)
    days = draw(st.lists(st.integers(7000, 25000), min_size=length, max_size=length, unique=True))
    ids = draw(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=count, max_size=count))
    return Track(
        name=name,
        crs="EPSG:3035",
        epochs=np.array(sorted(days), "datetime64[D]"),
        point_id=np.array(ids, object),
        easting=draw(column),
        northing=draw(column),
        height=draw(column),
        los=draw(hnp.arrays(np.float64, (count, 3))),
        displacement=draw(hnp.arrays(np.float32, (count, length))),
    )


@given(written=st.tuples(tracks("a"), tracks("b é")), row_group=st.integers(1, 4))
def test_the_table_gives_back_every_bit(tmp_path, written, row_group):
    points_table.ROW_GROUP, before = row_group, points_table.ROW_GROUP
    try:
        write_points(written, tmp_path / "p.parquet")
    finally:
        points_table.ROW_GROUP = before
    for one, other in zip(written, read_points_table(tmp_path / "p.parquet"), strict=True):
        assert (one.name, one.crs) == (other.name, other.crs)
        assert one.point_id.tolist() == other.point_id.tolist()
        for name in ("epochs", "easting", "northing", "height", "los", "displacement"):
            a, b = getattr(one, name), getattr(other, name)
            assert (a.shape, a.dtype, a.tobytes()) == (b.shape, b.dtype, np.ascontiguousarray(b).tobytes()), name


def test_the_layout_is_the_contract(tmp_path):
    write_points([track()], tmp_path / "p.parquet")
    table = pq.read_table(tmp_path / "p.parquet")
    names = "point_id track easting northing height los_east los_north los_up displacement"
    assert table.column_names == names.split()
    assert pa.types.is_list(table.schema.field("displacement").type)
    assert table.schema.field("displacement").type.value_type == pa.float32()
    assert b'"EPSG:3035"' in table.schema.metadata[b"plumbline"]
    assert table["displacement"][1].as_py() == [1.0, -1.0]


def test_tracks_that_cannot_share_a_table_are_refused_and_nothing_is_written(tmp_path):
    path = tmp_path / "p.parquet"
    with refuses("points_table.repeated_track", path, "named a"):
        write_points([track(), track()], path)
    with refuses("points_table.several_crss", path, "EPSG:3035, EPSG:32633"):
        write_points([track(), track(name="b", crs="EPSG:32633")], path)
    with refuses("points_table.several_crss", path, "no track"):
        write_points([], path)
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_no_points_table_are_refused(tmp_path):
    path = tmp_path / "p.parquet"
    write_points([track()], path)
    table = pq.read_table(path)
    facts = table.schema.metadata[b"plumbline"]

    def refuse(other, problem, *places):
        if other is not None:
            pq.write_table(other, path)
        with refuses(problem, path, *places):
            read_points_table(path)

    def with_facts(old, new):
        return table.replace_schema_metadata({b"plumbline": facts.replace(old, new)})

    refuse(pa.table({"x": [1]}), "points_table.unreadable")
    refuse(table.drop_columns("height"), "points_table.unreadable")
    refuse(with_facts(b'"version": 1', b'"version": 7'), "points_table.other_version", "version 7")
    refuse(with_facts(b', "2020-01-09"', b""), "points_table.unreadable", "1 epochs")
    path.write_text("pid,easting\n")
    refuse(None, "points_table.unreadable")
    path.unlink()
    refuse(None, "file.missing")
