"""Choose the best checkpoint, keep the newest, and resume."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from numpy.typing import NDArray

from plumbline.core.compass import of_likeliest
from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import read_json
from plumbline.core.jobs import remove
from plumbline.train.distributed.strategies import process_number
from plumbline.train.fit.initial_weights import CHECKPOINT

LEAST_BLIND_PERMILLE = 0.05
"""Error of the best constant answer that counts at least: where severities are equal, or there is one building, any
error is many times theirs, and the score would say nothing else. Splits of simulated cities have some twenty times
as much."""


class Checkpoint(ModelCheckpoint):
    """Lightning's checkpoint, in a folder that may have moved before the run is resumed."""

    @property
    def state_key(self) -> str:
        """Return Lightning's own name, so that checkpoints of former versions can be resumed."""
        return super().state_key.replace(type(self).__name__, ModelCheckpoint.__name__, 1)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state, with each file by its name in the present folder."""

        def here(path: str) -> str:
            return str(Path(str(self.dirpath)) / Path(path).name) if path else path

        paths = ("best_model_path", "kth_best_model_path", "last_model_path")
        best = {here(path): score for path, score in state_dict["best_k_models"].items()}
        moved = {name: here(state_dict[name]) for name in paths}
        super().load_state_dict({**state_dict, **moved, "best_k_models": best, "dirpath": self.dirpath})


class Best(Checkpoint):
    """Keeps the best epoch from `first` on, counted from 0."""

    def __init__(self, first: int, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.first = first

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Check the epoch's score."""
        if trainer.current_epoch >= self.first:
            super().on_train_epoch_end(trainer, pl_module)


class Patience(EarlyStopping):
    """Stops when the score no longer rises; every epoch before `first`, counted from 0, is run."""

    def __init__(self, first: int, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.first = first

    @property
    def state_key(self) -> str:
        """Return Lightning's own name, as `Checkpoint.state_key`."""
        return super().state_key.replace(type(self).__name__, EarlyStopping.__name__, 1)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Stop a resumed run at once if it had stopped before it was killed."""
        if self.wait_count >= self.patience:
            trainer.should_stop = True

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Check the epoch's score."""
        if trainer.current_epoch >= self.first:
            super().on_train_epoch_end(trainer, pl_module)


class SplitScore(NamedTuple):
    """Accuracy of the answers of a split."""

    quadrant_accuracy: float
    """Share of right quadrants among the buildings from category 1 up; 0 where there is none."""
    severity_mae: float
    """Mean absolute error, permille, over all buildings."""
    score: float
    """Accuracy minus the error relative to that of the best constant answer. Perfect: 1; answering blindly: -0.75."""


def checkpoint_score(
    probability: NDArray[np.floating],
    severity: NDArray[np.floating],
    accepted_true: NDArray[np.bool_],
    severity_true: NDArray[np.floating],
) -> SplitScore:
    """Compare answers with labels.

    Args:
        probability: (B, 4). severity: (B,) permille. accepted_true: (B, 4) right answers. severity_true: (B,) permille.
    """
    defined = accepted_true.any(1)
    hits = of_likeliest(probability, accepted_true)[defined]
    accuracy = float(hits.mean()) if defined.any() else 0.0
    error = float(np.abs(severity - severity_true).mean())
    blind = float(np.abs(severity_true - np.median(severity_true)).mean())
    return SplitScore(accuracy, error, accuracy - error / max(blind, LEAST_BLIND_PERMILLE))


Kind = TypeVar("Kind")
BEST, LAST = "best", "last"
"""Names of the checkpoints, without their suffix."""
BATCH_SIZE, RECORDED, SETTINGS = "batch_size.json", "records.json", "settings.json"
"""Files beside the checkpoints: the size that was found, where the curves are, and the params."""
FREE = ("profile", "strategy", "devices", "nodes")
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
