"""Find and read the checkpoint from which an interrupted run resumes."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import read_json
from plumbline.core.jobs import remove
from plumbline.train.distributed.strategies import process_number
from plumbline.train.fit.initial_weights import CHECKPOINT

Kind = TypeVar("Kind")
BEST, LAST = "best", "last"
"""Names of the checkpoints, without their suffix."""
BATCH_SIZE, RECORDED, SETTINGS = "batch_size.json", "records.json", "settings.json"
"""Files beside the checkpoints: the size that was found, where the curves are, and the params."""
FREE = ("alarms", "device_stats", "profile", "strategy", "devices", "nodes")
"""Keys of section `train` that change no weight: with others a run is gone on with."""
NAMED = 4
"""Params that two runs differ in, said at most."""
UNREADABLE = ".unreadable"
"""Added to the name of a checkpoint that could not be read: not removed, since a disk that fails for a moment, or
another version of a library, says the same of a whole one."""


def resumed(folder: Path, name: str, start_from: Sequence[str]) -> Path | None:
    """Return the checkpoint to resume from, if one exists and is wanted.

    Raises:
        InputError: nothing but a checkpoint is wanted, and there is none.
    """
    if CHECKPOINT not in start_from:
        if not process_number():
            shutil.rmtree(folder, ignore_errors=True)
        return None
    last = folder / f"{LAST}.ckpt"
    found = _usable(last)
    if found is not None and _has_best(found) and _usable(best := folder / f"{BEST}.ckpt") is None:
        log.warning("%s, the best epoch so far, cannot be used; training starts from the beginning", best)
        found = None
    if found is None and list(start_from) == [CHECKPOINT]:
        raise InputError("train.start_from: checkpoint found, and no run with these data and params was interrupted.")
    if found is None:
        return None
    log.info("%s: resuming from the checkpoint of an interrupted run, after epoch %d", name, found["epoch"] + 1)
    return last


def say_others(folder: Path, name: str, settings: dict[str, Any]) -> None:
    """Name the interrupted runs of this stage that are not resumed, with the settings in which they differ.

    A run is gone on with by the same data and params alone: whoever changed one would else wonder where hours went.

    Args:
        folder: of this run's checkpoints; those of others lie beside it.
        name: of the stage. settings: of this run.
    """
    for last in sorted(folder.parent.glob(f"{name}-*/{LAST}.ckpt")):
        if last.parent == folder or (other := remembered(last.parent, SETTINGS, dict)) is None:
            continue
        before, now = _flat(other), _flat(json.loads(json.dumps(settings)))  # as it would be read
        differ = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
        log.info(
            "%s: an interrupted run in %s is not gone on with: %s. As it was, it would be; remove the folder if it is "
            "not wanted",
            name,
            last.parent,
            f"it has other {', '.join(differ[:NAMED])}{' and more' * (len(differ) > NAMED)}"
            if differ
            else "it had other data or first weights",
        )


def _flat(settings: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Return the values under their full names (`model.heads`), except `FREE`."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        if before == "train." and key in FREE:
            continue
        found |= _flat(value, f"{before}{key}.") if isinstance(value, dict) else {before + key: value}
    return found


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Return the content of a checkpoint."""
    with zipfile.ZipFile(path) as parts:
        if changed := parts.testzip():  # torch does not look at the sums that it has written
            raise zipfile.BadZipFile(f"{changed} is not as it was written")
    found: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
    return found


def remembered(folder: Path, name: str, kind: type[Kind]) -> Kind | None:
    """Read what an interrupted run left in a file beside its checkpoints; None if it is missing or unreadable."""
    path = folder / name
    if not path.exists():
        return None
    try:
        found = read_json(path)
    except InputError:
        found = None
    if isinstance(found, kind):
        return found
    log.warning("%s: not readable; the run goes on as if it had not been there", path)
    return None


def _has_best(found: dict[str, Any]) -> bool:
    """Return whether a best epoch so far has its own checkpoint."""
    kept = found.get("callbacks", {})
    return any(Path(state.get("best_model_path", "")).stem == BEST for state in kept.values())


def _usable(path: Path) -> dict[str, Any] | None:
    """Return the content of a readable checkpoint, else None; one cut short by a crash is set aside."""
    if not path.exists():
        return None
    try:
        return read_checkpoint(path)
    except MemoryError:
        raise  # of this machine, and not of the file
    except Exception as error:  # a half-written archive fails in many ways; each means: start again
        aside = path.with_name(f"{path.name}{UNREADABLE}")
        log.warning(
            "%s: not readable (%s); training starts from the beginning. It is kept as %s until the run has ended",
            path,
            str(error) or type(error).__name__,
            aside.name,
        )
        if not process_number():
            remove(aside)
            path.rename(aside)
        return None
