"""Replace or read a GeoPackage, which is a SQLite database, only with what other programs
keep beside it in mind.

What another program has written lately stays in files beside the database. SQLite lays them
over whatever has that name, so a new file would get rows of the old one, or be destroyed
(https://sqlite.org/howtocorrupt.html); and a copy without them lacks the latest rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

from plumbline.core.console import warn
from plumbline.core.errors import InputError

SUFFIX = ".gpkg"
WAL = "-wal"
ENDS = (WAL, "-journal", "-shm")
"""Suffixes of the names of the files beside a database."""
START = b"SQLite format 3\0"
MODE, IN_WAL = 18, b"\x02"
"""Byte of the header that says how the file is written; QGIS sets it back when it closes a file."""
WAIT_SECONDS = 1.0
"""That a writer elsewhere gets to end what it is at."""
NO_LOCKS = ("database is locked", "disk I/O error")
"""SQLite's messages in folders in which files cannot be locked, too."""


def check_closed(path: Path) -> None:
    """Refuse to replace a GeoPackage that is open; take in what a program that has ended
    left beside it.

    Raises:
        InputError: another program has the file open, or files are left beside it that
            belong to another one.
    """
    if path.suffix.lower() != SUFFIX:
        return
    is_held, why = False, "" if path.is_file() else "the file is gone"
    if not why:
        try:
            is_held = _is_held(path)
        except sqlite3.Error as error:  # no whole database: then nobody can have it open
            why = str(error)
    sidecars = _beside(path)
    if is_held:
        sign = f"{sidecars[0].name} is beside it" if sidecars else "it is writing"
        raise InputError(
            f"{path}: is open in another program ({sign}). Close it there, or give another output.",
            key="geopackage.open_elsewhere",
        )
    if sidecars and why:
        raise InputError(
            f"{sidecars[0]}: belongs to a file that cannot be opened ({why}), and would spoil a "
            "new one. Remove it, or give another output.",
            key="geopackage.foreign_sidecar",
        )
    for side in sidecars:  # what they had is taken in
        side.unlink(missing_ok=True)


def _is_held(path: Path) -> bool:
    """Return whether another program has a database open in WAL mode, or writes into it.

    Raises:
        sqlite3.Error: it is no whole database.
    """
    try:
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as database:
            # Takes `-wal` in, but not while others have the file open.
            (mode,) = database.execute("PRAGMA journal_mode=DELETE").fetchone()
            if str(mode).lower() == "wal":
                return True
            database.execute(f"PRAGMA busy_timeout={WAIT_SECONDS * 1000:.0f}")
            database.execute("BEGIN IMMEDIATE")  # undoes what a killed writer left in `-journal`
            database.execute("SELECT count(*) FROM sqlite_master")
            database.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return True
        raise
    return False


def check_complete(path: Path, member: str | None = None, members: Collection[str] = ()) -> None:
    """Refuse to read a database without its latest rows, where these are in a file beside
    it that cannot be read.

    Args:
        path: the file, or the zip that has it. member, members: its name there, and all names.

    Raises:
        InputError: names that file, and says where both can be read.
    """
    if member is not None:
        if member + WAL in members:
            raise InputError(
                f"{path}: the latest changes of {member} are in {member}{WAL}, which is not read "
                "within a zip. Unpack "
                f"it, and give {member}.",
                key="geopackage.changes_in_zip",
            )
        return
    beside = path.with_name(path.name + WAL)
    if not beside.is_file() or not beside.stat().st_size:
        with path.open("rb") as stream:
            header = stream.read(MODE + 1)
        if header[MODE:] == IN_WAL and not beside.is_file():
            warn(
                "%s: was probably copied while a program had it open: its latest changes, in %s, "
                "are missing. Close it there, and copy it again.",
                path,
                beside.name,
                key="geopackage.changes_missing",
            )
        return
    try:
        with closing(
            sqlite3.connect(path)
        ) as database:  # takes them in when it closes the file, as GDAL does
            database.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.Error as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            return  # what reads it says what is wrong
        raise InputError(
            f"{path}: its latest changes are in {beside.name}, which cannot be read here "
            f"({error}). Copy both into a "
            "folder that you can write to, and give the copy.",
            key="geopackage.changes_unreadable",
        ) from None


def fault_of_locks(error: BaseException) -> str | None:
    """Return why SQLite could not lock a file, if that may be the cause of an error; else None."""
    said = str(error)
    found = next((sign for sign in NO_LOCKS if sign in said and "sqlite" in said.lower()), None)
    return (
        found
        and f"{found}: its folder allows no locks, as some network drives, or another program is "
        "writing it"
    )


def _beside(path: Path) -> list[Path]:
    return [side for end in ENDS if (side := path.with_name(path.name + end)).exists()]
