"""Close the records of killed runs, and remove the files and records that runs leave beside their results."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import ArtifactFilter, FlowFilter, FlowRunFilter
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_API_URL
from prefect.states import Crashed

from flows.orchestration import embedded_server
from flows.orchestration.services import FOLDER

FLOWS = ["pipeline", "portions", "restoration", "retrain", "score", "service-job", "stage", "tidy", "tiles"]
"""`portions` and `tiles` run inside of others, and their records do not go with those."""
TAG = "plumbline"
"""Of the runs of our deployments, and of those by hand (`main` of each flow): a server may be shared with others, who
may have flows of these names."""
FINAL = ["COMPLETED", "FAILED", "CRASHED", "CANCELLED"]
PAGE = 200
LEFT = (
    "checkpoints/*",
    "ingest/*",
    "prepare/*",
    "profile/*",
    "restoration/*",
    "restore/*",
    "runs/*",
    "score/*",
    "search/*",
    "tensorboard/*/*",
)
"""Below `.plumbline`: what somebody may go on with, or look at."""
DOWNLOADED = ("models/*",)
"""In a worker's clone alone; `plumbline release tidy` sees to those of the project, and knows which are released."""
DAY_S = 86_400.0


def forget_runs(days: float, dry_run: bool) -> int:
    """Remove Prefect's records of our runs that ended over `days` ago, with logs and artifacts; return their number.

    Raises:
        httpx.HTTPError: the server does not answer.
    """
    before = datetime.now(UTC) - timedelta(days=days)
    ended = {
        "state": {"type": {"any_": FINAL}},
        "end_time": {"before_": before.isoformat()},
        "tags": {"all_": [TAG]},
    }
    removed = 0
    with get_client(sync_client=True) as client:
        while found := _runs(client, FLOWS, ended, offset=removed if dry_run else 0):
            if not dry_run:
                for run in found:
                    _forget(client, run)
            removed += len(found)
    return removed


def cut_logs(most_bytes: int, dry_run: bool) -> int:
    """Cut logs longer than `most_bytes` to the last half of that; return the bytes removed.

    Processes go on writing at the end of a log; a line that arrives at the moment of the cut may be lost.
    """
    removed = 0
    for log in sorted(FOLDER.glob("*.log")):
        size = log.stat().st_size
        if size <= most_bytes:
            continue
        removed += size - most_bytes // 2
        if not dry_run:
            with log.open("r+b") as stream:
                stream.seek(-(most_bytes // 2), 2)
                kept = stream.read().partition(b"\n")[2]
                stream.seek(0)
                stream.write(kept)
                stream.truncate()
    return removed


def clear_folders(checkout: Path, days: float, dry_run: bool, clone: bool) -> int:
    """Remove what has not changed for `days` in `.plumbline` of a locked checkout; return the bytes removed."""
    from plumbline.core.jobs import remove  # the pipeline, which loads this module too, runs stages as processes alone

    old = list(_old(checkout / ".plumbline", (*LEFT, *(DOWNLOADED if clone else ())), days))
    size = sum(_bytes(path) for path in old)
    if not dry_run:
        for path in old:
            remove(path)
    return size


def _runs(client: SyncPrefectClient, flows: list[str], which: dict[str, object], offset: int = 0) -> list[UUID]:
    ours = FlowFilter.model_validate({"name": {"any_": flows}})
    wanted = FlowRunFilter.model_validate(which)
    return [
        run.id for run in client.read_flow_runs(flow_filter=ours, flow_run_filter=wanted, limit=PAGE, offset=offset)
    ]


def _forget(client: SyncPrefectClient, run: UUID) -> None:
    """Remove a run and its artifacts; the server removes only its tasks and logs with it."""
    of_run = ArtifactFilter.model_validate({"flow_run_id": {"any_": [str(run)]}})
    for artifact in client.read_artifacts(artifact_filter=of_run):
        if artifact.id is not None:
            with suppress(ObjectNotFound):  # removed in the browser meanwhile
                client.delete_artifact(artifact.id)
    with suppress(ObjectNotFound):
        client.delete_flow_run(run)


def _old(work: Path, patterns: Iterable[str], days: float) -> Iterator[Path]:
    for pattern in patterns:
        for path in work.glob(pattern):
            if time.time() - _changed(path) > days * DAY_S:
                yield path


def _changed(path: Path) -> float:
    try:
        return max(one.stat().st_mtime for one in (path, *path.rglob("*")))
    except FileNotFoundError:  # somebody is at it
        return time.time()


def _bytes(path: Path) -> int:
    return sum(one.stat().st_size for one in (path, *path.rglob("*")) if one.is_file())


OWNERS = ["pipeline", "portions", "restoration", "retrain"]
"""Flows of which one at a time is at work in a checkout, see `checkout.alone`, and what runs inside of these alone."""


def close_leftover_runs(own: object) -> None:
    """Give killed runs an end in the record of the embedded server; `own` is the number of this run.

    To be called by the owner of the checkout only: in its own record, no other run that owns one can be at work; one of
    `score`, which owns none, can. On a server of one's own any may be, and there deployed runs are given up when they
    fall silent.
    """
    if PREFECT_API_URL.value() and not embedded_server.at_work():
        return
    dead = {"state": {"type": {"any_": ["RUNNING", "PENDING"]}}, "id": {"not_any_": [own]}}
    with get_client(sync_client=True) as client:
        owners = FlowFilter.model_validate({"name": {"any_": OWNERS}})
        for run in client.read_flow_runs(flow_filter=owners, flow_run_filter=FlowRunFilter.model_validate(dead)):
            client.set_flow_run_state(run.id, Crashed(message="The process was killed. Run again."), force=True)
