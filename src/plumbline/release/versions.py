"""List registered packages, and runs that nobody needs."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Run, RunStatus, ViewType
from mlflow.entities.model_registry import ModelVersion
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

from plumbline.core.errors import InputError
from plumbline.export.package import MANIFEST
from plumbline.release.names import CHAMPION, verify_package
from plumbline.release.server import local_folder

DOWNLOADS = Path(".plumbline/models")
PACKAGE = "package"
"""Folder of the package within the MLflow model of a version."""
VERSION_TAG, REPLACED_TAG, ROLLED_BACK_TAG = "package_version", "replaced", "rolled_back"
CREATED_TAG, COMMIT_TAG, USER_TAG = "plumbline.created", "plumbline.commit", "plumbline.user"
"""Tags that describe a registration: its time, the commit of the folder it was made in, and
the user's login name."""
FORMER, ROLLED_BACK = "former", "rolled back"
"""States of packages that were the champion."""
VERDICT_TAG = "plumbline.verdict"
"""Tag with the verdict of the package's gates."""
MAIN_FIGURES = {
    "pruned.quadrant_accuracy": "quadrant accuracy",
    "pruned.severity_mae": "severity MAE, permille",
    "fp16.crps_mm": "CRPS, mm",
    "fp16.coverage": "coverage",
}
"""Metric of a version's run, measured on the file that is its default model -> heading in a
list of versions.

The first two are of diagnosis, the others of fields.
"""


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
    replaced: int = 0
    """Place among all that were replaced as the champion, from 1: no run may promote it
    again by itself either.

    0 where it never was replaced.
    """
    run: str = ""
    """Identifier of the MLflow run with its files and metrics."""
    user: str = ""
    """Login name of whoever registered it."""
    commit: str = ""
    """Commit of the folder it was registered in; empty outside a repository."""
    verdict: str = ""
    """Verdict of its gates."""

    @property
    def state(self) -> str:
        """Return the word for its place in the history: `champion`, `former`, `rolled
        back`, or nothing."""
        if self.champion:
            return CHAMPION
        return ROLLED_BACK if self.rolled_back else FORMER if self.replaced else ""


def registered(item: ModelVersion, champion: int | None) -> Registered:
    """Return the package of a version, for a model with this champion."""
    number = int(item.version)
    created = datetime.fromtimestamp(item.creation_timestamp / 1000, UTC)
    return Registered(
        number,
        str(item.tags.get(VERSION_TAG, "")),
        created,
        champion=number == champion,
        source=f"{item.source}/{PACKAGE}",
        rolled_back=bool(item.tags.get(ROLLED_BACK_TAG)),
        replaced=int(place) if (place := item.tags.get(REPLACED_TAG, "")).isdecimal() else 0,
        run=str(item.run_id),
        user=item.tags.get(USER_TAG, ""),
        commit=item.tags.get(COMMIT_TAG, ""),
        verdict=item.tags.get(VERDICT_TAG, ""),
    )


def former_champions(versions: Iterable[Registered]) -> list[Registered]:
    """Return the champions before the present one that can be gone back to, the last first."""
    former = (
        item for item in versions if item.replaced and not item.rolled_back and not item.champion
    )
    return sorted(former, key=lambda item: -item.replaced)


def download_folder(version: str) -> Path:
    """Return the folder for a package's files after download.

    Raises:
        InputError: that is no version of a package. It is a tag, which anybody can write,
            and could name any folder.
    """
    if not re.fullmatch(r"[0-9a-f]{12,64}", version):
        raise InputError(
            f"the registry's tag {VERSION_TAG}: {version!r} is no hash. Correct it in MLflow.",
            key="registry.bad_version_tag",
        )
    return DOWNLOADS / version


def package_in(downloaded: Path) -> Path:
    """Return the package in a folder that MLflow has filled."""
    return next(downloaded.rglob(MANIFEST), downloaded / MANIFEST).parent


def is_whole(package: Path) -> bool:
    """Return whether a package has all its files, unchanged since its release."""
    try:
        verify_package(package)
    except InputError:
        return False
    return True


def figures(metrics: Any, prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers in nested mappings, each under its keys joined by dots."""
    if isinstance(metrics, Mapping):
        for key, value in metrics.items():
            yield from figures(value, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(metrics, int | float) and not isinstance(metrics, bool):
        yield prefix, float(metrics)


TRAINING = "plumbline"
"""Experiment that `train` and `compress` write their curves to."""
TIDIED = "tidied"
"""Tag of a run that is being removed: one that was deleted by somebody else stays for them
to bring back."""
DAY_MS = 86_400_000
AT_WORK_DAYS = 7.0
"""A training that was killed says RUNNING for ever; longer than this no stage is at work."""
MAX_RUNS = 50_000
"""Largest number of runs that MLflow lists at once."""


class Records:
    """Runs of one tracking server."""

    def __init__(self, client: MlflowClient) -> None:
        self._client = client
        self._now = int(time.time() * 1000)

    def unused(self, experiment: str, used: Collection[str], young_ms: int) -> list[Run]:
        """Return the runs of an experiment that are not in `used` (run numbers), deleted
        ones included.

        Args:
            experiment: its name.
            used: runs that stay.
            young_ms: age up to which a run stays, since it may be that of a registration at work.
        """
        # Every registration tags its run when it begins; others' experiment may have the same name.
        runs = self._search(experiment, f"tags.{VERSION_TAG} LIKE '%'", ViewType.ALL)
        return [
            run
            for run in runs
            if run.info.run_id not in used and self._now - run.info.start_time >= young_ms
        ]

    def metrics(self, experiment: str) -> dict[str, dict[str, float]]:
        """Return the metrics of each registration of an experiment, by the identifier of its
        run."""
        runs = self._search(experiment, f"tags.{VERSION_TAG} LIKE '%'", ViewType.ALL)
        return {run.info.run_id: run.data.metrics for run in runs}

    def old_trainings(self, days: float, newest: int) -> list[Run]:
        """Return records of trainings that ended more than `days` ago, except the `newest`,
        and half-removed ones."""
        runs = sorted(
            self._search(TRAINING, "", ViewType.ACTIVE_ONLY), key=lambda run: -run.info.start_time
        )
        half_removed = self._search(TRAINING, f"tags.{TIDIED} = 'yes'", ViewType.DELETED_ONLY)
        return [*(run for run in runs[newest:] if self._ended_before(run, days)), *half_removed]

    def remove(self, run: Run) -> None:
        """Remove a run with its files; on a server, mark it as deleted for `mlflow gc` there.

        Cut anywhere, it is found and removed again: first the mark, then the files, last
        the record of it.
        """
        number = run.info.run_id
        if run.info.lifecycle_stage != "deleted":
            self._client.set_tag(number, TIDIED, "yes")
            self._client.delete_run(number)
        # MLflow's own command would also remove whatever experiments a user has deleted and
        # may want back.
        store = self._client._tracking_client.store
        if hasattr(store, "_hard_delete_run"):
            get_artifact_repository(run.info.artifact_uri).delete_artifacts()
            if (place := local_folder(run.info.artifact_uri)) is not None:
                with suppress(OSError):
                    place.parent.rmdir()  # of the run's number; MLflow leaves it
            store._hard_delete_run(number)

    def _search(self, name: str, wanted: str, view: int) -> list[Run]:
        experiment = self._client.get_experiment_by_name(name)
        return (
            list(self._client.search_runs([experiment.experiment_id], wanted, view, MAX_RUNS))
            if experiment
            else []
        )

    def _ended_before(self, run: Run, days: float) -> bool:
        at_work: bool = run.info.status == RunStatus.to_string(RunStatus.RUNNING)
        since: int = run.info.start_time if at_work else run.info.end_time or run.info.start_time
        return self._now - since > (days + at_work * AT_WORK_DAYS) * DAY_MS
