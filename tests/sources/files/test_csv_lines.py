"""Tables as spreadsheets, scripts and portals write them, beside what `test_dialects` combines."""

import gzip
from collections.abc import Callable

import numpy as np
import pytest

from plumbline.params import Product
from plumbline.sources.files.streams import RATIO_FREE_BYTES
from tests.refusals import refuses
from tests.sources.make import rows as egms_rows
from tests.sources.make import text
from tests.sources.points.opening import open_points, product_parts, read_points
from tests.sources.points.write_columns import described, rows
from tests.sources.points.write_points import assert_track

Change = Callable[[str], bytes]
WAYS: dict[str, Change] = {
    "a note of the separator": lambda plain: b"sep=,\r\n" + plain.encode(),
    "a note of tabs": lambda plain: b"sep=\t\r\n" + plain.replace(",", "\t").encode(),
    "comments before the header": lambda plain: b"# product 12\n#\n\n" + plain.encode(),
    "big endian UTF-16 with semicolons": lambda plain: b"\xfe\xff" + plain.replace(",", ";").encode("utf-16-be"),
    "columns without a name at the end": lambda plain: plain.replace("\n", ",,\n").encode(),
    "a header behind a sign": lambda plain: b"# " + plain.encode(),
}


def _behind_rows(plain: str) -> str:
    header, rows = plain.split("\n", 1)
    return header + "\n" + rows.replace("\n", ",,\n")


@pytest.mark.parametrize("way", WAYS)
def test_a_table_reads_the_same_however_it_is_written(tmp_path, way):
    for name, plain, about in (("egms", text(egms_rows()), {}), ("own", text(rows()), {"*": described()})):
        (tmp_path / "plain.csv").write_text(plain, encoding="utf-8")
        (tmp_path / "other").mkdir(exist_ok=True)
        path = tmp_path / "other" / "plain.csv"
        path.write_bytes(WAYS[way](plain))
        assert_track(read_points(path, about), read_points(tmp_path / "plain.csv", about)), name


def test_a_cell_behind_the_header_that_has_a_value_is_refused_by_its_line(tmp_path):
    path = tmp_path / "a.csv"
    for cell in ("7", "NA"):
        path.write_text(_behind_rows(text(rows())).rstrip("\n") + f"{cell}\n")
        with refuses("csv.unnamed_value", "a.csv, line 7, column (column 12)", f"'{cell}'"):
            read_points(path, {"*": described()})


@pytest.mark.parametrize("end", [",", ", ", ',""'])
@pytest.mark.parametrize("name", ["PLACE", '"PLACE, SIDE"'])
def test_separators_within_quotes_are_no_cells_and_blanks_behind_the_header_nothing(tmp_path, name, end):
    header, *lines = text(rows()).splitlines()
    plain, path = tmp_path / "a.csv", tmp_path / "other" / "a.csv"
    path.parent.mkdir()
    plain.write_text(text(rows()))
    for empty in ("", ",LAST"):  # a last column that is empty, or none
        more = end if empty else ""
        table = [f"{name},{header}{empty}", *(f'"roof, north",{line}{more}{end}' for line in lines)]
        path.write_text("\n".join(table) + "\n")
        assert_track(read_points(path, {"*": described()}), read_points(plain, {"*": described()}))
    path.write_text("\n".join([f"{name},{header},LAST", *(f'"roof, north",{line},' for line in lines)]) + "\n")
    assert_track(read_points(path, {"*": described()}), read_points(plain, {"*": described()}))


def test_texts_and_numbers_that_are_stated_stand_for_no_value(tmp_path):
    cells = rows()
    cells[1]["COH"], cells[2]["H"] = "no data", "-77"
    day = next(name for name in cells[0] if name.startswith("D2"))
    cells[3][day], cells[4][day] = "****", "-77"
    path = tmp_path / "a.csv"
    path.write_text(text(cells))
    with refuses("csv.not_a_number", path, "state missing: ['"):
        read_points(path, {"*": described()})
    track = read_points(path, {"*": described(missing=[-77, "****", "no data"])})
    assert len(track) == 5
    assert np.isnan(track.coherence[1])
    assert np.argwhere(np.isnan(track.displacement)).tolist() == [[2, 0], [3, 0]]


def test_a_western_accent_in_the_header_is_read(tmp_path):
    plain = text(rows()).replace("VEL", "vitesse_écart")
    path = tmp_path / "a.csv"
    path.write_bytes(plain.encode("cp1252"))
    assert len(read_points(path, {"*": described()})) == 6


def test_the_line_of_a_bad_cell_is_that_of_the_file(tmp_path):
    """With what stands before the header, and packed."""
    bad = text(rows()).replace("4.5,-3.1", "4.5x,-3.1")
    for content, line in ((b"# one\n# two\n" + bad.encode(), 8), (gzip.compress(bad.encode()), 6)):
        (tmp_path / "a.csv").write_bytes(content)
        with refuses("csv.not_a_number", f"a.csv, line {line}, column H: '4.5x'"):
            read_points(tmp_path / "a.csv", {"*": described()})


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_decimal_comma_that_comes_late_is_shown_as_it_stands_with_what_to_state(tmp_path, pack):
    """The first rows have whole numbers: nothing shows there that commas are decimal signs."""
    cells = egms_rows(10)
    decimals = [name for name in cells[0] if name not in ("pid", "los_east", "los_north", "los_up")]
    for number, row in enumerate(cells):
        row |= {"los_east": "0", "los_north": "0", "los_up": "1"}
        row |= {name: f"{float(row[name]):.0f}" for name in decimals if number < 8 and row[name]}
    path = tmp_path / "a.csv"
    path.write_bytes(pack(text(cells).replace(",", ";").replace(".", ",").encode()))
    with refuses("csv.not_a_number", "line 10, column easting: '4598080,00'", "decimal: ','"):
        read_points(path)
    track = read_points(path, {"*": Product(decimal=",")})
    assert len(track) == 10
    assert track.height[9] == 9.5


def test_what_is_packed_or_recoded_is_read_in_one_part(tmp_path, monkeypatch):
    monkeypatch.setattr("plumbline.sources.points.read.PART_BYTES", 200)
    for pack, many in ((bytes, True), (gzip.compress, False), (lambda plain: plain.decode().encode("utf-16"), False)):
        (tmp_path / "a.csv").write_bytes(pack(text(rows()).encode()))
        assert (len(product_parts(tmp_path / "a.csv", {"*": described()})) > 1) == many


def test_comments_before_the_header_are_no_points_of_a_part(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_bytes(b"# one\n" + text(rows()).encode())
    whole = read_points(tmp_path / "a.csv", {"*": described()})
    monkeypatch.setattr("plumbline.sources.points.read.PART_BYTES", 200)
    spans = product_parts(tmp_path / "a.csv", {"*": described()})
    assert len(spans) > 1
    found = [
        block.point_id
        for span in spans
        for block in open_points(tmp_path / "a.csv", {"*": described()}, crs=whole.crs, part=span).blocks()
    ]
    assert np.concatenate(found).tolist() == whole.point_id.tolist()


def test_a_bomb_and_a_cut_gzip_are_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(gzip.compress(text(egms_rows()).encode() + b"0," * (40 * RATIO_FREE_BYTES)))
    with refuses("archive.too_large", path):
        read_points(path)
    path.write_bytes(gzip.compress(text(egms_rows()).encode())[:-20])
    with refuses("archive.damaged", path):
        read_points(path)
