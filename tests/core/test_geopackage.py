"""A GeoPackage is replaced only where nobody has it open."""

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from plumbline.core.errors import InputError
from plumbline.core.files import check_writable, write_bytes
from plumbline.core.geopackage import ENDS, check_closed

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
            with pytest.raises(InputError, match=r"result\.gpkg: is open in another program \(result\.gpkg-wal"):
                replace(path)
        assert beside(path) == ["-wal", "-shm"]
    with closing(sqlite3.connect(path)) as again:
        assert again.execute("SELECT count(*) FROM rows").fetchone() == (20,)
    write_bytes(path, NEW)
    assert path.read_bytes() == NEW


def test_one_that_is_being_written_is_left_as_it_is(tmp_path):
    path = tmp_path / "result.gpkg"
    with closing(database(path)) as writer:
        writer.execute("UPDATE rows SET value = 1")
        with pytest.raises(InputError, match=r"\(result\.gpkg-journal lies beside it"):
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


def test_what_a_file_that_is_gone_left_is_named(tmp_path):
    path = tmp_path / "result.gpkg"
    (tmp_path / "result.gpkg-wal").touch()
    with pytest.raises(InputError, match=r"result\.gpkg-wal: was left by a file that is gone"):
        check_writable(path)
    (tmp_path / "result.gpkg-wal").rename(tmp_path / "result.csv-wal")
    write_bytes(path, NEW)
    write_bytes(tmp_path / "result.csv", NEW)
