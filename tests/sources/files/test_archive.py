import gzip
import zipfile
from pathlib import Path

import pytest

from plumbline.core.errors import InputError
from plumbline.sources.files import opened as archive
from plumbline.sources.files.opened import find_csv
from tests.sources.make import zipped

TABLE = "".join(f"{number},{number * 7919 % 10007}\n" for number in range(2000))


def content(path: Path) -> str:
    with find_csv(path).open() as stream:
        return stream.read().decode()


def test_a_csv_whose_first_column_begins_as_zips_do_is_itself(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"PK_UID,x\n{TABLE}")
    assert content(path) == f"PK_UID,x\n{TABLE}"


def test_the_csv_is_picked_out_of_a_zip_beside_its_xml_and_named(tmp_path):
    hidden = {"__MACOSX/._a.csv": "x", ".b.csv": "y"}
    path = zipped(tmp_path / "a.zip", {"a.xml": "<x/>", "deep/A.CSV": TABLE, **hidden})
    assert content(path) == TABLE
    assert str(find_csv(path)) == f"{path} (member deep/A.CSV)"


def test_names_of_members_leave_out_folders(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive_:
        archive_.mkdir("deep")
        archive_.writestr("deep/a.shp", "x")
    assert archive.zip_members(path) == ["deep/a.shp"]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"a.csv": TABLE, "b.csv": TABLE}, r"2 csv files in the zip.*\(it holds a.csv, b.csv\).* give each of them"),
        ({"a.xml": "<x/>"}, r"no csv file in the zip, one is needed \(it holds a.xml\)"),
        ({}, r"no csv file in the zip, one is needed \(it holds nothing\)"),
        ({"a.csv.gz": b"x"}, r"no csv file in the zip, .* Unpack it and give what is packed in it"),
        ({"a.csv": ""}, "member a.csv is empty"),
        ({"good.csv": TABLE, "../a.csv": TABLE}, "member .* points outside"),
        ({"good.csv": TABLE, "C:\\a.csv": TABLE}, "member .* points outside"),
    ],
)
def test_zips_without_one_sane_csv_are_refused(tmp_path, members, message):
    with pytest.raises(InputError, match=message):
        find_csv(zipped(tmp_path / "a.zip", members))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.csv", None, "no such file"),
        ("empty.csv", b"", "the file is empty"),
        ("false.zip", b"1,2", r"named \.zip, but"),
        ("a.csv.gz", gzip.compress(gzip.compress(b"1,2")), "packed twice"),
    ],
)
def test_files_that_are_no_csv_are_refused(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=f"{name}: {message}"):
        find_csv(tmp_path / name)
