import pytest

from plumbline.core.errors import InputError
from plumbline.sources.files.archive import Product
from plumbline.sources.files.csv_table import fail_at
from plumbline.sources.files.table import stream_columns
from tests.sources.files.csv_tables import TYPES, product, read


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("name,x\na,1\nb,two\n", "line 3, column x: 'two' found, a number is needed"),
        ("name,x\n\na,1\n\nb,1_0\n", "line 5, column x: '1_0' found"),
        ("name,x\r\n\r\na,0x1\r\n", "line 3, column x: '0x1' found"),
        ("name,x\na,1\nb\nc,2\n", "line 3: 1 cells found, the header has 2 columns; correct the line"),
        ("name,x\na,1\nb,2,3\nc,2\n", "line 3: 3 cells found, the header has 2 columns; correct"),
        ("name,x\na,1\nb", "line 3: 1 cells found, the header has 2 columns; the file seems cut off"),
        (b"name,x\na,1\n\xff\xfe,2\n", r"line 3, column name: '\\\\xff\\\\xfe' found, text in UTF-8 is needed"),
        ("name,x\na,1.25\nb,1.2", "last cell '1.2' may be cut off"),
        ('name,x\na,1\n"b,2\n', "line 3: 1 cells found"),
    ],
)
def test_what_cannot_be_read_is_named_by_line_and_column(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, content)


def test_the_fault_is_found_far_down(tmp_path):
    lines = [f"n{number},{number}" for number in range(3000)]
    lines[2345] = "n2345,2345x"
    with pytest.raises(InputError, match="line 2347, column x: '2345x' found"):
        read(tmp_path, "\n".join(["name,x", *lines, ""]))


def test_a_row_is_refused_by_its_line_blank_lines_counted(tmp_path):
    source = product(tmp_path, "name,x\n\na,1\n\n\nb,2\n")
    with pytest.raises(InputError, match="line 6, column x: 2 found, less is needed"):
        fail_at(source, 1, "x", 2, "less is needed")


@pytest.mark.parametrize("empty", [",", '"",""', " , "])
def test_a_row_of_empty_cells_is_called_that(tmp_path, empty):
    """As spreadsheets leave them below a table."""
    source = product(tmp_path, f"name,x\na,1\n{empty}\n")
    with pytest.raises(InputError, match=r"line 3, column x: nan found, a number is needed\. All its cells are empty:"):
        fail_at(source, 1, "x", float("nan"), "a number is needed")


def test_a_fault_in_a_part_is_named_by_its_line_in_the_file(tmp_path):
    path = tmp_path / "points.csv"
    path.write_text("name,x\n" + "a,1\n" * 50 + "b,two\n" + "a,1\n" * 50)
    with pytest.raises(InputError, match="line 52, column x: 'two' found"):
        list(stream_columns(Product(path, start=100), ["name", "x"], TYPES))
