"""A GeoPackage is replaced only where nobody has it open."""

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from plumbline.core import geopackage
from plumbline.core.files import check_writable, write_bytes
from plumbline.core.geopackage import ENDS, check_closed, check_complete
from tests.refusals import refuses, warned, warning_keys

NEW = b"a new file"
WRITE = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("PRAGMA cache_size=1")
database.execute("BEGIN")
database.execute("UPDATE rows SET value = zeroblob(5000)")
os._exit(0)
"""
"""A writer that is killed in the midst: what it has changed is in the file, and what was there before in `-journal`."""


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch):
    monkeypatch.setattr(geopackage, "WAIT_SECONDS", 0.0)


def database(path, mode="DELETE"):
    opened = sqlite3.connect(path)
    opened.execute(f"PRAGMA journal_mode={mode}")
    opened.execute("CREATE TABLE rows (value)")
    opened.executemany("INSERT INTO rows VALUES (?)", [(b"x" * 3000,)] * 20)
    opened.commit()
    return opened


def beside(path):
    return [end for end in ENDS if path.with_name(path.name + end).exists()]


def test_one_that_is_open_in_wal_mode_is_left_as_it_is(tmp_path):
    """As QGIS opens every GeoPackage; what it saved is in `-wal` alone."""
    path = tmp_path / "result.gpkg"
    with closing(database(path, "WAL")):
        for replace in (check_writable, lambda path: write_bytes(path, NEW)):
            with refuses("geopackage.open_elsewhere", "result.gpkg: ", "(result.gpkg-wal"):
                replace(path)
        assert beside(path) == ["-wal", "-shm"]
    with closing(sqlite3.connect(path)) as again:
        assert again.execute("SELECT count(*) FROM rows").fetchone() == (20,)
    write_bytes(path, NEW)
    assert path.read_bytes() == NEW


@pytest.mark.parametrize(("mode", "seen"), [("DELETE", "(result.gpkg-journal"), ("MEMORY", "writing")])
def test_one_that_is_being_written_is_left_as_it_is_and_one_that_is_read_is_replaced(tmp_path, mode, seen):
    """GDAL writes in memory with `OGR_SQLITE_JOURNAL=MEMORY`."""
    path = tmp_path / "result.gpkg"
    with closing(database(path, mode)) as other:
        other.execute("UPDATE rows SET value = 1")
        with refuses("geopackage.open_elsewhere", seen):
            write_bytes(path, NEW)
        other.commit()
        other.execute("BEGIN")
        assert other.execute("SELECT count(*) FROM rows").fetchone() == (20,)
        write_bytes(path, NEW)


def test_what_a_killed_program_left_does_not_stop_anybody(tmp_path):
    path = tmp_path / "result.gpkg"
    database(path).close()
    subprocess.run([sys.executable, "-c", WRITE, str(path)], check=True)
    assert beside(path) == ["-journal"]
    write_bytes(path, NEW)
    assert path.read_bytes() == NEW
    assert beside(path) == []

    other = tmp_path / "other.gpkg"
    with closing(database(tmp_path / "open.gpkg", "WAL")):
        for end in ("", *ENDS):
            if (tmp_path / f"open.gpkg{end}").exists():
                shutil.copy(tmp_path / f"open.gpkg{end}", tmp_path / f"other.gpkg{end}")
    assert "-wal" in beside(other)
    check_closed(other)
    assert beside(other) == []
    with closing(sqlite3.connect(other)) as kept:
        assert kept.execute("SELECT count(*) FROM rows").fetchone() == (20,)


def test_what_a_file_that_is_gone_or_damaged_left_is_named(tmp_path):
    path = tmp_path / "result.gpkg"
    (tmp_path / "result.gpkg-wal").touch()
    with refuses("geopackage.foreign_sidecar", "result.gpkg-wal", "gone"):
        check_writable(path)
    with closing(database(tmp_path / "open.gpkg", "WAL")) as other:  # of a file that is damaged
        other.execute("PRAGMA wal_checkpoint")
        other.execute("CREATE TABLE more (value)")
        shutil.copy(tmp_path / "open.gpkg-wal", tmp_path / "result.gpkg-wal")
        path.write_bytes((tmp_path / "open.gpkg").read_bytes()[:1000])
    with refuses("geopackage.foreign_sidecar", "result.gpkg-wal", "malformed"):
        check_writable(path)
    (tmp_path / "result.gpkg-wal").rename(tmp_path / "result.csv-wal")
    write_bytes(path, NEW)
    write_bytes(tmp_path / "result.csv", NEW)
    path.unlink()
    database(path).close()
    for end in ("-wal", "-shm"):  # empty ones, that nobody holds
        (tmp_path / f"result.gpkg{end}").touch()
    write_bytes(path, NEW)
    assert (path.read_bytes(), beside(path)) == (NEW, [])


def test_a_link_to_an_open_one_is_left_and_to_a_closed_one_kept(tmp_path):
    path, link = tmp_path / "result.gpkg", tmp_path / "latest.gpkg"
    link.symlink_to("result.gpkg")
    with closing(database(path, "WAL")):
        for replace in (check_writable, lambda path: write_bytes(path, NEW)):
            with refuses("geopackage.open_elsewhere", "result.gpkg: "):
                replace(link)
    write_bytes(link, NEW)
    assert link.is_symlink()
    assert path.read_bytes() == NEW
    path.unlink()
    write_bytes(link, NEW)  # a link to nowhere makes the file
    assert path.read_bytes() == NEW


def test_one_whose_latest_rows_cannot_be_read_is_refused(tmp_path, caplog):
    path = tmp_path / "f.gpkg"
    with closing(database(path, "WAL")):
        for name in ("f.gpkg", "f.gpkg-wal"):
            shutil.copy(tmp_path / name, tmp_path / f"copied {name}")
    copy = tmp_path / "copied f.gpkg"
    (tmp_path / "copied f.gpkg-shm").symlink_to(tmp_path / "none" / "shm")  # as in a folder that is read-only
    with refuses("geopackage.changes_unreadable", copy, "copied f.gpkg-wal"):
        check_complete(copy)
    with refuses("geopackage.changes_in_zip", "h.zip", "a/f.gpkg-wal"):
        check_complete(tmp_path / "h.zip", "a/f.gpkg", ["a/f.gpkg", "a/f.gpkg-wal"])
    check_complete(tmp_path / "h.zip", "a/f.gpkg", ["a/f.gpkg", "g.gpkg-wal"])
    assert not warning_keys(caplog)
    (tmp_path / "copied f.gpkg-shm").unlink()
    (tmp_path / "copied f.gpkg-wal").rename(tmp_path / "kept")
    check_complete(copy)
    assert warned(caplog, "geopackage.changes_missing", copy, "copied f.gpkg-wal")
