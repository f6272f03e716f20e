"""Have portions of work done on a Dask cluster, before the process that puts them together begins."""

from __future__ import annotations

from collections.abc import Callable

from flows.versioning.stage_runner import BAD_INPUT, Say, StageFailedError, stale


def on_dask(stage: str, address: str, say: Say) -> None:
    """Do the portions of `stage` on the cluster at `address` (its scheduler), if the stage must be made.

    Raises:
        StageFailedError: bad input, or a cluster that does not answer.
    """
    if stage not in stale():
        return
    # The package's readers take seconds to load, and a run without a cluster has no need of them here.
    from flows.orchestration import portions

    count = _told(stage, address, lambda: portions.on_dask(stage, address))
    say(f"{stage}: {count} portions done on {address}")


def score_on_dask(address: str, say: Say) -> None:
    """Judge the tiles of new deliveries on the cluster at `address`.

    Raises:
        StageFailedError: as `on_dask`.
    """
    from flows.orchestration import portions

    count = _told("score", address, lambda: portions.score_on_dask(address))
    say(f"score: {count} tiles judged on {address}")


def _told(stage: str, address: str, work: Callable[[], int]) -> int:
    from plumbline.core.errors import PlumblineError

    try:
        return work()
    except PlumblineError as error:
        raise StageFailedError(f"{stage}: {error}", error.exit_code) from error
    except OSError as error:
        raise StageFailedError(f"{stage}: no Dask scheduler answers at {address} ({error}).", BAD_INPUT) from error
