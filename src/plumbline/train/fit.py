"""One run of optimisation: best checkpoint, and going on where a killed run stopped."""

from __future__ import annotations

import logging
import shutil
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from lightning import Callback, Trainer, seed_everything
from lightning.pytorch.callbacks import ModelCheckpoint, RichProgressBar
from lightning.pytorch.profilers import Profiler, PyTorchProfiler, SimpleProfiler

from plumbline.console import console, log
from plumbline.errors import InputError
from plumbline.files import read_json, write_json
from plumbline.jobs import WORK
from plumbline.params import Train
from plumbline.prepare.shards import SequenceSet
from plumbline.train.alarms import MemoryAlarm
from plumbline.train.average import Ema
from plumbline.train.capacity import batch_size
from plumbline.train.chosen import Best, Patience
from plumbline.train.data import Data
from plumbline.train.distributed import check_devices, choose_strategy, has_batch_norm, process_number, threads
from plumbline.train.history import rounded
from plumbline.train.loggers import log_record, loggers
from plumbline.train.module import Optimisation
from plumbline.train.monitor import EpochLine, monitors
from plumbline.train.record import begin_record
from plumbline.train.start import CHECKPOINT, RANDOM
from plumbline.train.traffic import Communication

PRECISION: dict[Any, Any] = {32: "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}
"""`train.precision` -> Lightning's name."""


def fit(
    module: Optimisation, train: SequenceSet, tune: SequenceSet, *, name: str, key: str, seed: int,
    settings: dict[str, Any], start_from: Sequence[str] = (CHECKPOINT, RANDOM),
) -> Path:  # fmt: skip
    """Train `module` and leave it with the weights of its best epoch; return the folder of the checkpoints.

    The caller removes that folder once the results are written: until then a kill costs nothing. Of several processes
    only the first returns; the others end here.

    A checkpoint is kept after every epoch under `key`; a run with the same key that did not finish is resumed.

    Args:
        module: what to optimise.
        train, tune: data to fit, and to choose the epoch by.
        name: of the stage, for the record.
        key: changes whenever the inputs of the run do.
        seed: of the random numbers.
        settings: written into the record.
        start_from: `train.start_from`; only whether to resume is decided here.

    Raises:
        InputError: the machine lacks what the params ask for, there is nothing to resume, or an alarm stopped the run.
    """
    started = time.monotonic()
    optimise, losses = module.optimise, module.losses
    check_devices(losses)
    # Which devices there are not, and advertisements, are no news in a log of epochs.
    logging.getLogger("lightning.pytorch.utilities.rank_zero").setLevel(logging.WARNING)
    torch.set_num_threads(threads(losses))
    seed_everything(seed, verbose=False)
    run = f"{name}-{key[:16]}"
    folder = WORK / "checkpoints" / run
    last = _resumed(folder, name, start_from)
    size = _remembered(folder) or batch_size(module.model, train, optimise, losses)
    kept: dict[str, Any] = {"mode": "max", "save_on_train_epoch_end": True, "enable_version_counter": False}
    best = Best(module.chosen_from, folder, "best", monitor="tune/score", **kept)
    newest = ModelCheckpoint(folder, "last", **kept)  # `save_last` of `best` would write only when there is a new best
    module.record = begin_record(module.model, key, settings, size)
    records = loggers(name, settings, WORK)
    quiet = not console.is_terminal
    callbacks: list[Callback] = [
        *([Ema(optimise.ema_decay)] if optimise.ema_decay else []),
        MemoryAlarm(losses),
        Communication(losses),
        *monitors(losses, WORK / "runs" / run / "train.jsonl"),
        best,
        newest,  # behind `best`, whose state is in it
        Patience(
            module.chosen_from, "tune/score", mode="max", patience=optimise.patience, check_on_train_epoch_end=True
        ),
        EpochLine(optimise.epochs) if quiet else RichProgressBar(),
    ]
    trainer = Trainer(
        accelerator=losses.accelerator,
        devices=losses.devices,
        num_nodes=losses.nodes,
        strategy=choose_strategy(losses),
        precision=PRECISION[losses.precision],
        sync_batchnorm=has_batch_norm(module),
        use_distributed_sampler=False,
        reload_dataloaders_every_n_epochs=1,  # how many steps an epoch has may change
        max_epochs=optimise.epochs,
        accumulate_grad_batches=optimise.accumulate,
        gradient_clip_val=losses.gradient_clip,
        logger=records,
        callbacks=callbacks,
        profiler=_profiler(losses, run),
        enable_progress_bar=not quiet,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        log_every_n_steps=50,
    )
    if process_number():
        log.setLevel(logging.ERROR)  # the first process speaks for all
    else:
        write_json(folder / "batch_size.json", size)
    module.train()  # a loaded model comes in evaluation mode
    with warnings.catch_warnings():
        # Lightning proposes worker processes; the batches are cut from arrays in memory faster than they could be sent.
        warnings.filterwarnings("ignore", message=".*does not have many workers.*")
        warnings.filterwarnings("ignore", message=".*is deprecated, use.*", module="lightning.*")
        warnings.filterwarnings("ignore", message=".*number of training batches.*")
        warnings.filterwarnings("ignore", message=".*It is recommended to use `self.log.*")
        warnings.filterwarnings("ignore", message=".*Checkpoint directory .* exists and is not empty.*")
        trainer.fit(
            module, datamodule=Data(train, tune, optimise, losses, seed, size), ckpt_path=last, weights_only=True
        )
    if not trainer.is_global_zero:
        sys.exit(0)  # one process writes the results
    chosen = torch.load(best.best_model_path, weights_only=True, map_location="cpu")
    module.load_state_dict(chosen["state_dict"])
    module.to("cpu").eval()
    module.record |= {"best_epoch": chosen["epoch"] + 1, "curve": rounded(module.history)}
    log_record(records, module.record)
    log.info("%s: best score %.3f at epoch %d of %d, %.0f s", name, best.best_model_score, chosen["epoch"] + 1,
             trainer.current_epoch, time.monotonic() - started)  # fmt: skip
    return folder


def _resumed(folder: Path, name: str, start_from: Sequence[str]) -> Path | None:
    """The checkpoint to go on from, if there is one and it is wanted."""
    if CHECKPOINT not in start_from:
        if not process_number():
            shutil.rmtree(folder, ignore_errors=True)
        return None
    last = _usable(folder / "last.ckpt")
    if last is not None:
        epoch = torch.load(last, weights_only=True, map_location="cpu")["epoch"]
        log.info("%s: resuming from the checkpoint of an interrupted run, after epoch %d", name, epoch + 1)
    elif list(start_from) == [CHECKPOINT]:
        raise InputError("train.start_from: checkpoint found, and no run with these data and params was interrupted.")
    return last


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


def _remembered(folder: Path) -> int | None:
    """The batch size that an interrupted run found: it must not depend on the memory that happens to be free."""
    path = folder / "batch_size.json"
    return int(read_json(path)) if path.exists() else None


def _profiler(losses: Train, run: str) -> Profiler | None:
    """Of `train.profile`; writes into `.plumbline/profile`. `pytorch` records three steps each of both splits."""
    folder = WORK / "profile"
    if losses.profile == "pytorch":
        # Events are kept, so that the table has both: each recording would take the place of the one before.
        return PyTorchProfiler(folder, run, row_limit=100, acc_events=True)
    return SimpleProfiler(folder, run) if losses.profile == "simple" else None
