from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.sources.files.csv_table import fail_at, read_columns, read_header, stream_columns
from plumbline.sources.files.streams import CsvFile
from tests.refusals import refuses

TYPES = {"name": pa.string(), "x": pa.float64()}


def product(tmp_path, content):
    path = tmp_path / "t.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return CsvFile(path)


def read(tmp_path, content):
    source = product(tmp_path, content)
    return read_columns(source, read_header(source), TYPES).to_pydict()


@pytest.mark.parametrize(
    "content",
    [
        "name,x\na,1\nb,\n",
        "x,name,more\n1,a,?\nNaN,b,?\n",
        "\ufeffname, x \r\na, 1\r\n\r\nb,NA\r\n\r\n",
        'name,"x"\n"a","1"\nb,null\n',
        "x,name\n1,a\n,b\n",
    ],
)
def test_columns_are_found_by_name_in_any_dialect_of_comma_separated(tmp_path, content):
    result = read(tmp_path, content)
    assert result["name"] == ["a", "b"]
    np.testing.assert_array_equal(np.array(result["x"], float), [1.0, np.nan])


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ("name,x,x\na,1,2\n", "csv.repeated_column"),
        ("\nname,x\na,1\n", "csv.no_header"),
        *((content, "csv.not_text") for content in (b"\x1f\x8b\x08\x00\n", b"name,\xff\xfe\n")),
        *((content, "csv.control_characters") for content in (b"name,x\x00\n", "x\ra\r")),
        *((f"name,x,{cell}", "csv.long_header") for cell in ("y" * 2**21, " " * 2**21 + ",y\na,1,,2\n")),
        ("name,x," + "y" * 2**18 + "\na,1,2\n", "csv.unreadable"),
    ],
    ids=range(9),
)
def test_headers_that_are_none_are_refused(tmp_path, content, key):
    with refuses(key, "t.csv"):
        read(tmp_path, content)


def test_a_file_without_last_line_end_is_whole(tmp_path):
    assert read(tmp_path, "name,y,x\na,1.25,2.25\nb,1.25,2.25")["x"] == [2.25, 2.25]


@given(start=st.integers(1, 200), width=st.integers(1, 90), ends=st.sampled_from(["\n", "\r\n"]))
def test_parts_of_a_file_hold_every_row_once(tmp_path_factory, start, width, ends):
    path = tmp_path_factory.mktemp("parts") / "points.csv"
    lines = [f"n{number},{number}.25" for number in range(20)]
    path.write_text(ends.join(["name,x", *lines, ""]), newline="")
    cuts = [0, *range(start, path.stat().st_size, width), None]
    header = read_header(CsvFile(path))
    names = []
    for begin, end in pairwise(cuts):
        part = CsvFile(path, start=begin, end=end)
        for first, block in stream_columns(part, header, TYPES):
            names += block["name"].to_pylist()
            with refuses("x.y", f"line {2 + len(names) - block.num_rows}, "):
                fail_at(part, first, "x", 2, "less is needed", key="x.y")
    assert names == [f"n{number}" for number in range(20)]


FAULTS = {
    "behind blank lines": ("name,x\n\na,1\n\nb,1_0\n", "csv.not_a_number", "line 5, column x: '1_0'"),
    "hexadecimal": ("name,x\r\n\r\na,0x1\r\n", "csv.not_a_number", "line 3, column x: '0x1'"),
    "for people": ("name,x\na,1\nb,\u22121.5\n", "csv.not_a_number", "line 3, column x: '\u22121.5'"),
    "thousands": ("name,x\na,1\nb,1'234.5\n", "csv.not_a_number", "line 3, column x: \"1'234.5"),
    "too few": ("name,x\na,1\nb\nc,2\n", "csv.cell_count", "line 3: 1 cells"),
    "too many": ("name,x\na,1\nb,2,3\nc,2\n", "csv.cell_count", "line 3: 3 cells"),
    "cut off": ("name,x\na,1\nb", "csv.cell_count", "line 3: 1 cells", "cut off"),
    "no text": (b"name,x\na,1\n\xff\xfe,2\n", "csv.not_utf8", "line 3, column name: "),
    "open quote": ('name,x\na,1\n"b,2\n', "csv.cell_count", "line 3: 1 cells"),
    "far down": ("name,x\n" + "a,1\n" * 2345 + "b,2x\n" * 700, "csv.not_a_number", "line 2347, column x: '2x'"),
}
"""Fault -> the table, the key of the refusal, and the places that the message names."""


@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_read_is_named_by_line_and_column(tmp_path, fault):
    content, key, *places = FAULTS[fault]
    with refuses(key, "t.csv", *places):
        read(tmp_path, content)


def test_a_fault_in_a_part_is_named_by_its_line_in_the_file(tmp_path):
    path = tmp_path / "points.csv"
    path.write_text(FAULTS["far down"][0])
    with refuses(*FAULTS["far down"][1:]):
        list(stream_columns(CsvFile(path, start=100), ["name", "x"], TYPES))


@pytest.mark.parametrize("empty", [",", '"",""', " , "])
def test_a_row_of_empty_cells_is_called_that_by_its_line_blank_lines_counted(tmp_path, empty):
    """As spreadsheets leave them below a table."""
    source = product(tmp_path, f"name,x\n\na,1\n\n{empty}\n")
    with refuses("x.y", "line 5, column x: nan ", "All its cells are empty"):
        fail_at(source, 1, "x", float("nan"), "a number is needed", key="x.y")
