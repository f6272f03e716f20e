"""Reach the tracking server behind the registry, and allow one promotion at a time.

It is the SQLite file `mlflow.db` in the working directory, or what the environment variable
MLFLOW_TRACKING_URI names. One that does not answer is an error, never "nothing there".
"""

from __future__ import annotations

import fcntl
import os
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

from plumbline.core.errors import InputError
from plumbline.core.sqlite import ask_database

DEFAULT_DATABASE = Path("mlflow.db")
EXPERIMENT = "release"
LOCAL_ARTIFACTS = Path("mlartifacts")


def default_uri() -> str:
    """Return the address of the registry, from the environment or the working directory."""
    # Absolute, because MLflow keeps one connection for each address it has seen.
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{DEFAULT_DATABASE.resolve()}"


def there(uri: str) -> bool:
    """Return whether a registry may exist. A missing SQLite file is not created just to
    look into it."""
    database = database_of(uri)
    return database is None or Path(database).exists()


def database_of(uri: str) -> str | None:
    """Return the file that an SQLite address names; None for another address.

    Raises:
        InputError: it is written in another way.
    """
    try:
        return make_url(uri).database if uri.startswith("sqlite:") else None
    except ArgumentError:
        raise InputError(
            f"MLFLOW_TRACKING_URI: {uri} found; write sqlite:////FOLDER/mlflow.db",
            key="registry.bad_address",
        ) from None


def local_folder(uri: str) -> Path | None:
    """Return the folder of a file address on this machine; None for a server's own,
    mlflow-artifacts:/…"""
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
        """Return whether `alone` keeps others out."""
        return database_of(self.uri) is not None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other promotions on the same SQLite file out during the block; a killed
        process frees the lock.

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
        """Turn any error of the server or its files into an `InputError` that names it,
        without its password."""
        try:
            yield
        except (MlflowException, SQLAlchemyError, sqlite3.Error, OSError) as error:
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            for secret in self._secrets:
                reason = reason.replace(secret, "***")
            raise InputError(
                f"{self._shown}: the model registry does not answer, or its files cannot be read "
                f"or written ({reason}). Start it, correct MLFLOW_TRACKING_URI, or make room on "
                "its disk.",
                key="registry.no_answer",
            ) from error

    def experiment(self) -> str:
        """Return the number of the experiment for packages' files, created if it is missing."""
        experiment = self.client.get_experiment_by_name(EXPERIMENT)
        if experiment is not None:
            return str(experiment.experiment_id)
        # Without a server the files lie beside the database, wherever it is used from; a
        # server decides for itself.
        database = database_of(self.uri)
        local = (Path(database).resolve().parent / LOCAL_ARTIFACTS).as_uri() if database else None
        return str(self.client.create_experiment(EXPERIMENT, artifact_location=local))


def _without_password(uri: str) -> tuple[str, list[str]]:
    """Return an address without its secrets, and the secrets; all before the host, if it
    cannot be parsed."""
    try:
        address = make_url(uri)
    except ArgumentError:
        secret, _, shown = uri.rpartition("@")
        return shown, [secret] if secret else []
    shown = address.render_as_string(hide_password=True)
    if not address.password:
        return shown, []
    # As it stands in the address, where a `@` is `%40`: so it comes back in the words of who
    # could not reach it.
    written = uri.partition("://")[2].partition("@")[0].partition(":")[2]
    return shown, [written, str(address.password)]
