"""Find the MLflow runs that are not needed any more, and remove them with their files as `mlflow gc` does."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Run, RunStatus, ViewType
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

from plumbline.release.registered_versions import VERSION_TAG
from plumbline.release.server import local_folder

TRAINING = "plumbline"
"""Experiment that `train` and `compress` write their curves to."""
TIDIED = "tidied"
"""Tag of a run that is being removed: one that was deleted by somebody else stays for them to bring back."""
DAY_MS = 86_400_000
AT_WORK_DAYS = 7.0
"""A training that was killed says RUNNING for ever; longer than this no stage is at work."""
PAGE = 1000


class Records:
    """Runs of one tracking server."""

    def __init__(self, client: MlflowClient) -> None:
        self._client = client
        self._now = int(time.time() * 1000)

    def unused(self, experiment: str, used: Collection[str], young_ms: int) -> list[Run]:
        """Return the runs of an experiment that are not in `used` (run numbers), deleted ones included.

        Args:
            experiment: its name.
            used: runs that stay.
            young_ms: age up to which a run stays, since it may be that of a registration at work.
        """
        # Every registration tags its run when it begins; others' experiment may have the same name.
        found = self._search(experiment, f"tags.{VERSION_TAG} LIKE '%'", ViewType.ALL)
        return [run for run in found if run.info.run_id not in used and self._now - run.info.start_time >= young_ms]

    def old_trainings(self, days: float, newest: int) -> list[Run]:
        """Return records of trainings that ended more than `days` ago, except the `newest`, and half-removed ones."""
        found = sorted(self._search(TRAINING, "", ViewType.ACTIVE_ONLY), key=lambda run: -run.info.start_time)
        begun = self._search(TRAINING, f"tags.{TIDIED} = 'yes'", ViewType.DELETED_ONLY)
        return [*(run for run in found[newest:] if self._ended_before(run, days)), *begun]

    def remove(self, run: Run) -> None:
        """Remove a run with its files; on a server, mark it as deleted for `mlflow gc` there.

        Cut anywhere, it is found and removed again: first the mark, then the files, last the record of it.
        """
        number = run.info.run_id
        if run.info.lifecycle_stage != "deleted":
            self._client.set_tag(number, TIDIED, "yes")
            self._client.delete_run(number)
        # MLflow's own command would also remove whatever experiments a user has deleted and may want back.
        store = self._client._tracking_client.store
        if hasattr(store, "_hard_delete_run"):
            get_artifact_repository(run.info.artifact_uri).delete_artifacts()
            if (place := local_folder(run.info.artifact_uri)) is not None:
                with suppress(OSError):
                    place.parent.rmdir()  # of the run's number; MLflow leaves it
            store._hard_delete_run(number)

    def _search(self, experiment: str, wanted: str, view: int) -> Iterator[Run]:
        found = self._client.get_experiment_by_name(experiment)
        if found is None:
            return
        token = None
        while True:
            page = self._client.search_runs([found.experiment_id], wanted, view, PAGE, page_token=token)
            yield from page
            token = page.token
            if not token:
                return

    def _ended_before(self, run: Run, days: float) -> bool:
        at_work: bool = run.info.status == RunStatus.to_string(RunStatus.RUNNING)
        since: int = run.info.start_time if at_work else run.info.end_time or run.info.start_time
        return self._now - since > (days + at_work * AT_WORK_DAYS) * DAY_MS


def bytes_of(folder: Path | None) -> int:
    """Return the bytes of all files below a folder; 0 without a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder else 0
