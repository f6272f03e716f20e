"""The MLflow registry: one model version a package, and the alias `champion` on the released one.

Everything goes to one tracking server: the SQLite file `mlflow.db` in the working directory, or what the
environment variable MLFLOW_TRACKING_URI names. A registry that does not answer is an error, never "no champion".
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from mlflow import MlflowClient
from mlflow.artifacts import download_artifacts
from mlflow.entities import Metric
from mlflow.entities.model_registry import ModelVersion, RegisteredModel
from mlflow.exceptions import MlflowException
from sqlalchemy import make_url
from sqlalchemy.exc import SQLAlchemyError

from plumbline.errors import InputError
from plumbline.export.package import Manifest
from plumbline.files import atomic_folder
from plumbline.release.records import Records
from plumbline.release.resolve import CHAMPION

DEFAULT_DATABASE = Path("mlflow.db")
DEFAULT_NAME = "plumbline"
CHALLENGER = "challenger"
"""Alias of a version whose answers are recorded beside the champion's; see `serve.score.shadow`."""
EXPERIMENT = "release"
LOCAL_ARTIFACTS = Path("mlartifacts")
EVIDENCE = "comparison"
"""Folder with the comparison with the former champion, beside the package."""
DOWNLOADS = Path(".plumbline/models")
HISTORY, HISTORY_LENGTH = "former_champions", 100
VERSION_TAG, ROLLED_BACK_TAG = "package_version", "rolled_back"
RETIRED = "retired."
"""With a package's version: tag of the model that tells of a champion of the past whose package is no longer kept."""


@dataclass(frozen=True)
class Registered:
    """A package in the registry."""

    number: int
    """The registry's own count, from 1."""
    version: str
    """The package's version: the hash of its content."""
    registered: datetime
    """When it was registered, UTC."""
    champion: bool
    source: str
    """URI of the registry's own copy of the package's files."""
    rolled_back: bool = False
    """It was the champion and was taken back: no run may promote it again by itself."""
    replaced: bool = False
    """It was the champion until a better one came: no run may promote it again by itself either."""


def default_uri() -> str:
    """Where the registry is, as the environment and the working directory say."""
    # Absolute, because MLflow keeps one connection for each address it has seen.
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{DEFAULT_DATABASE.resolve()}"


class Registry:
    """The versions of the model `name` under the tracking server `uri`."""

    def __init__(self, name: str = DEFAULT_NAME, uri: str | None = None) -> None:
        self.name = name
        self.uri = uri or default_uri()
        with self._answering():
            self._client = MlflowClient(self.uri, self.uri)

    @property
    def locks(self) -> bool:
        """Whether `alone` keeps others out."""
        return self._database() is not None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other promotions to the same SQLite file out for the block; the kernel lets go if this process dies.

        A server's registry has no such lock: there, `promote` looks once more before it decides.
        """
        database = self._database()
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

    def versions(self) -> list[Registered]:
        """Every registered package, the newest first.

        Raises:
            InputError: the registry does not answer.
        """
        with self._answering():
            model = self._model()
            found = self._client.search_model_versions(f"name='{self.name}'", max_results=10_000) if model else []
        number, history = _champion_number(model), _history(model)
        return sorted((_registered(item, number, history) for item in found), key=lambda item: -item.number)

    def champion(self) -> Registered | None:
        """The released package, or None where none was ever released.

        Raises:
            InputError: the registry does not answer.
        """
        return next((item for item in self.versions() if item.champion), None)

    def challenger(self) -> Registered | None:
        """The package that the champion is challenged by, or None where there is none, or it became the champion.

        Raises:
            InputError: the registry does not answer.
        """
        with self._answering():
            model = self._model()
        number = model.aliases.get(CHALLENGER) if model else None
        found = None if number is None else int(number)
        return next((item for item in self.versions() if item.number == found and not item.champion), None)

    def challenge(self, number: int | None) -> None:
        """Make version `number` the challenger, or with None nobody.

        Raises:
            InputError: the registry does not answer.
        """
        with self._answering():
            if number is None:
                self._client.delete_registered_model_alias(self.name, CHALLENGER)
            else:
                self._client.set_registered_model_alias(self.name, CHALLENGER, str(number))

    def register(self, package: Path, manifest: Manifest) -> Registered:
        """Copy the files of `package` into the registry as a new version; the champion stays what it was.

        Raises:
            InputError: the registry does not answer.
        """
        version = manifest.version
        tags = {VERSION_TAG: version, **{f"{key}_hash": value for key, value in manifest.hashes.items()}}
        with self._answering():
            run = self._client.create_run(self._experiment(), run_name=f"{self.name} {version}", tags=tags)
            now = int(datetime.now(UTC).timestamp() * 1000)
            metrics = [Metric(key, value, now, 0) for key, value in _figures(manifest.metrics)]
            self._client.log_batch(run.info.run_id, metrics=metrics)
            self._client.log_artifacts(run.info.run_id, str(package), "package")
            self._client.set_terminated(run.info.run_id)
            if self._model() is None:
                self._client.create_registered_model(self.name)
            source = f"{run.info.artifact_uri}/package"
            item = self._client.create_model_version(self.name, source, run.info.run_id, tags=tags)
        return _registered(item, None, [])

    def record(self, number: int, evidence: Path) -> None:
        """Keep the files of the folder `evidence` beside those of version `number`.

        Raises:
            InputError: the registry does not answer.
        """
        with self._answering():
            run = self._client.get_model_version(self.name, str(number)).run_id
            self._client.log_artifacts(run, str(evidence), EVIDENCE)

    def crown(self, number: int) -> None:
        """Make version `number` the champion and remember the one it replaces. The alias is set last.

        Raises:
            InputError: the registry does not answer.
        """
        with self._answering():
            model = self._model()
            current = _champion_number(model)
            if current is not None and current != number:
                self._remember([*_history(model), current])
            self._client.set_registered_model_alias(self.name, CHAMPION, str(number))
            # Whoever makes it the champion has decided: an earlier rollback is history.
            self._client.set_model_version_tag(self.name, str(number), ROLLED_BACK_TAG, "")

    def former(self) -> int | None:
        """Number of the champion before the present one.

        A crash between the two writes of a promotion leaves the present champion in the list; it is passed over.
        """
        with self._answering():
            model = self._model()
        current = _champion_number(model)
        return next((number for number in reversed(_history(model)) if number != current), None)

    def restore(self, number: int) -> None:
        """Make the former champion `number` the champion again, mark the present one, and forget those between."""
        with self._answering():
            model = self._model()
            history, present = _history(model), _champion_number(model)
            if present is not None and present != number:
                when = datetime.now(UTC).isoformat(timespec="seconds")
                self._client.set_model_version_tag(self.name, str(present), ROLLED_BACK_TAG, when)
            self._client.set_registered_model_alias(self.name, CHAMPION, str(number))
            self._remember(history[: len(history) - 1 - history[::-1].index(number)])

    def history(self) -> list[int]:
        """Numbers of the champions before the present one, the last at the end; one may come twice.

        Raises:
            InputError: the registry does not answer.
        """
        with self._answering():
            return _history(self._model())

    def aliased(self) -> set[int]:
        """Numbers of the versions that somebody has given a name to: the champion, the challenger, any other.

        Raises:
            InputError: the registry does not answer.
        """
        with self._answering():
            model = self._model()
        return {int(number) for number in model.aliases.values()} if model else set()

    def retired(self) -> dict[str, str]:
        """Versions that were the champion once, and what became of them: as `retire` was told.

        Raises:
            InputError: the registry does not answer.
        """
        with self._answering():
            model = self._model()
        tags: dict[str, str] = model.tags if model else {}
        return {key.removeprefix(RETIRED): why for key, why in tags.items() if key.startswith(RETIRED)}

    def retire(self, versions: Mapping[str, str]) -> None:
        """Remember of packages (by version) why no run may promote them by itself, for when they are gone."""
        with self._answering():
            for version, why in versions.items():
                self._client.set_registered_model_tag(self.name, f"{RETIRED}{version}", why)

    def keep_history(self, history: list[int]) -> None:
        """Forget the champions that are not in `history`, the end of what `history()` said."""
        with self._answering():
            self._remember(history)

    def withdraw(self, number: int) -> None:
        """Take a version out of the registry; its files are the run's, see `records`."""
        with self._answering():
            self._client.delete_model_version(self.name, str(number))

    def runs_in_use(self, without: Collection[int] = ()) -> set[str]:
        """Numbers of the runs that hold the files of versions, those of models of other names too.

        Args:
            without: versions of this model not to count.

        Raises:
            InputError: the registry does not answer.
        """
        found: set[str] = set()
        token = None
        with self._answering():
            while True:
                page = self._client.search_model_versions(max_results=1000, page_token=token)
                found |= {item.run_id for item in page if item.name != self.name or int(item.version) not in without}
                token = page.token
                if not token:
                    return found

    @contextmanager
    def records(self) -> Iterator[Records]:
        """MLflow's runs, where the files of versions lie, and the curves of trainings.

        Raises:
            InputError: the registry does not answer.
        """
        with self._answering():
            yield Records(self._client)

    def folder(self, item: Registered) -> Path:
        """Local folder with the files of `item`: the registry's own where it is on this machine, else a download.

        Raises:
            InputError: the registry does not answer, or its copy is gone.
        """
        if urlsplit(item.source).scheme in ("", "file"):  # a server's own are mlflow-artifacts:/…
            local = Path(url2pathname(urlsplit(item.source).path))
            if not local.is_dir():
                raise InputError(
                    f"{local}: the registry's files of version {item.number} are gone. Restore the folder, "
                    "or promote the package again."
                )
            return local
        downloaded = DOWNLOADS / item.version
        if not downloaded.is_dir():
            with self._answering(), atomic_folder(downloaded) as temporary:
                download_artifacts(artifact_uri=item.source, dst_path=str(temporary), tracking_uri=self.uri)
        return next(downloaded.rglob("manifest.json"), downloaded / "manifest.json").parent

    def _database(self) -> str | None:
        return make_url(self.uri).database if self.uri.startswith("sqlite:") else None

    def _experiment(self) -> str:
        found = self._client.get_experiment_by_name(EXPERIMENT)
        if found is not None:
            return str(found.experiment_id)
        # Without a server the files lie beside the database, wherever it is used from; a server decides for itself.
        database = self.uri.removeprefix("sqlite:///")
        local = (Path(database).resolve().parent / LOCAL_ARTIFACTS).as_uri() if database != self.uri else None
        return str(self._client.create_experiment(EXPERIMENT, artifact_location=local))

    def _model(self) -> RegisteredModel | None:
        # A search answers "none" with an empty list; looking up a name answers with an error like any other.
        found = self._client.search_registered_models(f"name='{self.name}'")
        return next(iter(found), None)

    def _remember(self, history: list[int]) -> None:
        self._client.set_registered_model_tag(self.name, HISTORY, json.dumps(history[-HISTORY_LENGTH:]))

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except (MlflowException, SQLAlchemyError, OSError) as error:
            address = make_url(self.uri)
            shown = address.render_as_string(hide_password=True)
            told = next(iter(str(error).strip().splitlines()), type(error).__name__)
            if address.password:
                told = told.replace(str(address.password), "***")
            raise InputError(
                f"{shown}: the model registry does not answer ({told}). Start it, or correct MLFLOW_TRACKING_URI."
            ) from error


def _registered(item: ModelVersion, champion: int | None, history: list[int]) -> Registered:
    number = int(item.version)
    created = datetime.fromtimestamp(item.creation_timestamp / 1000, UTC)
    version, rolled_back = str(item.tags.get(VERSION_TAG, "")), bool(item.tags.get(ROLLED_BACK_TAG))
    replaced = number in history and number != champion
    return Registered(number, version, created, number == champion, str(item.source), rolled_back, replaced)


def _champion_number(model: RegisteredModel | None) -> int | None:
    number = model.aliases.get(CHAMPION) if model else None
    return int(number) if number is not None else None


def _history(model: RegisteredModel | None) -> list[int]:
    history: list[int] = json.loads(model.tags.get(HISTORY, "[]")) if model else []
    return history


def _figures(metrics: Any, prefix: str = "") -> Iterator[tuple[str, float]]:
    """Numbers in nested mappings, each under its keys joined by dots."""
    if isinstance(metrics, Mapping):
        for key, value in metrics.items():
            yield from _figures(value, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(metrics, int | float) and not isinstance(metrics, bool):
        yield prefix, float(metrics)
