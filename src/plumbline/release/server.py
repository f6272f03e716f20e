"""The tracking server behind the registry: where it is, that it answers, and that one promotes at a time.

It is the SQLite file `mlflow.db` in the working directory, or what the environment variable MLFLOW_TRACKING_URI names.
One that does not answer is an error, never "nothing there".
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from plumbline.core.database import ask_database
from plumbline.core.errors import InputError

DEFAULT_DATABASE = Path("mlflow.db")
EXPERIMENT = "release"
LOCAL_ARTIFACTS = Path("mlartifacts")
OF_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EIO}


def default_uri() -> str:
    """Where the registry is, as the environment and the working directory say."""
    # Absolute, because MLflow keeps one connection for each address it has seen.
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{DEFAULT_DATABASE.resolve()}"


def there(uri: str) -> bool:
    """Whether there can be a registry: a file of SQLite that is not there is not made to look into it."""
    database = database_of(uri)
    return database is None or Path(database).exists()


def database_of(uri: str) -> str | None:
    """The file that an address of SQLite names; None of another.

    Raises:
        InputError: it is written in another way.
    """
    try:
        return make_url(uri).database if uri.startswith("sqlite:") else None
    except ArgumentError:
        raise InputError(f"MLFLOW_TRACKING_URI: {uri} found; write sqlite:////FOLDER/mlflow.db") from None


def local_folder(uri: str) -> Path | None:
    """The folder that an address of files names, where it is on this machine; a server's own are mlflow-artifacts:/…"""
    parts = urlsplit(uri)
    return Path(url2pathname(parts.path)) if parts.scheme in ("", "file") else None


class Server:
    """The server at `uri`."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._shown, self._secrets = _without_password(uri)
        with self.answering():
            database_of(uri)  # refuses an address that is written wrongly
            ask_database(uri)
            self.client = MlflowClient(uri, uri)

    @property
    def locks(self) -> bool:
        """Whether `alone` keeps others out."""
        return database_of(self.uri) is not None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other promotions to the same SQLite file out for the block; the kernel lets go if this process dies.

        A server's registry has no such lock: there, `promote` looks once more before it decides.
        """
        database = database_of(self.uri)
        if not database:
            yield
            return
        # The folder, since whoever closes the file itself would drop what SQLite holds on it.
        place = os.open(Path(database).parent, os.O_RDONLY)
        try:
            fcntl.flock(place, fcntl.LOCK_EX)
            yield
        finally:
            os.close(place)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Whatever goes wrong with the server, or its files, is an `InputError` that names it, without its password."""
        try:
            yield
        except (MlflowException, SQLAlchemyError, sqlite3.Error, OSError) as error:
            told = _of_disk(error)
            advice = "its files could not be read or written ({}). Make room on the disk, or let this user write there."
            if told is None:
                told = next(iter(str(error).strip().splitlines()), type(error).__name__)
                advice = "the model registry does not answer ({}). Start it, or correct MLFLOW_TRACKING_URI."
            for secret in self._secrets:
                told = told.replace(secret, "***")
            raise InputError(f"{self._shown}: {advice.format(told)}") from error

    def experiment(self) -> str:
        """Number of the experiment whose runs hold the files of packages; made where it is not there yet."""
        found = self.client.get_experiment_by_name(EXPERIMENT)
        if found is not None:
            return str(found.experiment_id)
        # Without a server the files lie beside the database, wherever it is used from; a server decides for itself.
        database = database_of(self.uri)
        local = (Path(database).resolve().parent / LOCAL_ARTIFACTS).as_uri() if database else None
        return str(self.client.create_experiment(EXPERIMENT, artifact_location=local))


def _without_password(uri: str) -> tuple[str, list[str]]:
    """An address as it may be shown, and what must not be; of one that nobody can read, all before the host."""
    try:
        address = make_url(uri)
    except ArgumentError:
        secret, _, shown = uri.rpartition("@")
        return shown, [secret] if secret else []
    shown = address.render_as_string(hide_password=True)
    if not address.password:
        return shown, []
    # As it stands in the address, where a `@` is `%40`: so it comes back in the words of who could not reach it.
    written = uri.partition("://")[2].partition("@")[0].partition(":")[2]
    return shown, [written, str(address.password)]


def _of_disk(error: BaseException) -> str | None:
    """What a disk or its rights said, where that is what went wrong; MLflow passes it on as text."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in OF_DISK:
            return str(cause)
        cause = cause.__cause__ or cause.__context__
    told = re.finditer(r"\[Errno (\d+)\] [^\n]*", str(error))
    of_sqlite = re.search(r"unable to open database file|attempt to write a readonly database", str(error))
    return next((found[0] for found in told if int(found[1]) in OF_DISK), of_sqlite and of_sqlite[0])
