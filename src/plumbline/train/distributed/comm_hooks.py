"""Gradients made smaller on their way between processes: DDP's communication hooks, with their bytes counted.

Counted is what one process sends if a sum over W processes goes around in a ring: 2 (W - 1) / W of the tensor
(Patarasuk and Yuan 2009). What a hook still owes the gradient is lost with its process: an interrupted run goes on
without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import (
    allreduce_hook,
    bf16_compress_hook,
    fp16_compress_hook,
)
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.futures import Future

from plumbline.params import Train
from plumbline.train.distributed.int8 import Int8State, int8_hook


class Hook:
    """One way of sending. `step_bytes` is what this process sent in the last step, `step_plain_bytes` in float32."""

    def __init__(self, losses: Train) -> None:
        self.step_bytes = self.step_plain_bytes = 0.0
        self._bytes = self._plain = 0.0
        world = dist.get_world_size()
        self._ring = 2 * (world - 1) / world

    def send(self, bucket: Any) -> Future[Tensor]:
        """Mean of a bucket of gradients over all processes."""
        future, sent = self.exchange(bucket)
        self._bytes += self._ring * sent
        self._plain += self._ring * bucket.buffer().numel() * bucket.buffer().element_size()
        if bucket.is_last():
            self.step_bytes, self.step_plain_bytes = self._bytes, self._plain
            self._bytes = self._plain = 0.0
        return future

    def exchange(self, bucket: Any) -> tuple[Future[Tensor], int]:
        """The mean to come, and the bytes of the tensors that are summed."""
        return allreduce_hook(_everybody(), bucket), bucket.buffer().numel() * bucket.buffer().element_size()


class Half(Hook):
    """In 16 bits."""

    kind: Callable[..., Future[Tensor]]

    def exchange(self, bucket: Any) -> tuple[Future[Tensor], int]:
        """As `Hook.exchange`."""
        return type(self).kind(_everybody(), bucket), 2 * bucket.buffer().numel()


class Float16(Half):
    """In float16."""

    kind = staticmethod(fp16_compress_hook)


class BFloat16(Half):
    """In bfloat16."""

    kind = staticmethod(bf16_compress_hook)


class PowerSGD(Hook):
    """Matrices as products of two narrow ones (Vogels, Karimireddy and Jaggi 2019); what is lost is sent later.

    Vectors are sent whole.
    """

    def __init__(self, losses: Train) -> None:
        super().__init__(losses)
        self.state = PowerSGDState(
            _everybody(), matrix_approximation_rank=losses.powersgd_rank, start_powerSGD_iter=losses.powersgd_start,
            min_compression_rate=1, orthogonalization_epsilon=1e-8, batch_tensors_with_same_shape=True,
        )  # fmt: skip

    def exchange(self, bucket: Any) -> tuple[Future[Tensor], int]:
        """As `Hook.exchange`."""
        numel, before = bucket.buffer().numel(), self.state.total_numel_after_compression
        compressing = self.state.iter >= self.state.start_powerSGD_iter
        future = powerSGD_hook(self.state, bucket)
        sent = self.state.total_numel_after_compression - before if compressing else numel
        return future, sent * bucket.buffer().element_size()


class Int8(Hook):
    """In 8 bits, see `int8`."""

    def __init__(self, losses: Train) -> None:
        super().__init__(losses)
        self.state = Int8State()

    def exchange(self, bucket: Any) -> tuple[Future[Tensor], int]:
        """As `Hook.exchange`."""
        return int8_hook(self.state, bucket)


def _everybody() -> dist.ProcessGroup:
    group: dist.ProcessGroup = dist.distributed_c10d._get_default_group()
    return group


HOOKS: dict[str, Callable[[Train], Hook]] = {
    "none": Hook,
    "fp16": Float16,
    "bf16": BFloat16,
    "powersgd": PowerSGD,
    "int8": Int8,
}
"""`train.communication` -> how gradients are sent."""
