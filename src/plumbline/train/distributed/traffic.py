"""What the gradients cost on the way between processes, and Lightning's part in making them smaller."""

from __future__ import annotations

from typing import Any

from lightning import Callback, LightningModule, Trainer
from torch.nn.parallel import DistributedDataParallel

from plumbline.core.console import log
from plumbline.params import Train
from plumbline.params.train import OWING
from plumbline.train.distributed.comm_hooks import HOOKS, Hook


def say_what_is_lost(losses: Train, resuming: bool) -> None:
    """What a user might expect of `train.communication`, and does not get."""
    if losses.communication != "none" and losses.devices * losses.nodes == 1:
        log.info("train.communication: %s changes nothing with one process", losses.communication)
    elif losses.communication in OWING and resuming:
        log.info(
            "train.communication: what %s still owed is lost; the run goes on, but not bit for bit",
            losses.communication,
        )


class Communication(Callback):
    """Registers the hook of `train.communication` and counts its bytes."""

    def __init__(self, losses: Train) -> None:
        self.losses = losses
        self.hook: Hook | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """The gradient's buckets are there; before the first of them is sent, say how."""
        model: Any = trainer.strategy.model
        if not isinstance(model, DistributedDataParallel):  # Lightning counts DeepSpeed's strategy among DDP's
            return
        self.hook = hook = HOOKS[self.losses.communication](self.losses)
        model.register_comm_hook(None, lambda _, bucket: hook.send(bucket))

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Record the bytes of the epoch's last step."""
        if self.hook is not None:
            pl_module.log("communication/bytes_a_step", float(self.hook.step_bytes), rank_zero_only=True)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Say what the compression saved."""
        if self.hook is not None:
            sent, plain = self.hook.step_bytes, self.hook.step_plain_bytes
            record: Any = pl_module.record
            record["communication"] = {"hook": self.losses.communication, "bytes_a_step": sent, "uncompressed": plain}
            log.info("gradients: %d bytes a step sent by each process, %.3f of float32", sent, sent / max(plain, 1))
