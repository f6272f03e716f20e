"""Train briefly on few buildings, without checkpoints and records; the last weights count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import BaseFinetuning
from torch import nn
from torch.optim import Optimizer

from plumbline.model.diagnosis import Diagnosis
from plumbline.params import Train
from plumbline.prepare.features.shards import SequenceSet
from plumbline.train.data.datamodule import Data
from plumbline.train.distributed.strategies import threads
from plumbline.train.fit.module import Optimisation
from plumbline.train.fit.trainer import interruptible, quiet_lightning


class Late(BaseFinetuning):
    """Modules that join the training at the start of an epoch, counted from 0."""

    def __init__(self, modules: Sequence[nn.Module], epoch: int) -> None:
        super().__init__()
        self.modules, self.epoch = list(modules), epoch

    def freeze_before_training(self, pl_module: LightningModule) -> None:
        """Keep the modules from the optimiser."""
        self.freeze(self.modules)

    def finetune_function(self, pl_module: LightningModule, epoch: int, optimizer: Optimizer) -> None:
        """Hand the modules over to the optimiser."""
        if epoch == self.epoch:
            self.unfreeze_and_add_param_group(self.modules, optimizer)


def quick_fit(
    model: Diagnosis,
    sequences: SequenceSet,
    losses: Train,
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
    module.train()
    with quiet_lightning():
        trainer = Trainer(
            accelerator="cpu",  # so few buildings are answered sooner than they are sent
            devices=1,
            max_epochs=losses.epochs,
            gradient_clip_val=losses.gradient_clip,
            callbacks=[Late(late, late_epoch)] if late else [],
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
            data = Data(sequences, sequences, losses, losses, losses.seed, losses.batch_size, section=section)
            module.chosen_from = data.complete
            trainer.fit(module, datamodule=data)
    model.eval()


@contextmanager
def _on_threads(count: int) -> Iterator[None]:
    """Set torch's number of threads, which is per process, to `count` during the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
