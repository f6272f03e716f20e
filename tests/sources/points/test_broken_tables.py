"""Every reader of a csv, against files that somebody broke: the right track, or a refusal that names the file."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.params import Product
from plumbline.sources.points.track import Track
from tests.sources.make import EPOCHS, rows, unless_refused
from tests.sources.points import write_columns, write_stamps
from tests.sources.points.opening import read_points
from tests.sources.points.write_points import ANGLES, DAYS

STRANGE = st.sampled_from(
    ["", "inf", "-inf", "nan", "1e308", "-1e39", "1e-320", "-0.0", "0x1F", "½", "1_0", '"', "'", ";", "\x00", "9" * 40]
) | st.text(max_size=8)


@dataclass(frozen=True)
class Reader:
    cells: Callable[[], list[dict[str, str]]]
    about: Product
    meta: int = 0
    """Rows that are no points."""
    days: tuple[str, ...] = ()
    """Columns of the epochs."""

    def write(self, folder: Path, cells: list[dict[str, str]], columns: list[str]) -> Path:
        lines = [columns, *([row[name] for name in columns] for row in cells)]
        path = folder / "table_U.csv"
        content = "".join(",".join(line) + "\n" for line in lines)
        path.write_text(content, encoding="utf-8", errors="replace", newline="")
        return path

    def read(self, path: Path) -> Track | None:
        return unless_refused(lambda: read_points(path, {"*": self.about}), path)


READERS = {
    "egms": Reader(rows, Product(), days=EPOCHS),
    "stamps": Reader(write_stamps.rows, Product(**ANGLES), meta=1, days=tuple(write_stamps.HEADER[3:])),
    "columns": Reader(write_columns.rows, write_columns.described(), days=tuple(f"D{day}" for day in DAYS)),
}
every_reader = pytest.mark.parametrize("reader", READERS.values(), ids=READERS)


def whole(reader: Reader, folder: Path) -> Track:
    cells = reader.cells()
    track = reader.read(reader.write(folder, cells, list(cells[0])))
    assert track is not None
    return track


def as_set(track: Track, ids: bool = True) -> dict[tuple[Any, ...], list[float]]:
    """Points by name (where the file names them) and place."""
    names = track.point_id if ids else [""] * len(track)
    return {
        key: series.tolist()
        for key, series in zip(
            zip(names, track.easting.tolist(), track.northing.tolist(), strict=True), track.displacement, strict=True
        )
    }


@every_reader
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_file_cut_anywhere_is_refused_or_reads_as_its_first_points(tmp_path, reader, share):
    wanted = whole(reader, tmp_path)
    path = tmp_path / "table_U.csv"
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    track = reader.read(path)
    if track is not None:
        assert track.point_id.tolist() == wanted.point_id[: len(track)].tolist()
        # Of the last point the last cell may be cut, which is warned of where other rows show it.
        np.testing.assert_array_equal(track.displacement[:-1], wanted.displacement[: len(track) - 1])
        assert (track.displacement[-1] != wanted.displacement[len(track) - 1]).sum() <= 1
        # The zone is chosen by the middle of the points that are there: the same, here.
        np.testing.assert_array_equal(track.easting[:-1], wanted.easting[: len(track) - 1])


@every_reader
@given(data=st.data())
def test_shuffled_rows_and_columns_read_the_same(tmp_path, reader, data):
    wanted = whole(reader, tmp_path)
    cells = reader.cells()
    meta, points = cells[: reader.meta], cells[reader.meta :]
    path = reader.write(tmp_path, meta + data.draw(st.permutations(points)), data.draw(st.permutations(list(cells[0]))))
    track = reader.read(path)
    assert track is not None
    named = reader.meta == 0
    assert as_set(track, named) == as_set(wanted, named)
    assert track.epochs.tolist() == wanted.epochs.tolist()


@every_reader
@given(data=st.data())
def test_a_repeated_row_counts_once_where_rows_are_named_and_a_repeated_column_is_refused(tmp_path, reader, data):
    wanted = whole(reader, tmp_path)
    cells = reader.cells()
    columns = list(cells[0])
    again = data.draw(st.sampled_from(cells[reader.meta :]))
    track = reader.read(reader.write(tmp_path, [*cells, again], columns))
    assert track is not None
    named = reader.meta == 0
    assert as_set(track, named) == as_set(wanted, named)
    assert len(track) == len(wanted) + (not named)
    assert dict(track.dropped) == ({"duplicate_id": 1} if named else {})
    twice = data.draw(st.sampled_from([name for name in columns if name]))
    assert reader.read(reader.write(tmp_path, cells, [*columns, twice])) is None


@every_reader
@given(data=st.data())
def test_a_retyped_cell_is_refused_or_changes_no_other_point(tmp_path, reader, data):
    wanted = whole(reader, tmp_path)
    cells = reader.cells()
    row, column = data.draw(st.integers(0, len(cells) - 1)), data.draw(st.sampled_from(list(cells[0])))
    cells[row][column] = data.draw(STRANGE | st.floats().map(repr))
    track = reader.read(reader.write(tmp_path, cells, list(cells[0])))
    if track is None:
        return
    assert np.isfinite(np.stack([track.easting, track.northing, track.height])).all()
    assert not np.isinf(track.displacement).any()
    assert (np.abs(track.displacement[np.isfinite(track.displacement)]) <= 100_000).all()
    if row >= reader.meta and len(track) == len(wanted) and column in reader.days:
        others = np.arange(len(track)) != row - reader.meta
        np.testing.assert_array_equal(track.displacement[others], wanted.displacement[others])


@every_reader
def test_one_epoch_one_line_and_nothing_are_refused_and_a_row_alone_is_read(tmp_path, reader):
    cells = reader.cells()
    columns = list(cells[0])
    one_epoch = [name for name in columns if name not in reader.days[1:]]
    assert reader.read(reader.write(tmp_path, cells, one_epoch)) is None
    assert reader.read(reader.write(tmp_path, [], columns)) is None
    track = reader.read(reader.write(tmp_path, cells[: reader.meta + 1], columns))
    assert track is not None
    assert len(track) == 1
    for content in (b"\n\n\n", b"\x00" * 100, b"PK\x03\x04", b"PAR1", b"\x89HDF\r\n\x1a\n"):
        (tmp_path / "table_U.csv").write_bytes(content)
        assert reader.read(tmp_path / "table_U.csv") is None
