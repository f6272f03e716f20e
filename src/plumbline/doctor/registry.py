"""Check model packages and the registry of released models."""

from __future__ import annotations

import secrets
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from plumbline.core.errors import InputError
from plumbline.core.extras import install, is_installed
from plumbline.doctor.finding import Finding, Place, fault, nothing, ok, warning
from plumbline.doctor.probes import ask, mlflow_headers, unwritable
from plumbline.params import load_params

if TYPE_CHECKING:
    from plumbline.release.registered_versions import Registered
    from plumbline.release.registry import Registry


OWN = Path("data/package")
importing = threading.Lock()
"""Two threads that load the same large libraries, which import one another in circles, may each get half of one."""


def check_package(_: Place) -> Iterator[Finding]:
    """Check the package that comes with Plumbline, and the one from the last run."""
    with importing:
        from plumbline.export.package import verify_package
        from plumbline.pretrained import PACKAGE
    for folder, what, mend in (
        (
            PACKAGE,
            "the package that comes with Plumbline",
            "Install Plumbline again; in a clone: `git checkout src/plumbline/pretrained`.",
        ),
        (OWN, str(OWN), f"`dvc checkout {OWN}`; if DVC has lost it, `make run`."),
    ):
        if folder == OWN and not folder.exists():
            continue
        try:
            yield ok(f"{what}: whole, version {verify_package(folder).version}")
        except InputError as error:
            yield fault(str(error), mend)


SECONDS_FOR_LOCK = 3.0
ADDRESS = "Correct MLFLOW_TRACKING_URI, or unset it for the file mlflow.db of the project."


def check_registry(_: Place) -> Iterator[Finding]:
    """Check that a release could write to the registry. The trial entry is removed, and the champion stays."""
    if not is_installed("mlflow"):
        yield nothing(f"MLflow is not installed, and releases nothing ({install('pipeline')})")
        return
    with importing:
        from plumbline.release.registry import Registry
        from plumbline.release.server import LOCAL_ARTIFACTS, database_of, default_uri
    uri = default_uri()
    try:
        named = database_of(uri)
    except InputError as error:
        yield fault(str(error), ADDRESS)
        return
    database = Path(named) if named else None
    if database is not None:
        if not database.exists() or not database.stat().st_size:
            why = unwritable(database.parent) or unwritable(LOCAL_ARTIFACTS)
            yield (
                fault(f"{database} is not there and cannot be made ({why})", f"Let this user write there. {ADDRESS}")
                if why
                else ok(f"{database} is not there yet; the first release makes it")
            )
            return
        if problem := _database(database):
            yield problem
            return
    elif uri.startswith("http"):
        try:
            ask(f"{uri.rstrip('/')}/health", headers=mlflow_headers())
        except (OSError, ValueError) as error:
            yield fault(f"{uri}: the registry does not answer ({error})", f"Start the MLflow server. {ADDRESS}")
            return
    try:
        registry = Registry(_name())
        versions = registry.versions()
    except InputError as error:
        yield fault(str(error), ADDRESS)
        return
    champion = next((item for item in versions if item.champion), None)
    if database is None and (problem := _entry(uri)):
        yield problem
        return
    told = f"{len(versions)} versions, champion {champion.version if champion else 'none yet'}"
    yield ok(f"{uri}: {told}; an entry was made and taken back")
    yield from _files(registry, champion, LOCAL_ARTIFACTS if database is not None else None)


def _name() -> str:
    from plumbline.release.names import DEFAULT_NAME

    with suppress(InputError):  # told of by the check of params.yaml
        return load_params().package.name
    return DEFAULT_NAME


def _database(path: Path) -> Finding | None:
    """Find what is wrong with a SQLite file: damaged, locked or read-only. The trial write is rolled back."""
    restore = f"Restore {path} from a copy; without one, move it away and promote data/package again."
    try:
        with closing(sqlite3.connect(path, timeout=SECONDS_FOR_LOCK, isolation_level=None)) as connection:
            # Takes the lock that a release takes, and writes a page: a folder without room for the journal fails here.
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("CREATE TABLE plumbline_doctor (number INTEGER)")
            connection.execute("ROLLBACK")
            (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        if "locked" in str(error):
            return fault(
                f"{path} is locked: another process has been writing for {SECONDS_FOR_LOCK:.0f} s",
                f"Wait for it, or see who has it open: `fuser -v {path}`. A team needs a server: `mlflow server`.",
            )
        if isinstance(error, sqlite3.OperationalError):
            return fault(f"{path} cannot be written to ({error})", "Let this user write to the file and its folder.")
        return fault(f"{path} is damaged ({error})", restore)
    return None if said == "ok" else fault(f"{path} is damaged ({said})", restore)


def _entry(uri: str) -> Finding | None:
    """Register a model under a random name and delete it: this needs the same rights as a release."""
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    client, name = MlflowClient(uri, uri), f"plumbline-doctor-{secrets.token_hex(8)}"
    try:
        client.create_registered_model(name)
        client.delete_registered_model(name)
    except (MlflowException, OSError) as error:
        told = next(iter(str(error).splitlines()), type(error).__name__)
        return fault(f"{uri}: no entry can be made or removed ({told})", "Give this user the right to write models.")
    return None


def _files(registry: Registry, champion: Registered | None, artifacts: Path | None) -> Iterator[Finding]:
    from plumbline.export.package import verify_package
    from plumbline.release.server import local_folder

    if artifacts is not None and (why := unwritable(artifacts)):
        yield fault(f"the files of a release cannot be written ({why})", "Let this user write there.")
    if champion is None:
        return
    folder = local_folder(champion.source)
    if folder is None:
        yield ok(f"the champion's files lie at {champion.source} (not read)")
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
    else:
        yield ok(f"the champion's files in {folder} are whole")
