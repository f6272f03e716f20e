"""Zips as nobody should make them: refused by the file's name, or the csv in them read whole; nothing is unpacked."""

import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.core.errors import InputError
from plumbline.sources.files.opened import find_csv, vector_members
from plumbline.sources.files.streams import RATIO_FREE_BYTES
from tests.sources.make import unless_refused, zipped

TABLE = "".join(f"{number},{number * 7919 % 10007}\n" for number in range(500))
CENTRAL = b"PK\x01\x02"
FLAGS, METHOD, CRC, PACKED, UNPACKED = 8, 10, 16, 20, 24
"""Places in a member's entry of the central directory."""

name = st.one_of(
    st.sampled_from(["a.csv", "deep/b.CSV", "a.xml", "inner.zip", ".hidden.csv", "__MACOSX/a.csv", "x/", "a.csv "]),
    st.sampled_from(["../a.csv", "..\\a.csv", "/etc/a.csv", "C:\\a.csv", "\\\\host\\a.csv", "x/../../a.csv"]),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).map(lambda text: text + ".csv"),
)


def content(path: Path) -> bytes:
    with find_csv(path).open() as stream:
        return stream.read()


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
        assert read.decode() in tables
        assert read
        with zipfile.ZipFile(path) as archive:
            assert not any(".." in stored.split("/") or stored.startswith("/") for stored in archive.namelist())
    assert sorted(found.name for found in tmp_path.iterdir()) == ["a.zip"]


@given(
    place=st.sampled_from([FLAGS, METHOD, CRC, PACKED, UNPACKED]),
    value=st.one_of(st.integers(0, 300), st.integers(0, 2**32 - 1)),
)
def test_a_directory_that_lies_is_refused_or_no_more_is_read_than_it_says(tmp_path, place, value):
    path = zipped(tmp_path / "a.zip", {"a.csv": TABLE})
    width = 2 if place in (FLAGS, METHOD) else 4
    patched(path, 0, place, struct.pack("<I", value)[:width])
    read = unless_refused(lambda: content(path), path)
    if read is not None:
        assert read == TABLE.encode()


@pytest.mark.parametrize("called", ["a.csv", "f.dbf"])
def test_a_bomb_is_refused_before_anything_is_unpacked(tmp_path, called):
    path = zipped(tmp_path / "a.zip", {called: bytes(30 * RATIO_FREE_BYTES)})
    assert path.stat().st_size < RATIO_FREE_BYTES
    with pytest.raises(InputError, match=r"a\.zip: member .* unpacks to 31,457,280 bytes"):
        find_csv(path) if called == "a.csv" else vector_members(path, (".shp", ".dbf"))


def test_a_bomb_that_claims_to_be_small_is_not_unpacked_beyond_its_claim(tmp_path):
    path = zipped(tmp_path / "a.zip", {"a.csv": b"1,2\n" * (20 * RATIO_FREE_BYTES // 4)})
    patched(path, 0, UNPACKED, struct.pack("<I", 4000))
    with pytest.raises(InputError, match=r"a\.zip \(member a\.csv\): the zip is damaged"):
        content(path)


def test_every_member_of_a_zip_of_footprints_is_looked_at(tmp_path):
    path = zipped(tmp_path / "f.zip", {"f.shp": "x", "f.dbf": "y"})
    assert vector_members(path, (".shp", ".dbf")) == ["f.dbf", "f.shp"]
    patched(path, 1, FLAGS, b"\x01\x00")
    with pytest.raises(InputError, match=r"f\.zip: member f\.dbf is encrypted"):
        vector_members(path, (".shp", ".dbf"))
