"""Train briefly on few buildings, without checkpoints and records; the last weights count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from lightning import Trainer
from torch import nn

from plumbline.model.diagnosis import Diagnosis
from plumbline.params import Train
from plumbline.prepare.features.shards import SequenceSet
from plumbline.train.data.datamodule import Data
from plumbline.train.distributed.strategies import threads
from plumbline.train.fit.module import Optimisation
from plumbline.train.fit.trainer import interruptible, quiet_lightning


def quick_fit(
    model: Diagnosis,
    sequences: SequenceSet,
    losses: Train,
    *,
    late: Sequence[nn.Module] = (),
    late_epoch: int = 0,
    section: str = "train",
) -> None:
    """Train the parameters of `model` that require a gradient, and leave it in evaluation mode.

    Args:
        model: what to train, on the CPU.
        sequences: labelled buildings.
        losses: how.
        late: modules whose parameters join at the beginning of epoch `late_epoch`, counted from 0.
        late_epoch: see `late`; from `losses.epochs` on they never do.
        section: see `Optimisation`.
    """
    module = Optimisation(model, losses, losses, section=section)
    module.late, module.late_epoch = (
        [weight for part in late for weight in part.parameters()],
        late_epoch,
    )
    module.train()
    with quiet_lightning():
        trainer = Trainer(
            accelerator="cpu",  # so few buildings are answered sooner than they are sent
            devices=1,
            max_epochs=losses.epochs,
            gradient_clip_val=losses.gradient_clip,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            limit_val_batches=0,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
            reload_dataloaders_every_n_epochs=1,
        )
        with interruptible(trainer), _on_threads(threads(losses)):
            data = Data(
                sequences,
                sequences,
                losses,
                losses,
                seed=losses.seed,
                batch_size=losses.batch_size,
                section=section,
            )
            module.chosen_from = data.complete
            trainer.fit(module, datamodule=data)
    model.eval()


@contextmanager
def _on_threads(count: int) -> Iterator[None]:
    """Set torch's number of threads, which is per process, to `count` during the block."""
    former = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(former)
