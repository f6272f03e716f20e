"""Run one optimisation: keep the best checkpoint, and resume where a killed run stopped."""

from __future__ import annotations

import copy
import logging
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

import torch
from lightning import Callback, LightningDataModule, Trainer, seed_everything
from lightning.pytorch.callbacks import RichProgressBar
from lightning.pytorch.profilers import Profiler, PyTorchProfiler, SimpleProfiler

from plumbline.core.console import console, log
from plumbline.core.files import write_json
from plumbline.core.jobs import WORK
from plumbline.params.train import SHARDED, FitOptions
from plumbline.prepare.features.shards import SequenceSet
from plumbline.train.data.datamodule import Data
from plumbline.train.distributed.strategies import (
    check_devices,
    choose_strategy,
    leave_together,
    repeatable,
    threads,
    together,
)
from plumbline.train.fit.batch_size import batch_size
from plumbline.train.fit.checkpoints import (
    BEST,
    LAST,
    Best,
    Checkpoint,
    Patience,
    read_checkpoint,
    resumed,
)
from plumbline.train.fit.ema import Ema
from plumbline.train.fit.fitting import Fitting
from plumbline.train.fit.initial_weights import CHECKPOINT, RANDOM
from plumbline.train.fit.module import Optimisation
from plumbline.train.monitor.loggers import log_record, loggers, recorded
from plumbline.train.monitor.progress import EpochLine, Monitor
from plumbline.train.monitor.record import begin_record, round_history, surroundings


@contextmanager
def interruptible(trainer: Trainer) -> Iterator[None]:
    """Raise KeyboardInterrupt on interruption: Lightning would exit with code 1, which means a
    bug."""
    try:
        yield
    except SystemExit:
        if trainer.interrupted:
            raise KeyboardInterrupt from None
        raise


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Leave out Lightning's messages and warnings that no user can do anything about."""
    # Which devices there are not, and advertisements, are no news in a log of epochs.
    logging.getLogger("lightning.pytorch.utilities.rank_zero").setLevel(logging.WARNING)
    with warnings.catch_warnings():
        for message in (
            "GPU available but not used.*",  # as train.accelerator asked
            # Worker processes: the batches are cut from arrays in memory faster than they
            # could be sent.
            ".*does not have many workers.*",
            ".*number of training batches.*",
            ".*It is recommended to use `self.log.*",
            # Of depthwise kernels: how fast DDP may copy them, and nothing that a user
            # could change.
            "Grad strides do not match bucket view strides.*",
            ".*Checkpoint directory .* exists and is not empty.*",
        ):
            warnings.filterwarnings("ignore", message=message)
        warnings.filterwarnings("ignore", message=".*is deprecated, use.*", module="lightning.*")
        yield


PRECISION: dict[Any, Any] = {32: "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}
"""`train.precision` -> Lightning's name."""


class RunData(Protocol):
    """Source of a run's data for Lightning."""

    batch_size: int
    complete: int
    """The first epoch, counted from 0, in which everything is drawn."""
    steps_vary: bool
    """True where epochs may differ in their number of steps."""


AnyFitting = TypeVar("AnyFitting", bound=Fitting)


class Fitted(NamedTuple, Generic[AnyFitting]):
    """A finished run."""

    module: AnyFitting
    """Module with the weights of the best epoch, whole, in memory of the CPU."""
    checkpoints: Path
    """Their folder. The caller removes it once the results are written: until then a kill
    costs nothing."""


class RunInputs(NamedTuple):
    """Name and inputs of a run of training, for its checkpoints and its record."""

    name: str
    """Stage, or adapter of a stage."""
    key: str
    """Hash that changes whenever an input of the run does."""
    data_sha256: str
    """Hash of the data."""
    seed: int
    """Seed of the random numbers."""
    settings: dict[str, Any]
    """Sections of the params, written into the record."""


def fit(
    module: Optimisation,
    train: SequenceSet,
    tune: SequenceSet,
    inputs: RunInputs,
    start_from: Sequence[str] = (CHECKPOINT, RANDOM),
) -> Fitted[Optimisation]:
    """Train the diagnosis network; `train`, `tune`: data to fit, and to choose the epoch
    by. The rest: see `run`."""
    optimise, losses, section = module.optimise, module.losses, module.section
    check_devices(losses)

    def make_data(former_size: int | None) -> Data:
        # A resumed run keeps its batch size, whatever memory is free now.
        size = former_size or batch_size(module.model, train, optimise, losses, section)
        return Data(
            train,
            tune,
            optimise,
            losses,
            seed=inputs.seed,
            batch_size=size,
            resumed=former_size is not None,
            section=section,
        )

    return run(module, make_data, inputs, start_from)


def run(
    module: AnyFitting,
    make_data: Callable[[int | None], RunData],
    inputs: RunInputs,
    start_from: Sequence[str] = (CHECKPOINT, RANDOM),
) -> Fitted[AnyFitting]:
    """Train `module`. Among several processes only the first returns; the others end here.

    A checkpoint is kept after every epoch under the key of `inputs`; a run with the same
    key that did not finish is resumed.

    Args:
        module: what to optimise.
        make_data: called with the batch size of the run that is gone on with; None: of a new one.
        inputs: name, hashes, seed and settings of the run.
        start_from: `train.start_from`; only whether to resume is decided here.

    Raises:
        InputError: the machine lacks what the params ask for, there is nothing to resume,
            or an alarm stopped the run.
    """
    started = time.monotonic()
    name, key, data_sha256, seed, settings = inputs
    optimise, losses = module.optimise, module.losses
    torch.set_num_threads(threads(losses))
    seed_everything(seed, verbose=False)
    repeatable()
    label = f"{name}-{key[:16]}"
    folder = WORK / "checkpoints" / label
    checkpoint = resumed(folder, name, start_from)
    if checkpoint is not None and losses.communication == "powersgd":
        log.info(
            "train.communication: what powersgd still owed is lost; the run goes on, but not bit "
            "for bit"
        )
    data = make_data(checkpoint["batch_size"] if checkpoint else None)
    module.chosen_from = data.complete
    options: dict[str, Any] = {
        "mode": "max",
        "save_on_train_epoch_end": True,
        "enable_version_counter": False,
    }
    best = Best(module.chosen_from, folder, BEST, monitor="tune/score", **options)
    module.last = folder / f"{LAST}{Checkpoint.FILE_EXTENSION}"
    # `save_last` of `best` would write only when there is a new best.
    newest = Checkpoint(folder, LAST, **options)
    module.record = begin_record(module.parameter_counts(), key, data_sha256, settings)
    place = surroundings()
    records = loggers(name, module.record | place, WORK, checkpoint["curves"] if checkpoint else {})
    module.curves = recorded(records)
    # A strategy that shards the weights leaves a share of them in `module`.
    whole = copy.deepcopy(module) if losses.strategy in SHARDED else module
    quiet = not console.is_terminal
    callbacks: list[Callback] = [
        *([Ema(optimise.ema_decay)] if optimise.ema_decay else []),
        Monitor(WORK / "runs" / label / "train.jsonl", module.section),
        best,
        newest,  # behind `best`, whose state is in it
        Patience(
            module.chosen_from,
            "tune/score",
            mode="max",
            patience=optimise.patience,
            check_on_train_epoch_end=True,
        ),
        EpochLine(optimise.epochs) if quiet else RichProgressBar(),
    ]
    module.train()  # a loaded model comes in evaluation mode
    with quiet_lightning():
        trainer = Trainer(
            accelerator=losses.accelerator,
            devices=losses.devices,
            num_nodes=losses.nodes,
            strategy=choose_strategy(losses),
            precision=PRECISION[losses.precision],
            sync_batchnorm=True,  # of a plug-in; without one nothing changes
            use_distributed_sampler=False,
            # Each reload makes a first batch for nothing.
            reload_dataloaders_every_n_epochs=int(data.steps_vary),
            max_epochs=optimise.epochs,
            accumulate_grad_batches=optimise.accumulate,
            gradient_clip_val=losses.gradient_clip,
            logger=records,
            callbacks=callbacks,
            profiler=_profiler(losses, label),
            enable_progress_bar=not quiet,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            # Weights that a sharded strategy gathers in this mode could not be trained with again.
            inference_mode=losses.strategy not in SHARDED,
            log_every_n_steps=50,
        )
        with interruptible(trainer), together():
            trainer.fit(
                module,
                datamodule=cast(LightningDataModule, data),
                ckpt_path=module.last if checkpoint else None,
                weights_only=True,
            )
    with together():
        leave_together()
    if not trainer.is_global_zero:
        sys.exit(0)  # one process writes the results
    best_checkpoint = read_checkpoint(folder / f"{BEST}{Checkpoint.FILE_EXTENSION}")
    whole.load_state_dict(best_checkpoint["state_dict"])
    whole.to("cpu").eval()
    whole.history, row = module.history, module.history[best_checkpoint["epoch"]]
    whole.record = {
        **module.record,
        "batch_size": data.batch_size,
        "best_epoch": best_checkpoint["epoch"] + 1,
        "curve": round_history(module.history, module.metrics),
        "metrics": {name: round(row[name], 5) for name in module.metrics},
    }
    write_json(WORK / "runs" / label / "record.json", whole.record | place)
    log_record(records, whole.record | place)
    log.info(
        "%s: best score %.3f at epoch %d of %d, %.0f s",
        name,
        best.best_model_score,
        best_checkpoint["epoch"] + 1,
        trainer.current_epoch,
        time.monotonic() - started,
    )
    return Fitted(whole, folder)


def _profiler(losses: FitOptions, run: str) -> Profiler | None:
    """Return the profiler of `train.profile`, writing into `.plumbline/profile`. `pytorch`:
    three steps per split."""
    folder = WORK / "profile"
    if losses.profile == "pytorch":
        # Else torch's profiler logs its own calls in between.
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        # Events are kept, so that the table has both: each recording would take the place of
        # the one before.
        return PyTorchProfiler(folder, run, row_limit=100, acc_events=True)
    return SimpleProfiler(folder, run) if losses.profile == "simple" else None
