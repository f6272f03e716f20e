"""Lay out the files of a job: uploads, results, and the progress notes of its process."""

from __future__ import annotations

import json
import re
import secrets
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from plumbline.core.errors import InputError
from plumbline.core.files import read_json, write_json

JOBS, INCOMING, DATABASE = "jobs", "incoming", "jobs.sqlite"
POINTS, BUILDINGS, RESULTS = "points", "buildings", "results"
PARAMS, TASK, PROGRESS, PROBLEM, LOG = "params.yaml", "task.json", "progress.json", "problem.json", "log.txt"
FIELD, TABLE, PICTURE, MAP, DOCUMENT = "field.tif", "table", "field.png", "map.html", "map.json"
MEDIA = {
    "application/geo+json": f"{TABLE}.geojson",
    "text/csv": f"{TABLE}.csv",
    "application/geopackage+sqlite3": f"{TABLE}.gpkg",
    "application/vnd.apache.parquet": f"{TABLE}.parquet",
    "image/tiff": FIELD,
    "image/png": PICTURE,
    "text/html": MAP,
}
"""Kind of content -> file among the results."""
LONGEST_NAME = 120
ORPHAN_SECONDS = 3600.0
"""After which an upload that never became a job is removed."""
CHUNK = 1 << 20
_UNSAFE = re.compile(r"[^\w.\-]+", re.ASCII)


@dataclass(frozen=True)
class Upload:
    """One file of a request."""

    name: str
    stream: BinaryIO


def new_id() -> str:
    """Draw a random name for a job. It cannot be guessed, because it gives access to the results."""
    return secrets.token_hex(16)


def safe_name(name: str, fallback: str) -> str:
    """Return a file name without folders and without characters that a shell or a file system treats specially.

    Formats are told by names as well, so as much as can be of the user's own is kept.
    """
    bare = name.replace("\\", "/").rpartition("/")[2]
    bare = _UNSAFE.sub("_", bare).lstrip(".-")
    stem, dot, suffix = bare.rpartition(".")
    if len(bare) > LONGEST_NAME:
        bare = f"{stem[: LONGEST_NAME - len(suffix) - 1]}{dot}{suffix}"[:LONGEST_NAME]
    return bare or fallback


def store_uploads(
    root: Path, job: str, points: Sequence[Upload], buildings: Sequence[Upload], params: Upload | None
) -> None:
    """Write the files of a request into the folder of a new job; on failure, leave no folder.

    Raises:
        InputError: two files of one kind have one name.
        OSError: the disk is full.
    """
    scratch = root / INCOMING / job
    try:
        for kind, uploads in ((POINTS, points), (BUILDINGS, buildings)):
            folder = scratch / kind
            folder.mkdir(parents=True)
            for number, upload in enumerate(uploads):
                path = folder / safe_name(upload.name, f"{kind}-{number}")
                if path.exists():
                    raise InputError(f"{kind}: two files are called {path.name}. Give each its own name.")
                _write(upload, path)
        if params is not None:
            _write(params, scratch / PARAMS)
        scratch.rename(root / JOBS / job)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


def _write(upload: Upload, path: Path) -> None:
    with path.open("wb") as stream:
        shutil.copyfileobj(upload.stream, stream, CHUNK)


def buildings_file(folder: Path) -> Path | None:
    """Return the footprints file of a job; for a Shapefile, the part `.shp`.

    Raises:
        InputError: there are several, and none is a Shapefile.
    """
    found = sorted((folder / BUILDINGS).iterdir()) if (folder / BUILDINGS).is_dir() else []
    main = [path for path in found if path.suffix.lower() == ".shp"] if len(found) > 1 else found
    if len(main) > 1 or (found and not main):
        names = ", ".join(path.name for path in found)
        raise InputError(f"buildings: {names} found; one file is needed, or the parts of one Shapefile.")
    return main[0] if main else None


def note_progress(folder: Path, step: str, done: int, total: int) -> None:
    """Write the progress of the job in `folder`."""
    write_json(folder / PROGRESS, {"step": step, "done": done, "total": total})


def read_note(folder: Path, name: str) -> dict[str, Any] | None:
    """Return what the job's process wrote into `PROGRESS` or `PROBLEM`; None where it did not."""
    try:
        found = read_json(folder / name)
    except (InputError, OSError, json.JSONDecodeError):
        return None
    return found if isinstance(found, dict) else None


def sweep(root: Path, names: set[str]) -> None:
    """Remove folders of jobs that are not on the list, and uploads that were cut off, once they are old."""
    old = time.time() - ORPHAN_SECONDS
    for folder in (root / JOBS, root / INCOMING):
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.name in names:
                continue
            try:
                if path.stat().st_mtime < old:
                    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()
            except FileNotFoundError:  # another process of the service is at it, too
                continue
