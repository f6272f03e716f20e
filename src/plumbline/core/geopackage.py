"""Replace a GeoPackage, which is a SQLite database, only where no other program has it open.

What another program has written lately stays in files beside the database. SQLite lays them over whatever has that
name, so a new file would get rows of the old one, or be destroyed (https://sqlite.org/howtocorrupt.html).
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from plumbline.core.errors import InputError

SUFFIX = ".gpkg"
ENDS = ("-wal", "-journal", "-shm")
"""Of the names of the files beside a database."""


def check_closed(path: Path) -> None:
    """Refuse to replace a GeoPackage that is open; take in what a program that has ended left beside it.

    Raises:
        InputError: another program has the file open, or files are left beside it that belong to another one.
    """
    if path.suffix.lower() != SUFFIX or not _beside(path):
        return
    if path.is_file():
        with suppress(sqlite3.Error), closing(sqlite3.connect(path, timeout=0)) as database:
            database.execute("PRAGMA journal_mode=DELETE")  # takes `-wal` in, but not while others have the file open
            database.execute("SELECT count(*) FROM sqlite_master")  # undoes what a killed writer left in `-journal`
    left = _beside(path)
    if left and path.is_file():
        raise InputError(
            f"{path}: is open in another program ({left[0].name} lies beside it). Close it there, or give "
            "another output."
        )
    if left:
        raise InputError(
            f"{left[0]}: was left by a file that is gone, and would be laid over a new one. Remove it, or give another "
            "output."
        )


def _beside(path: Path) -> list[Path]:
    return [side for end in ENDS if (side := path.with_name(path.name + end)).exists()]
