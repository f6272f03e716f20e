"""One run of optimisation: record, progress, best checkpoint, and resuming where a killed run stopped."""

from __future__ import annotations

import csv
import logging
import os
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from lightning import Callback, LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint, RichProgressBar
from lightning.pytorch.loggers import Logger, MLFlowLogger, TensorBoardLogger

from plumbline.console import console, log
from plumbline.files import atomic_file
from plumbline.prepare.shards import SequenceSet
from plumbline.train.batches import loader
from plumbline.train.module import Optimisation

WORK = Path(".plumbline")
"""Untracked: checkpoints and curves. Outside of the stage's outputs, which are deleted before the stage runs."""
HISTORY = ("epoch", "train_loss", "score", "quadrant_accuracy", "severity_mae", "learning_rate")


def fit(
    module: Optimisation, train: SequenceSet, tune: SequenceSet, *, name: str, key: str, seed: int,
    settings: dict[str, Any],
) -> Path:  # fmt: skip
    """Train `module` and leave it with the weights of its best epoch; return the folder of the checkpoints.

    The caller removes that folder once the results are written: until then a kill costs nothing.

    A checkpoint is kept after every epoch under `key`; a run with the same key that did not finish is resumed.

    Args:
        module: what to optimise.
        train, tune: data to fit, and to choose the epoch by.
        name: of the stage, for the record.
        key: changes whenever the inputs of the run do.
        seed: of the random numbers.
        settings: written into the record.
    """
    started = time.monotonic()
    # Which devices there are not, and advertisements, are no news in a log of epochs.
    logging.getLogger("lightning.pytorch.utilities.rank_zero").setLevel(logging.WARNING)
    logging.getLogger("mlflow").setLevel(logging.WARNING)
    torch.set_num_threads(module.losses.threads or len(os.sched_getaffinity(0)))
    seed_everything(seed, verbose=False)
    folder = WORK / "checkpoints" / f"{name}-{key[:16]}"
    best = ModelCheckpoint(
        folder, "best", monitor="tune/score", mode="max", save_last=True, save_on_train_epoch_end=True,
        enable_version_counter=False,
    )  # fmt: skip
    quiet = not console.is_terminal
    optimise = module.optimise
    trainer = Trainer(
        accelerator="auto",
        devices=1,
        max_epochs=optimise.epochs,
        gradient_clip_val=module.losses.gradient_clip,
        logger=_loggers(name, settings),
        callbacks=[
            best,
            EarlyStopping("tune/score", mode="max", patience=optimise.patience, check_on_train_epoch_end=True),
            EpochLine(optimise.epochs) if quiet else RichProgressBar(),
        ],
        enable_progress_bar=not quiet,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        log_every_n_steps=50,
    )
    module.train()  # a loaded model comes in evaluation mode
    last = _usable(folder / "last.ckpt")
    if last is not None:
        epoch = torch.load(last, weights_only=True, map_location="cpu")["epoch"]
        log.info("%s: resuming from the checkpoint of an interrupted run, after epoch %d", name, epoch + 1)
    with warnings.catch_warnings():
        # Lightning proposes worker processes; the batches are cut from arrays in memory faster than they could be sent.
        warnings.filterwarnings("ignore", message=".*does not have many workers.*")
        warnings.filterwarnings("ignore", message=".*is deprecated, use.*", module="lightning.*")
        warnings.filterwarnings("ignore", message=".*number of training batches.*")
        warnings.filterwarnings("ignore", message=".*Checkpoint directory .* exists and is not empty.*")
        trainer.fit(
            module, loader(train, optimise.batch_size, seed, module.losses), loader(tune, 512), ckpt_path=last,
            weights_only=True,
        )  # fmt: skip
    chosen = torch.load(best.best_model_path, weights_only=True, map_location="cpu")
    module.load_state_dict(chosen["state_dict"])
    module.to("cpu").eval()
    log.info("%s: best score %.3f at epoch %d of %d, %.0f s", name, best.best_model_score, chosen["epoch"] + 1,
             trainer.current_epoch, time.monotonic() - started)  # fmt: skip
    return folder


class EpochLine(Callback):
    """Without a terminal: one line an epoch."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Say how far the run is and how good its answers are."""
        row = pl_module.history[-1] if isinstance(pl_module, Optimisation) and pl_module.history else {}
        log.info(
            "epoch %d of at most %d: loss %.3f, score %.3f, quadrant accuracy %.3f, severity error %.3f permille",
            trainer.current_epoch + 1, self.epochs, *(row.get(key, float("nan")) for key in HISTORY[1:5]),
        )  # fmt: skip


def write_history(history: list[dict[str, float]], path: Path) -> None:
    """The run's curve as CSV, one row an epoch."""
    with atomic_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, HISTORY, lineterminator="\n")
        writer.writeheader()
        for row in history:
            values = {key: round(row.get(key, float("nan")), 6) for key in HISTORY}
            writer.writerow({**values, "epoch": int(row["epoch"]) + 1})


def _usable(path: Path) -> Path | None:
    """The checkpoint, if there is one and it can be read; one cut short by a crash is set aside."""
    if not path.exists():
        return None
    try:
        torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:  # a half-written archive fails in many ways; each means: start again
        log.warning("%s: not readable (%s); training starts from the beginning", path, error)
        path.unlink()
        return None
    return path


def _loggers(name: str, settings: dict[str, Any]) -> list[Logger]:
    """TensorBoard and MLflow. The record never stops the work: an unreachable MLflow is a warning."""
    loggers: list[Logger] = [TensorBoardLogger(WORK / "tensorboard", name=name)]
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    address = os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///mlflow.db"
    try:
        record = MLFlowLogger("plumbline", run_name=name, tracking_uri=address, artifact_location=None)
        record.log_hyperparams(settings)
        loggers.append(record)
    except Exception as error:  # whatever the record's server answers, training goes on
        log.warning("MLflow at %s does not answer (%s); this run is not recorded there", address, error)
    return loggers
