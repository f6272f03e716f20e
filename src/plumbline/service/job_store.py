"""Keep the list of jobs and their files."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, get_args

import psutil  # type: ignore[import-untyped]
from pydantic import BaseModel, ConfigDict
from starlette.datastructures import UploadFile

from plumbline.core.console import request_id
from plumbline.core.errors import InputError
from plumbline.core.files import read_json, write_json
from plumbline.sources.footprints.source import HIDDEN, PARQUET_SUFFIXES, are_parts

Kind = Literal["predict", "restore", "tensors"]
"""Kinds of jobs. One of `tensors` is part of a single request: no list shows it, and it
goes with its answer."""
Status = Literal["queued", "running", "done", "failed", "cancelled"]
STATUSES: tuple[Status, ...] = get_args(Status)
ENDED: tuple[Status, ...] = ("done", "failed", "cancelled")
MOST_ATTEMPTS = 3
"""Largest number of starts of a job whose service ends before the job does."""
MOST_LISTED = 100
"""Largest number of jobs in one list."""
LOCKED_SECONDS = 5.0
"""Longest time to wait for another process that writes."""
_TABLE = """
CREATE TABLE IF NOT EXISTS jobs (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, status TEXT NOT NULL, options TEXT NOT NULL, problem TEXT,
    created REAL NOT NULL, started REAL, finished REAL, owner TEXT, remote TEXT,
    attempts INTEGER NOT NULL DEFAULT 0, cancelled INTEGER NOT NULL DEFAULT 0, holder TEXT, name TEXT,
    request_id TEXT
);
CREATE INDEX IF NOT EXISTS by_status ON jobs (status, created);
"""


class JobSummary(BaseModel):
    """What users see of a job on the list."""

    model_config = ConfigDict(frozen=True)
    id: str
    kind: Kind
    name: str | None
    """Names of its files."""
    request_id: str | None
    """Name of the request that it came with, which the service's log has."""
    status: Status
    problem: dict[str, Any] | None
    """Problem details of a job that failed."""
    created: float
    """Seconds since 1970, as `started` and `finished`."""
    started: float | None
    finished: float | None


class JobRow(JobSummary):
    """One job of the list."""

    options: dict[str, Any]
    owner: str | None
    """Process of the service that runs it, see `this_process`."""
    remote: str | None
    """Id of its flow run, where a work pool runs it."""
    attempts: int
    cancelled: bool
    """True if a user cancelled it while it ran."""
    holder: str | None
    """Fingerprint of the token that it came with; None without one."""


class JobStore:
    """The list of jobs in one file, which several processes of a service share."""

    def __init__(self, path: Path) -> None:
        """Open the file, or create it."""
        self._path = path
        with self._open() as database:
            database.execute("PRAGMA journal_mode=WAL")
            database.executescript(_TABLE)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        # A connection for each use: they are cheap, and no thread uses another's.
        database = sqlite3.connect(self._path, timeout=LOCKED_SECONDS, isolation_level="IMMEDIATE")
        database.row_factory = sqlite3.Row
        try:
            database.execute("PRAGMA synchronous=FULL")  # a job that was accepted is on the disk
            with database:
                yield database
        finally:
            database.close()

    def _run(
        self, statement: str, values: Sequence[Any] | Mapping[str, Any] = ()
    ) -> list[sqlite3.Row]:
        with self._open() as database:
            return database.execute(statement, values).fetchall()

    def _run_for_job(
        self, statement: str, values: Sequence[Any] | Mapping[str, Any]
    ) -> JobRow | None:
        rows = self._run(statement, values)
        return _job(rows[0]) if rows else None

    def add(
        self,
        job: str,
        kind: Kind,
        options: dict[str, Any],
        *,
        queue: int,
        holder: str | None = None,
        name: str | None = None,
    ) -> bool:
        """Append a job of the present HTTP request; return False if `queue` jobs wait already."""
        rows = self._run(
            "INSERT INTO jobs (id, kind, status, options, created, holder, name, request_id) "
            "SELECT ?, ?, 'queued', ?, ?, ?, ?, ? "
            "WHERE (SELECT count(*) FROM jobs WHERE status = 'queued') < ? RETURNING id",
            (job, kind, json.dumps(options), time.time(), holder, name, request_id.get(), queue),
        )
        return bool(rows)

    def get(self, job: str, holder: str | None = None) -> JobRow | None:
        """Return a job; None if it is not on the list, or belongs to another holder."""
        return self._run_for_job(
            "SELECT * FROM jobs WHERE id = :job AND (:holder IS NULL OR holder = :holder)",
            {"job": job, "holder": holder},
        )

    def newest(self, holder: str | None, before: float | None = None) -> list[JobRow]:
        """Return the newest jobs, at most `MOST_LISTED`.

        Args:
            holder: whose jobs; None: all. before: only jobs that were created earlier,
                seconds since 1970.
        """
        rows = self._run(
            "SELECT * FROM jobs WHERE (:holder IS NULL OR holder = :holder) "
            "AND (:before IS NULL OR created < :before) ORDER BY created DESC LIMIT :most",
            {"holder": holder, "before": before, "most": MOST_LISTED},
        )
        return [_job(row) for row in rows]

    def claim(self, at_once: int) -> JobRow | None:
        """Take the job that has waited longest, if fewer than `at_once` run; the caller runs it."""
        return self._run_for_job(
            "UPDATE jobs SET status = 'running', owner = ?, started = ?, attempts = attempts + 1 "
            "WHERE id = ("
            "SELECT id FROM jobs WHERE status = 'queued' ORDER BY created LIMIT 1"
            ") AND (SELECT count(*) FROM jobs WHERE status = 'running') < ? RETURNING *",
            (this_process(), time.time(), at_once),
        )

    def finish(self, job: str, status: Status, problem: dict[str, Any] | None = None) -> None:
        """Record how a job ended."""
        self._run(
            "UPDATE jobs SET status = ?, problem = ?, finished = ?, owner = NULL WHERE id = ?",
            (status, json.dumps(problem) if problem else None, time.time(), job),
        )

    def note_remote(self, job: str, run: str) -> None:
        """Record the flow run that does a job."""
        self._run("UPDATE jobs SET remote = ? WHERE id = ?", (run, job))

    def cancel(self, job: str, holder: str | None = None) -> JobRow | None:
        """Cancel a waiting job, or ask a running one to end.

        Returns:
            The job; None if `get` returns none, or it has ended.
        """
        return self._run_for_job(
            "UPDATE jobs SET cancelled = cancelled OR status = 'running', "
            "finished = iif(status = 'queued', :now, finished), "
            "status = iif(status = 'queued', 'cancelled', status) "
            "WHERE id = :job AND status IN ('queued', 'running') "
            "AND (:holder IS NULL OR holder = :holder) RETURNING *",
            {"job": job, "holder": holder, "now": time.time()},
        )

    def put_back(self, job: str) -> None:
        """Queue a job again that this process cannot finish, without counting the attempt."""
        self._run(
            "UPDATE jobs SET status = 'queued', owner = NULL, attempts = attempts - 1 "
            "WHERE id = ? AND status = 'running'",
            (job,),
        )

    def recover(self) -> tuple[list[str], list[str]]:
        """Queue jobs of dead processes again; return their ids, and those of jobs started
        too often."""
        requeued: list[str] = []
        given_up: list[str] = []
        with self._open() as database:
            rows = database.execute(
                "SELECT id, owner, attempts, cancelled FROM jobs WHERE status = 'running'"
            ).fetchall()
            for row in rows:
                if is_alive(row["owner"]):
                    continue
                if row["cancelled"]:
                    database.execute(
                        "UPDATE jobs SET status = 'cancelled', finished = ? WHERE id = ?",
                        (time.time(), row["id"]),
                    )
                else:
                    (requeued if row["attempts"] < MOST_ATTEMPTS else given_up).append(row["id"])
            database.executemany(
                "UPDATE jobs SET status = 'queued', owner = NULL WHERE id = ?",
                [(job,) for job in requeued],
            )
        return requeued, given_up

    def counts(self) -> dict[str, int]:
        """Return how many jobs have each status."""
        counts = dict(map(tuple, self._run("SELECT status, count(*) FROM jobs GROUP BY status")))
        return {status: counts.get(status, 0) for status in STATUSES}

    def names(self) -> set[str]:
        """Return the names of all jobs."""
        return {row["id"] for row in self._run("SELECT id FROM jobs")}

    def remove_ended(self, before: float) -> list[str]:
        """Remove jobs that ended before a time (seconds since 1970) from the list; return
        their names."""
        rows = self._run(
            "DELETE FROM jobs WHERE finished < ? AND status NOT IN ('queued', 'running') "
            "RETURNING id",
            (before,),
        )
        return [row["id"] for row in rows]

    def remove(self, job: str) -> None:
        """Remove a job from the list."""
        self._run("DELETE FROM jobs WHERE id = ?", (job,))


def this_process() -> str:
    """Return a name for this process that stays unique over time: number and start."""
    return f"{os.getpid()}:{psutil.Process().create_time():.2f}"


def is_alive(owner: str | None) -> bool:
    """Return whether the process named by `this_process` still runs."""
    if owner is None:
        return False
    number, _, began = owner.partition(":")
    try:
        return f"{psutil.Process(int(number)).create_time():.2f}" == began
    except (psutil.Error, ValueError):
        return False


def _job(row: sqlite3.Row) -> JobRow:
    values = dict(row)
    for name in ("options", "problem"):
        values[name] = json.loads(values[name] or "null")
    return JobRow(**values)


JOBS, INCOMING, DATABASE = "jobs", "incoming", "jobs.sqlite"
POINTS, BUILDINGS, CAUSES, RESULTS = "points", "buildings", "causes", "results"
PARAMS, TASK, PROGRESS, PROBLEM, LOG = (
    "params.yaml",
    "task.json",
    "progress.json",
    "problem.json",
    "log.txt",
)
FIELD, TABLE, PICTURE, MAP, DOCUMENT = "field.tif", "table", "field.png", "map.html", "map.json"
REPORT, TENSORS = "report.pdf", "tensors.json"
MEDIA = {
    "application/geo+json": f"{TABLE}.geojson",
    "text/csv": f"{TABLE}.csv",
    "application/geopackage+sqlite3": f"{TABLE}.gpkg",
    "application/vnd.apache.parquet": f"{TABLE}.parquet",
    "image/tiff": FIELD,
    "image/png": PICTURE,
    "text/html": MAP,
    "application/pdf": REPORT,
}
"""Files of the results by kind of content."""
MAIN_PARTS = (".shp", ".tab", ".mif", ".gml")
"""Suffixes of the main file where footprints have several."""
MAX_NAME_BYTES = 200
"""Longest name of a file that is kept."""
ORPHAN_SECONDS = 3600.0
"""Time after which an upload that never became a job is removed."""
CHUNK = 1 << 20
_UNSAFE = re.compile(r"[^\w.\-]+")


def safe_name(name: str, fallback: str) -> str:
    """Return a file name without folders and without characters that a shell or a file
    system treats specially.

    Formats are recognised by names and patterns of names, so the user's is changed little.
    """
    bare = unicodedata.normalize("NFC", name).replace("\\", "/").rpartition("/")[2]
    bare = _UNSAFE.sub("_", bare).lstrip(".-")
    stem, dot, suffix = bare.rpartition(".")
    while len(bare.encode()) > MAX_NAME_BYTES and (stem or suffix):
        stem, suffix = (stem[:-1], suffix) if stem else ("", suffix[:-1])
        bare = f"{stem}{dot}{suffix}"
    return bare or fallback


def store_uploads(
    root: Path,
    job: str,
    *,
    points: Sequence[UploadFile],
    buildings: Sequence[UploadFile],
    params: UploadFile | None,
    causes: Sequence[UploadFile] = (),
) -> None:
    """Write the files of a request into the folder of a new job; on failure, leave no folder.

    Raises:
        InputError: two files of one kind have one name.
        OSError: the disk is full.
    """
    scratch = root / INCOMING / job
    try:
        for kind, uploads in ((POINTS, points), (BUILDINGS, buildings), (CAUSES, causes)):
            folder = scratch / kind
            folder.mkdir(parents=True)
            for number, upload in enumerate(uploads):
                path = folder / safe_name(upload.filename or "", f"{kind}-{number}")
                if path.exists():
                    raise InputError(
                        f"{kind}: two files are called {path.name}. Give each its own name.",
                        key="request.repeated_file_name",
                    )
                _write(upload, path)
        if params is not None:
            _write(params, scratch / PARAMS)
        scratch.rename(root / JOBS / job)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


def _write(upload: UploadFile, path: Path) -> None:
    with path.open("wb") as stream:
        shutil.copyfileobj(upload.file, stream, CHUNK)


def buildings_file(folder: Path) -> Path | None:
    """Return the footprints of a job: a file, the main one of several, or the folder of
    numbered parts.

    Raises:
        InputError: there are several that do not belong together.
    """
    paths = sorted((folder / BUILDINGS).iterdir()) if (folder / BUILDINGS).is_dir() else []
    paths = [path for path in paths if path.name[0] not in HIDDEN] or paths
    main = (
        [path for path in paths if path.suffix.lower() in MAIN_PARTS] if len(paths) > 1 else paths
    )
    is_parquet = len(paths) > 1 and all(path.suffix.lower() in PARQUET_SUFFIXES for path in paths)
    if is_parquet or are_parts([path.name for path in main or paths]):
        return folder / BUILDINGS
    if len(main) > 1 or (paths and not main):
        names = ", ".join(path.name for path in paths)
        raise InputError(
            f"buildings: {names} found; one file is needed, or all parts of one Shapefile or "
            "GeoParquet, or tiles named alike but for their numbers.",
            key="footprints.not_one",
        )
    return main[0] if main else None


def name_of(folder: Path) -> str:
    """Return the names of a job's files, footprints first."""
    return ", ".join(
        path.name for kind in (BUILDINGS, POINTS) for path in sorted((folder / kind).iterdir())
    )


def note_progress(folder: Path, step: str, done: int, total: int) -> None:
    """Write the progress of the job in `folder`."""
    write_json(folder / PROGRESS, {"step": step, "done": done, "total": total})


def read_note(folder: Path, name: str) -> dict[str, Any] | None:
    """Return the job's record in the file `PROGRESS` or `PROBLEM`; None if there is none."""
    try:
        note: dict[str, Any] = read_json(folder / name)
    except (InputError, OSError):
        return None
    return note


def sweep(root: Path, names: set[str]) -> None:
    """Remove folders of jobs that are not on the list, and uploads that were cut off, once
    they are old."""
    old = time.time() - ORPHAN_SECONDS
    for folder in (root / JOBS, root / INCOMING):
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.name in names:
                continue
            with suppress(FileNotFoundError):  # another process of the service removes it, too
                if path.stat().st_mtime < old:
                    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()
