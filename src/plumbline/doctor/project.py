"""Check the project in the working directory: its parameters, its registry and its disks."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import yaml

from plumbline.core.errors import InputError
from plumbline.core.extras import install, is_installed
from plumbline.core.jobs import WORK
from plumbline.doctor.findings import Finding, fault, nothing, ok, warning
from plumbline.params import check_sections, is_partial, load_params

PARAMS, GRAPH, LOCK = Path("params.yaml"), Path("dvc.yaml"), Path("dvc.lock")


def check_params() -> Iterator[Finding]:
    """Check that params.yaml has only allowed values."""
    if not PARAMS.exists() and not GRAPH.exists():
        yield nothing(f"{Path.cwd()} is no project: neither {PARAMS} nor {GRAPH} is there")
        return
    try:
        # A file for `predict --params` has a few sections, and no graph of stages beside it.
        if not GRAPH.exists() and is_partial(PARAMS):
            check_sections(PARAMS)
        else:
            load_params(PARAMS)
    except InputError as error:
        for line in str(error).splitlines():  # one line for each key
            yield fault(line, f"Correct {PARAMS}; `git diff {PARAMS}` shows what was changed.")
        return
    yield ok("every key is known and in its range")


ADDRESS = "Correct MLFLOW_TRACKING_URI, or unset it for the file mlflow.db of the project."
SECONDS_FOR_LOCK = 3.0


def check_registry() -> Iterator[Finding]:
    """Check that the registry answers, its SQLite file is writable, and the champion is intact."""
    if not is_installed("mlflow"):
        yield nothing(f"MLflow is not installed, and releases nothing ({install('pipeline')})")
        return
    from plumbline.release.names import name_here, verify_package
    from plumbline.release.registry import Registry
    from plumbline.release.server import database_of, default_uri, local_folder

    try:
        database = database_of(default_uri())
        if database is not None and not Path(database).exists():
            reason = unwritable(Path(database).parent)
            yield (
                fault(f"{database} is not there and cannot be made ({reason})", ADDRESS)
                if reason
                else ok(f"{database} is not there yet; the first release makes it")
            )
            return
        if database is not None and (problem := _check_database(Path(database))):
            yield problem
            return
        registry = Registry(name_here())
        versions = registry.versions()
    except InputError as error:
        yield fault(str(error), ADDRESS)
        return
    champion = next((version for version in versions if version.champion), None)
    yield ok(f"{len(versions)} versions, champion {champion.version if champion else 'none yet'}")
    if champion is None or (folder := local_folder(champion.source)) is None:
        return
    if not folder.is_relative_to(Path.cwd()):
        yield warning(
            f"the champion's files lie in another folder than this project: {folder}",
            "Where this clone was copied or moved, promote its data/package again.",
        )
    try:
        verify_package(registry.folder(champion))
    except InputError as error:
        yield fault(
            f"the champion's files: {error}",
            "`plumbline release promote data/package` registers them again, or `release rollback`.",
        )


def _check_database(path: Path) -> Finding | None:
    """Return a fault if a SQLite file is damaged, locked or read-only. A trial write is
    rolled back."""
    try:
        with closing(
            sqlite3.connect(path, timeout=SECONDS_FOR_LOCK, isolation_level=None)
        ) as connection:
            connection.execute("BEGIN IMMEDIATE")  # needs the same lock as a release
            connection.execute("CREATE TABLE plumbline_doctor (number INTEGER)")
            connection.execute("ROLLBACK")
            (answer,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        return fault(
            f"{path} cannot be written to ({error})",
            f"Let this user write to the file and its folder; if it is locked, `fuser -v {path}` "
            "shows who has it.",
        )
    except sqlite3.DatabaseError as error:
        answer = str(error)
    restore = (
        f"Restore {path} from a copy; without one, move it away and promote data/package again."
    )
    return None if answer == "ok" else fault(f"{path} is damaged ({answer})", restore)


def check_disk(free_bytes: int) -> Iterator[Finding]:
    """Check that each disk is writable, with space for a run like the last and for `free_bytes`."""
    paths = [Path(tempfile.gettempdir()), Path("data"), WORK, Path("mlartifacts")]
    if Path(".dvc").is_dir():
        paths.append(Path(".dvc/cache"))
    run_bytes = last_run_bytes()
    disks: dict[int, list[Path]] = {}
    for path in paths:
        disks.setdefault(nearest(path).stat().st_dev, []).append(path)
        if reason := unwritable(path):
            yield fault(
                f"nothing can be written to {path} ({reason})",
                "Let this user write there, or free the disk.",
            )
    for on_disk in disks.values():
        free = shutil.disk_usage(nearest(on_disk[0])).free
        needed = run_bytes * len({Path("data"), Path(".dvc/cache")}.intersection(on_disk))
        message = (
            f"{free / 1e9:.1f} GB free for {', '.join(map(str, on_disk))} "
            f"(as much as the last run made: {needed / 1e9:.1f} GB; at least "
            f"{free_bytes / 1e9:.1f} GB besides)"
        )
        mend = (
            "Free some: `python -m flows.tidy` removes old results; `du -sh .plumbline data` "
            "shows more."
        )
        yield ok(message) if free >= needed + free_bytes else fault(message, mend)


def last_run_bytes() -> int:
    """Return the bytes that the stages wrote, from dvc.lock; 0 without a readable one."""
    try:
        content: Any = yaml.safe_load(LOCK.read_text(encoding="utf-8"))
        return sum(
            int(out.get("size", 0))
            for stage in content["stages"].values()
            for out in stage.get("outs", [])
        )
    except (
        OSError,
        UnicodeDecodeError,
        yaml.YAMLError,
        TypeError,
        KeyError,
        AttributeError,
        ValueError,
    ):
        return 0


def nearest(path: Path) -> Path:
    """Return the path, or its nearest parent that exists."""
    path = path.absolute()
    while not os.path.lexists(path) and path != path.parent:
        path = path.parent
    return path


def unwritable(folder: Path) -> str | None:
    """Return why a file cannot be written in `folder` or its nearest parent; None after a
    successful trial."""
    try:
        # Without a name, where the file system can: nothing is left behind even if this
        # process is killed.
        with tempfile.TemporaryFile(dir=nearest(folder)) as stream:
            stream.write(b"plumbline doctor")
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        return f"{nearest(folder)}: {error.strerror or error}"
    return None
