"""Manage the MLflow registry: one model version per package, and the alias `champion` on
the released one."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from mlflow.artifacts import download_artifacts
from mlflow.entities import Metric
from mlflow.entities.model_registry import RegisteredModel

from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder
from plumbline.export.package import PackageManifest, origin_of
from plumbline.release.names import CHALLENGER, CHAMPION, DEFAULT_NAME
from plumbline.release.server import EXPERIMENT, Server, default_uri, local_folder
from plumbline.release.signature import signature_of
from plumbline.release.versions import (
    COMMIT_TAG,
    CREATED_TAG,
    PACKAGE,
    REPLACED_TAG,
    ROLLED_BACK_TAG,
    USER_TAG,
    VERDICT_TAG,
    VERSION_TAG,
    Records,
    Registered,
    download_folder,
    figures,
    is_whole,
    package_in,
    registered,
)
from plumbline.train.monitor.record import git_commit

SIGNATURE = "package.sig"
"""Name of the signature, beside the package; see `signature.signature_of`."""
MAX_VERSIONS = 200_000
"""Largest number of versions that MLflow lists at once."""
EVIDENCE = "comparison"
"""Folder with the comparison with the former champion, beside the package."""


class Registry:
    """Versions of the model `name` on the tracking server `uri`."""

    def __init__(self, name: str = DEFAULT_NAME, uri: str | None = None) -> None:
        self.name = name
        self.server = Server(uri or default_uri())
        self._client = self.server.client

    def versions(self) -> list[Registered]:
        """Return every registered package, the newest first.

        Raises:
            InputError: the registry does not answer.
        """
        with self.server.answering():
            # First: it is among the versions then, whoever promotes meanwhile.
            champion = self._aliases().get(CHAMPION)
            listed = self._client.search_model_versions(
                f"name='{self.name}'", max_results=MAX_VERSIONS
            )
        return sorted(
            (registered(item, champion) for item in listed), key=lambda item: -item.number
        )

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return the metrics of each registered package, by the identifier of its run.

        Raises:
            InputError: the registry does not answer.
        """
        with self.records() as records:
            return records.metrics(EXPERIMENT)

    def champion(self) -> Registered | None:
        """Return the released package, or None before the first release.

        Raises:
            InputError: the registry does not answer.
        """
        return next((item for item in self.versions() if item.champion), None)

    def challenger(self) -> Registered | None:
        """Return the challenger; None without one, or if it became the champion.

        Raises:
            InputError: the registry does not answer.
        """
        with self.server.answering():
            number = self._aliases().get(CHALLENGER)
        return next(
            (item for item in self.versions() if item.number == number and not item.champion), None
        )

    def challenge(self, number: int | None) -> None:
        """Make version `number` the challenger; with None, remove the challenger.

        Raises:
            InputError: the registry does not answer.
        """
        with self.server.answering():
            if number is not None:
                self._client.set_registered_model_alias(self.name, CHALLENGER, str(number))
            elif CHALLENGER in self._aliases():
                self._client.delete_registered_model_alias(self.name, CHALLENGER)

    def register(self, package: Path, manifest: PackageManifest) -> Registered:
        """Copy the files of `package` into the registry as a new version, an MLflow model;
        the champion stays.

        The package stays as it is, in the folder `PACKAGE` of the MLflow model, whose other
        files are beside it.

        Raises:
            InputError: the registry does not answer.
        """
        # Two seconds to load, and seldom needed.
        from plumbline.release.mlflow_model import write_mlflow_model

        version = manifest.version
        hashes = {f"{key}_hash": value for key, value in manifest.hashes.items()}
        verdict = {VERDICT_TAG: str(manifest.gate.get("verdict", ""))}
        tags = {
            VERSION_TAG: version,
            **hashes,
            **origin_of(manifest.records),
            **_registration(),
            **verdict,
        }
        with self.server.answering(), TemporaryDirectory() as folder:
            write_mlflow_model(package, manifest.default_model, Path(folder) / "model")
            run = self._client.create_run(
                self.server.experiment(), run_name=f"{self.name} {version}", tags=tags
            )
            now = int(datetime.now(UTC).timestamp() * 1000)
            metrics = [Metric(key, value, now, 0) for key, value in figures(manifest.metrics)]
            self._client.log_batch(run.info.run_id, metrics=metrics)
            self._client.log_artifacts(run.info.run_id, str(package), PACKAGE)
            self._client.log_artifacts(run.info.run_id, str(Path(folder) / "model"))
            self._client.set_terminated(run.info.run_id)
            if not self._models():
                self._client.create_registered_model(self.name)
            item = self._client.create_model_version(
                self.name, run.info.artifact_uri, run.info.run_id, tags=tags
            )
        return registered(item, None)

    def record(self, item: Registered, evidence: Path) -> None:
        """Store the files of the folder `evidence` beside those of `item`.

        Raises:
            InputError: the registry does not answer.
        """
        with self.server.answering():
            self._client.log_artifacts(item.run, str(evidence), EVIDENCE)

    def set_champion(self, number: int) -> None:
        """Make version `number` the champion, and tag the one that it replaces before.

        Cut between both, the tagged one still is the champion; the tag counts for others alone.

        Raises:
            InputError: the registry does not answer.
        """
        versions = self.versions()
        places = [item.replaced for item in versions]
        with self.server.answering():
            for item in versions:
                if item.champion and item.number != number:
                    self._tag(item.number, REPLACED_TAG, str(max(places) + 1))
                    # Of a roll-back that was cut before the alias moved.
                    self._tag(item.number, ROLLED_BACK_TAG, "")
            self._client.set_registered_model_alias(self.name, CHAMPION, str(number))
            # Whoever makes it the champion has decided: an earlier rollback is history.
            self._tag(number, ROLLED_BACK_TAG, "")

    def restore(self, former: Registered) -> None:
        """Make a former champion the champion again; mark the present one, and those
        between, as rolled back."""
        versions = self.versions()
        when = datetime.now(UTC).isoformat(timespec="seconds")
        with self.server.answering():
            for item in versions:
                if item.champion or item.replaced > former.replaced:
                    self._tag(item.number, ROLLED_BACK_TAG, when)
            self._client.set_registered_model_alias(self.name, CHAMPION, str(former.number))

    def aliased(self) -> set[int]:
        """Return the numbers of the versions with an alias: champion, challenger or any other.

        Raises:
            InputError: the registry does not answer.
        """
        with self.server.answering():
            return set(self._aliases().values())

    def withdraw(self, number: int) -> None:
        """Remove a version from the registry; its files belong to the run, see `mlflow_runs`."""
        with self.server.answering():
            self._client.delete_model_version(self.name, str(number))

    def runs_in_use(self) -> set[str]:
        """Return the numbers of the runs that hold the files of versions, of models of
        other names too.

        Raises:
            InputError: the registry does not answer.
        """
        with self.server.answering():
            return {
                item.run_id for item in self._client.search_model_versions(max_results=MAX_VERSIONS)
            }

    @contextmanager
    def records(self) -> Iterator[Records]:
        """Yield MLflow's runs, which hold the files of versions and the curves of trainings.

        Raises:
            InputError: the registry does not answer.
        """
        with self.server.answering():
            yield Records(self._client)

    def keep_signature(self, item: Registered, signature: Path) -> None:
        """Store a signature with the files of `item`, replacing an earlier one.

        Args:
            item: what was signed.
            signature: file named `SIGNATURE`.

        Raises:
            InputError: the registry does not answer.
        """
        with self.server.answering():
            self._client.log_artifact(item.run, str(signature))

    def signature(self, item: Registered) -> Path:
        """Return the local path of the signature of `item`; the file is missing if `item`
        is unsigned.

        Raises:
            InputError: the registry does not answer.
        """
        if (local := local_folder(item.source)) is not None:
            return signature_of(local)
        downloaded = download_folder(item.version).with_suffix(".signature")
        with self.server.answering(), atomic_folder(downloaded) as temporary:
            if any(file.path == SIGNATURE for file in self._client.list_artifacts(item.run)):
                self._client.download_artifacts(item.run, SIGNATURE, str(temporary))
        return downloaded / SIGNATURE

    def folder(self, item: Registered, anew: bool = False) -> Path:
        """Return a local folder with the files of `item`: the registry's own on this
        machine, else a download.

        Args:
            item: which.
            anew: download again what was downloaded before.

        Raises:
            InputError: the registry does not answer, or its copy is gone.
        """
        if (local := local_folder(item.source)) is not None:
            if not local.is_dir():
                raise InputError(
                    f"{local}: the registry's files of version {item.number} are gone. Restore "
                    "the folder, or promote the package again.",
                    key="registry.files_missing",
                )
            return local
        downloaded = download_folder(item.version)
        if anew or not is_whole(
            package_in(downloaded)
        ):  # not there yet, or harmed since: the registry's own may be well
            with self.server.answering(), atomic_folder(downloaded) as temporary:
                download_artifacts(
                    artifact_uri=item.source, dst_path=str(temporary), tracking_uri=self.server.uri
                )
        return package_in(downloaded)

    def _models(self) -> list[RegisteredModel]:
        """Return the model; none before the first release, where a look-up by its name
        would be an error."""
        return list(self._client.search_registered_models(f"name='{self.name}'"))

    def _aliases(self) -> dict[str, int]:
        """Return the number of the version that each alias names."""
        return {
            alias: int(number)
            for model in self._models()
            for alias, number in model.aliases.items()
        }

    def _tag(self, number: int, key: str, value: str) -> None:
        self._client.set_model_version_tag(self.name, str(number), key, value)


def _registration() -> dict[str, str]:
    """Return the tags that describe a registration: when, by whom, and at which commit of
    the working directory."""
    commit = git_commit(Path.cwd())
    tags = {CREATED_TAG: datetime.now(UTC).isoformat(timespec="seconds"), USER_TAG: _login_name()}
    if commit is not None:
        tags[COMMIT_TAG] = f"{commit['commit']}{'-dirty' if commit['changed'] else ''}"
    return tags


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return str(os.getuid())
