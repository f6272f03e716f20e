"""Close the records of killed runs, and remove the files that runs leave beside their results."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowFilter, FlowRunFilter
from prefect.settings import PREFECT_API_URL
from prefect.states import Crashed

from flows.orchestration import embedded_server
from flows.orchestration.services import FOLDER

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
"""Patterns below `.plumbline` of files that somebody may continue with, or look at."""
DOWNLOADED = ("models/*",)
"""Patterns of downloads that are removed in a worker's clone only; `plumbline release tidy`
removes those of the project, and keeps those that are released."""
DAY_S = 86_400.0


def cut_logs(most_bytes: int, dry_run: bool) -> int:
    """Cut logs longer than `most_bytes` to the last half of that; return the bytes removed.

    Processes go on writing at the end of a log; a line that arrives at the moment of the
    cut may be lost.
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
                tail = stream.read().partition(b"\n")[2]
                stream.seek(0)
                stream.write(tail)
                stream.truncate()
    return removed


def clear_folders(checkout: Path, days: float, dry_run: bool, clone: bool) -> int:
    """Remove what has not changed for `days` in `.plumbline` of a locked checkout; return
    the bytes removed."""
    # The pipeline, which loads this module too, runs stages as processes alone.
    from plumbline.core.jobs import remove

    old = list(_old(checkout / ".plumbline", (*LEFT, *(DOWNLOADED if clone else ())), days))
    size = sum(_bytes(path) for path in old)
    if not dry_run:
        for path in old:
            remove(path)
    return size


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
"""Flows of which one at a time is at work in a checkout, see `checkout.alone`, and what
runs inside of these alone."""


def close_leftover_runs(run_id: object) -> None:
    """Give killed runs an end in the record of the embedded server; `run_id` is the number
    of this run.

    To be called by the owner of the checkout only: in its own record, no other run that
    owns one can be at work; one of `score`, which owns none, can. On a server of one's own
    any may be, and there deployed runs are given up when they fall silent.
    """
    if PREFECT_API_URL.value() and not embedded_server.at_work():
        return
    dead = {"state": {"type": {"any_": ["RUNNING", "PENDING"]}}, "id": {"not_any_": [run_id]}}
    with get_client(sync_client=True) as client:
        owners = FlowFilter.model_validate({"name": {"any_": OWNERS}})
        for run in client.read_flow_runs(
            flow_filter=owners, flow_run_filter=FlowRunFilter.model_validate(dead)
        ):
            client.set_flow_run_state(
                run.id, Crashed(message="The process was killed. Run again."), force=True
            )
