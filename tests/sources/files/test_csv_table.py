from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.core.errors import InputError
from plumbline.sources.files import table
from plumbline.sources.files.archive import Product
from plumbline.sources.files.csv_table import fail_at
from plumbline.sources.files.table import read_columns, read_header, stream_columns
from tests.sources.files.csv_tables import TYPES, product, read


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
    ("content", "message"),
    [
        ("name;x\na;1\n", "columns are separated by semicolons, commas are needed"),
        ("name\tx\na\t1\n", "columns are separated by tabs"),
        ("name,x,x\na,1,2\n", "column 'x' stands there more than once"),
        ("\nname,x\na,1\n", "the first line is empty"),
        (b"\x1f\x8b\x08\x00\n", "not a csv"),
        (b"name,\xff\xfe\n", "not a csv"),
        (b"name,x\x00\n", "not a csv"),
    ],
)
def test_headers_that_are_none_are_refused(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, content)


def test_a_first_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "MAX_HEADER_BYTES", 100)
    with pytest.raises(InputError, match="no line end in its first 100 bytes"):
        read(tmp_path, "name,x" * 50)


def test_a_file_without_last_line_end_is_whole_if_its_decimals_are(tmp_path):
    source = product(tmp_path, "name,y,x\na,1.25,2.25\nb,1.25,2.25")
    assert read_columns(source, read_header(source), TYPES)["x"].to_pylist() == [2.25, 2.25]


@given(start=st.integers(1, 200), width=st.integers(1, 90), ends=st.sampled_from(["\n", "\r\n"]))
def test_parts_of_a_file_hold_every_row_once(tmp_path_factory, start, width, ends):
    path = tmp_path_factory.mktemp("parts") / "points.csv"
    lines = [f"n{number},{number}.25" for number in range(20)]
    path.write_text(ends.join(["name,x", *lines, ""]), newline="")
    cuts = [0, *range(start, path.stat().st_size, width), None]
    header = read_header(Product(path))
    names = []
    for begin, end in pairwise(cuts):
        part = Product(path, start=begin, end=end)
        for first, block in stream_columns(part, header, TYPES):
            names += block["name"].to_pylist()
            with pytest.raises(InputError, match=f"line {2 + len(names) - block.num_rows}, "):
                fail_at(part, first, "x", 2, "less is needed")
    assert names == [f"n{number}" for number in range(20)]
