"""Compress gradients on their way between processes: DDP's communication hooks, with their bytes counted.

Counted is what one process sends if a sum over W processes goes around in a ring: 2 (W - 1) / W of the tensor
(Patarasuk and Yuan 2009). What a hook still owes the gradient is lost with its process: an interrupted run goes on
without it.

In 8 bits each process sums a part of the gradients, and sends the sum in 8 bits again. Two roundings, each of which
remembers what it lost and adds it the next time (Tang et al. 2019, DoubleSqueeze). A plain all-reduce of 8-bit
numbers would overflow, and gathering everybody's gradient costs W - 1 times a quarter.

Shape legend: W processes, C values that one process sums, K blocks of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from lightning import Callback, LightningModule, Trainer
from torch import Tensor
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import (
    allreduce_hook,
    bf16_compress_hook,
    fp16_compress_hook,
)
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from plumbline.core.console import log
from plumbline.params import FitOptions
from plumbline.params.train import OWING

BLOCK = 2048
"""Values that share a scale: gradients of different layers differ by orders of magnitude."""


class Int8State:
    """Rounding errors that are still to be sent, by bucket."""

    def __init__(self) -> None:
        self.own: dict[int, Tensor] = {}
        self.summed: dict[int, Tensor] = {}
        self.step = 0


def int8_hook(state: Int8State, bucket: Any) -> tuple[Future[Tensor], int]:
    """Return the mean of the bucket over all processes, and the bytes it was sent in."""
    buffer, key, world = bucket.buffer(), bucket.index(), dist.get_world_size()
    size = -(-buffer.numel() // world)
    value_WC = torch.nn.functional.pad(buffer, (0, size * world - buffer.numel())).view(world, size).float()
    if key in state.own and state.own[key].shape == value_WC.shape:
        value_WC = value_WC + state.own[key]

    code_WC, scale_WK = quantise(value_WC)
    state.own[key] = value_WC - dequantise(code_WC, scale_WK)
    all_code_WC, all_scale_WK = torch.empty_like(code_WC), torch.empty_like(scale_WK)
    dist.all_to_all_single(all_code_WC, code_WC)
    dist.all_to_all_single(all_scale_WK, scale_WK)
    mean_1C = dequantise(all_code_WC, all_scale_WK).mean(0, keepdim=True)
    if key in state.summed and state.summed[key].shape == mean_1C.shape:
        mean_1C = mean_1C + state.summed[key]

    code_1C, scale_1K = quantise(mean_1C)
    state.summed[key] = mean_1C - dequantise(code_1C, scale_1K)
    dist.all_gather_single(all_code_WC, code_1C)
    dist.all_gather_single(all_scale_WK, scale_1K)
    buffer.copy_(dequantise(all_code_WC, all_scale_WK).flatten()[: buffer.numel()])

    if bucket.is_last():
        if state.step == 0:  # DDP orders its buckets anew after the first step
            state.own.clear()
            state.summed.clear()
        state.step += 1
    future: Future[Tensor] = Future(devices=[buffer.device] if buffer.is_cuda else None)
    future.set_result(buffer)
    return future, code_WC.numel() + 4 * scale_WK.numel()


def quantise(value_WC: Tensor) -> tuple[Tensor, Tensor]:
    """Return whole numbers from -127 to 127 (W, C), and the value of one step in each block (W, K)."""
    blocks = -(-value_WC.shape[1] // BLOCK)
    padded = torch.nn.functional.pad(value_WC, (0, blocks * BLOCK - value_WC.shape[1]))
    value_WKb = padded.view(len(value_WC), blocks, BLOCK)
    scale_WK = value_WKb.abs().amax(-1) / 127
    code_WKb = (value_WKb / scale_WK.clamp(min=torch.finfo(torch.float32).tiny)[..., None]).round()
    # A gradient that is no number stays none: its block's scale is.
    code_WKb = code_WKb.nan_to_num(0, 0, 0).to(torch.int8)
    return code_WKb.view(len(value_WC), -1)[:, : value_WC.shape[1]].contiguous(), scale_WK


def dequantise(code_WC: Tensor, scale_WK: Tensor) -> Tensor:
    """Return (W, C) float32 values."""
    return code_WC.float() * scale_WK.repeat_interleave(BLOCK, dim=1)[:, : code_WC.shape[1]]


class Hook:
    """One way of sending. `step_bytes` is what this process sent in the last step, `step_plain_bytes` in float32."""

    def __init__(self, losses: FitOptions) -> None:
        self.step_bytes = self.step_plain_bytes = 0.0
        self._bytes = self._plain = 0.0
        world = dist.get_world_size()
        self._ring = 2 * (world - 1) / world

    def send(self, bucket: Any) -> Future[Tensor]:
        """Return the future mean of a bucket of gradients over all processes."""
        future, sent = self.exchange(bucket)
        self._bytes += self._ring * sent
        self._plain += self._ring * bucket.buffer().numel() * bucket.buffer().element_size()
        if bucket.is_last():
            self.step_bytes, self.step_plain_bytes = self._bytes, self._plain
            self._bytes = self._plain = 0.0
        return future

    def exchange(self, bucket: Any) -> tuple[Future[Tensor], int]:
        """Return the future mean, and the bytes of the tensors that are summed."""
        return allreduce_hook(_everybody(), bucket), bucket.buffer().numel() * bucket.buffer().element_size()


class Half(Hook):
    """Sends gradients in 16 bits."""

    kind: Callable[..., Future[Tensor]]

    def exchange(self, bucket: Any) -> tuple[Future[Tensor], int]:
        """As `Hook.exchange`."""
        return type(self).kind(_everybody(), bucket), 2 * bucket.buffer().numel()


class Float16(Half):
    """Sends gradients in float16."""

    kind = staticmethod(fp16_compress_hook)


class BFloat16(Half):
    """Sends gradients in bfloat16."""

    kind = staticmethod(bf16_compress_hook)


class PowerSGD(Hook):
    """Matrices as products of two narrow ones (Vogels, Karimireddy and Jaggi 2019); the rest is sent later.

    Vectors are sent whole.
    """

    def __init__(self, losses: FitOptions) -> None:
        super().__init__(losses)
        self.state = PowerSGDState(
            _everybody(),
            matrix_approximation_rank=losses.powersgd_rank,
            start_powerSGD_iter=losses.powersgd_start,
            min_compression_rate=1,
            orthogonalization_epsilon=1e-8,
            batch_tensors_with_same_shape=True,
        )

    def exchange(self, bucket: Any) -> tuple[Future[Tensor], int]:
        """As `Hook.exchange`."""
        numel, before = bucket.buffer().numel(), self.state.total_numel_after_compression
        compressing = self.state.iter >= self.state.start_powerSGD_iter
        future = powerSGD_hook(self.state, bucket)
        sent = self.state.total_numel_after_compression - before if compressing else numel
        return future, sent * bucket.buffer().element_size()


class Int8(Hook):
    """Sends gradients in 8 bits, see `int8_hook`."""

    def __init__(self, losses: FitOptions) -> None:
        super().__init__(losses)
        self.state = Int8State()

    def exchange(self, bucket: Any) -> tuple[Future[Tensor], int]:
        """As `Hook.exchange`."""
        return int8_hook(self.state, bucket)


def _everybody() -> dist.ProcessGroup:
    group: dist.ProcessGroup = dist.distributed_c10d._get_default_group()
    return group


HOOKS: dict[str, Callable[[FitOptions], Hook]] = {
    "none": Hook,
    "fp16": Float16,
    "bf16": BFloat16,
    "powersgd": PowerSGD,
    "int8": Int8,
}
"""`train.communication` -> how gradients are sent."""


def say_what_is_lost(losses: FitOptions, resuming: bool) -> None:
    """Log the limits of `train.communication` that a user might not expect."""
    if losses.communication != "none" and losses.devices * losses.nodes == 1:
        log.info("train.communication: %s changes nothing with one process", losses.communication)
    elif losses.communication in OWING and resuming:
        log.info(
            "train.communication: what %s still owed is lost; the run goes on, but not bit for bit",
            losses.communication,
        )


class Communication(Callback):
    """Registers the hook of `train.communication` and counts its bytes."""

    def __init__(self, losses: FitOptions) -> None:
        self.losses = losses
        self.hook: Hook | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Register the hook once the gradient's buckets exist, before the first is sent."""
        model: Any = trainer.strategy.model
        if not isinstance(model, DistributedDataParallel):
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
