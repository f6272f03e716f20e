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


def test_a_csv_is_itself(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(TABLE)
    assert content(path) == TABLE
    assert str(find_csv(path)) == str(path)


def test_a_csv_whose_first_column_begins_as_zips_do_is_itself(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"PK_UID,x\n{TABLE}")
    assert content(path) == f"PK_UID,x\n{TABLE}"


def test_a_file_that_is_packed_twice_is_said_to_be(tmp_path):
    for inner in (gzip.compress(TABLE.encode()), zipped(tmp_path / "a.zip", {"a.csv": TABLE}).read_bytes()):
        path = tmp_path / "a.csv.gz"
        path.write_bytes(gzip.compress(inner))
        with pytest.raises(InputError, match=r"a\.csv\.gz: packed twice"):
            find_csv(path)


def test_the_csv_is_picked_out_of_a_zip_beside_its_xml_and_named(tmp_path):
    hidden = {"__MACOSX/._a.csv": "x", ".b.csv": "y"}
    path = zipped(tmp_path / "a.zip", {"a.xml": "<x/>", "deep/A.CSV": TABLE, **hidden})
    assert content(path) == TABLE
    assert str(find_csv(path)) == f"{path} (member deep/A.CSV)"


def test_a_zip_is_known_by_its_content_not_by_its_name(tmp_path):
    assert content(zipped(tmp_path / "product", {"a.csv": TABLE})) == TABLE


@pytest.mark.parametrize(
    "name", ["../a.csv", "/etc/a.csv", "x/../../a.csv", "C:\\a.csv", "..\\a.csv", "\\\\host\\a.csv"]
)
def test_names_that_point_outside_are_refused(tmp_path, name):
    path = zipped(tmp_path / "a.zip", {"good.csv": TABLE, name: TABLE})
    with pytest.raises(InputError, match=r"a\.zip: member .* points outside"):
        find_csv(path)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"a.csv": TABLE, "b.csv": TABLE}, r"2 csv files in the zip, one is needed \(it holds a.csv, b.csv\)"),
        ({"a.xml": "<x/>"}, r"no csv file in the zip, one is needed \(it holds a.xml\)"),
        ({}, r"no csv file in the zip, one is needed \(it holds nothing\)"),
        ({"[Content_Types].xml": "<x/>"}, r"no csv file in the zip, .* It is a spreadsheet: save it as csv"),
        ({"a.csv.gz": b"x"}, r"no csv file in the zip, .* Unpack it and give what is packed in it"),
        ({"a.csv": ""}, "member a.csv is empty"),
        ({"a.csv": b"0" * 4_000_000}, "member a.csv unpacks to 4,000,000 bytes"),
    ],
)
def test_zips_without_one_sane_csv_are_refused(tmp_path, members, message):
    with pytest.raises(InputError, match=message):
        find_csv(zipped(tmp_path / "a.zip", members))


def test_a_csv_too_large_to_be_one_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_MEMBER_BYTES", len(TABLE) - 1)
    with pytest.raises(InputError, match=r"member a\.csv unpacks to"):
        find_csv(zipped(tmp_path / "a.zip", {"a.csv": TABLE}))


def test_an_encrypted_member_is_refused(tmp_path):
    path = zipped(tmp_path / "a.zip", {"a.csv": TABLE})
    data = bytearray(path.read_bytes())
    for start, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.find(start) + offset] |= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"member a\.csv is encrypted"):
        find_csv(path)


def test_a_missing_file_a_folder_an_empty_file_and_a_false_zip(tmp_path):
    with pytest.raises(InputError, match=r"none\.csv: no such file"):
        find_csv(tmp_path / "none.csv")
    with pytest.raises(InputError, match="cannot be read"):
        find_csv(tmp_path)
    (tmp_path / "empty.csv").touch()
    with pytest.raises(InputError, match=r"empty\.csv: the file is empty"):
        find_csv(tmp_path / "empty.csv")
    (tmp_path / "false.zip").write_text(TABLE)
    with pytest.raises(InputError, match=r"false\.zip: named \.zip, but"):
        find_csv(tmp_path / "false.zip")


def test_names_of_members_leave_out_folders(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive_:
        archive_.mkdir("deep")
        archive_.writestr("deep/a.shp", "x")
    assert archive.zip_members(path) == ["deep/a.shp"]
