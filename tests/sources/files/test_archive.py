"""Zips and gzips, whole and as nobody should make them: the csv in them is read, or refused by the file's name."""

import gzip
import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.sources.files.opened import find_csv, vector_members, zip_members
from plumbline.sources.files.streams import RATIO_FREE_BYTES
from tests.refusals import refuses
from tests.sources.make import unless_refused, zipped

TABLE = "".join(f"{number},{number * 7919 % 10007}\n" for number in range(2000))
CENTRAL = b"PK\x01\x02"
FLAGS, UNPACKED = 8, 24
"""Places in a member's entry of the central directory."""

name = st.one_of(
    st.sampled_from(["a.csv", "deep/b.CSV", "a.xml", "inner.zip", ".hidden.csv", "__MACOSX/a.csv", "x/", "a.csv "]),
    st.sampled_from(["../a.csv", "..\\a.csv", "/etc/a.csv", "C:\\a.csv", "\\\\host\\a.csv", "x/../../a.csv"]),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).map(lambda text: text + ".csv"),
)


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
    with zipfile.ZipFile(path, "w") as archive:
        archive.mkdir("deep")
        archive.writestr("deep/a.shp", "x")
    assert zip_members(path) == ["deep/a.shp"]


@pytest.mark.parametrize(
    ("members", "key", "places"),
    [
        ({"a.csv": TABLE, "b.csv": TABLE}, "archive.csv_count", ["2 csv", "a.csv, b.csv", "give each of them"]),
        ({"a.xml": "<x/>"}, "archive.csv_count", ["no csv", "a.xml"]),
        ({}, "archive.csv_count", ["no csv", "nothing"]),
        ({"a.csv.gz": b"x"}, "archive.csv_count", ["no csv", "give what is packed in it"]),
        ({"a.csv": ""}, "archive.empty_member", ["a.csv"]),
        ({"good.csv": TABLE, "../a.csv": TABLE}, "archive.outside_path", ["'../a.csv'"]),
        ({"good.csv": TABLE, "C:\\a.csv": TABLE}, "archive.outside_path", ["a.csv'"]),
    ],
)
def test_zips_without_one_sane_csv_are_refused(tmp_path, members, key, places):
    with refuses(key, "a.zip", *places):
        find_csv(zipped(tmp_path / "a.zip", members))


@pytest.mark.parametrize(
    ("name", "content", "key"),
    [
        ("none.csv", None, "file.missing"),
        ("empty.csv", b"", "file.empty"),
        ("false.zip", b"1,2", "archive.not_a_zip"),
        ("a.csv.gz", gzip.compress(gzip.compress(b"1,2")), "archive.packed_twice"),
    ],
)
def test_files_that_are_no_csv_are_refused(tmp_path, name, content, key):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with refuses(key, name):
        find_csv(tmp_path / name)


def patched(path: Path, entry: int, at: int, value: bytes) -> None:
    """Write `value` at a place of one entry of the central directory."""
    data = bytearray(path.read_bytes())
    start = -1
    for _ in range(entry + 1):
        start = data.index(CENTRAL, start + 1)
    data[start + at : start + at + len(value)] = value
    path.write_bytes(data)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@given(st.lists(st.tuples(name, st.sampled_from(["", "x", TABLE])), max_size=4))
def test_any_members_are_refused_or_give_the_one_csv(tmp_path, members):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for called, text in members:
            # By the name's entry: Python does not write a name that begins with a zero, and others do.
            archive.writestr(zipfile.ZipInfo(called), "" if called.endswith("/") else text, zipfile.ZIP_DEFLATED)
    read = unless_refused(lambda: content(path), path)
    if read is not None:
        tables = [text for called, text in members if called.lower().endswith(".csv") and "MACOSX" not in called]
        assert read in tables
        assert read
        with zipfile.ZipFile(path) as archive:
            assert not any(".." in stored.split("/") or stored.startswith("/") for stored in archive.namelist())
    assert sorted(found.name for found in tmp_path.iterdir()) == ["a.zip"]


@pytest.mark.parametrize("called", ["a.csv", "f.dbf"])
def test_a_bomb_is_refused_before_anything_is_unpacked(tmp_path, called):
    path = zipped(tmp_path / "a.zip", {called: bytes(30 * RATIO_FREE_BYTES)})
    assert path.stat().st_size < RATIO_FREE_BYTES
    with refuses("archive.too_large", path, called, "31,457,280 bytes"):
        find_csv(path) if called == "a.csv" else vector_members(path, (".shp", ".dbf"))


def test_a_bomb_that_claims_to_be_small_is_not_unpacked_beyond_its_claim(tmp_path):
    path = zipped(tmp_path / "a.zip", {"a.csv": b"1,2\n" * (20 * RATIO_FREE_BYTES // 4)})
    patched(path, 0, UNPACKED, struct.pack("<I", 4000))
    with refuses("archive.damaged", "a.zip (member a.csv)"):
        content(path)


def test_every_member_of_a_zip_of_footprints_is_looked_at(tmp_path):
    path = zipped(tmp_path / "f.zip", {"f.shp": "x", "f.dbf": "y"})
    assert vector_members(path, (".shp", ".dbf")) == ["f.dbf", "f.shp"]
    patched(path, 1, FLAGS, b"\x01\x00")
    with refuses("archive.encrypted", path, "f.dbf"):
        vector_members(path, (".shp", ".dbf"))
