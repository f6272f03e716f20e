"""Train by DDP, FSDP2 or ZeRO-2.

Checkpoints hold whole tensors, in the form that one process writes: any strategy goes on
from those of any other.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from lightning import LightningModule
from lightning.pytorch.strategies import DDPStrategy, Strategy
from lightning.pytorch.utilities import rank_zero_only
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import (
    bf16_compress_hook,
    fp16_compress_hook,
)
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.utils._pytree import tree_map

from plumbline.core.console import log
from plumbline.core.errors import InputError, PlumblineError
from plumbline.core.jobs import alone
from plumbline.params import FitOptions
from plumbline.params.train import SHARDED


class Sharded(DDPStrategy):
    """Lightning's way to start and join processes, with a sharded network where DDP would
    wrap a whole one.

    Lightning's own strategy for FSDP2 shards before callbacks copy the network for the mean
    of the weights, and a sharded network cannot be copied.
    """

    def __init__(self, free_after_forward: bool) -> None:
        """`free_after_forward`: gather weights again for the backward pass (ZeRO-3); else
        keep them until then."""
        super().__init__()
        self.free_after_forward = free_after_forward

    def _setup_model(self, model: nn.Module) -> Any:
        self.shard(model)
        return model

    def _register_ddp_hooks(self) -> None:
        """Leave out what asks for DDP's wrapper."""

    def shard(self, module: nn.Module) -> None:
        """Shard the network of `module`, in place: each part by itself, so that one at a
        time is whole in memory."""
        network = module.get_submodule(getattr(module, "network"))  # noqa: B009
        mesh = init_device_mesh(self.root_device.type, (self.world_size,))
        for part in [*_parts(network), network]:
            fully_shard(part, mesh=mesh, reshard_after_forward=self.free_after_forward)
        module.register_state_dict_post_hook(_all_whole)  # type: ignore[no-untyped-call]

    def gather_weights(self, module: LightningModule) -> None:
        """Gather all weights for an evaluation, in which processes may have different
        numbers of batches."""
        for part in sharded_parts(module):
            part.set_reshard_after_forward(False, recurse=False)
            part.unshard()

    def free_weights(self, module: LightningModule) -> None:
        """Keep this process's share of the weights alone, after `gather_weights`."""
        for part in sharded_parts(module):
            part.set_reshard_after_forward(self.free_after_forward, recurse=False)
            part.reshard()

    def optimizer_state(self, optimizer: Optimizer) -> dict[str, Any]:
        """Gather the optimiser's state, by all processes at once."""
        state: dict[str, Any] = tree_map(gather_whole, super().optimizer_state(optimizer))
        return state

    def load_optimizer_state_dict(self, checkpoint: Any) -> None:
        """Load this process's share of a whole state."""
        shared = []
        for optimizer, whole_state in zip(
            self.optimizers, checkpoint["optimizer_states"], strict=True
        ):
            weights = [weight for group in optimizer.param_groups for weight in group["params"]]
            state = {
                number: {name: _share(value, weights[number]) for name, value in values.items()}
                for number, values in whole_state["state"].items()
            }
            shared.append({**whole_state, "state": state})
        super().load_optimizer_state_dict({"optimizer_states": shared})


def sharded_parts(module: nn.Module) -> list[FSDPModule]:
    """Parts of a network that gather their own weights."""
    return [part for part in module.modules() if isinstance(part, FSDPModule)]


def gather_whole(value: Any) -> Any:
    """Gather a tensor of which this process has a share; anything else stays as it is."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def local_share(value: Tensor) -> Tensor:
    """Return this process's share of a tensor, not as a copy."""
    return value.to_local() if isinstance(value, DTensor) else value


def _share(value: Any, like: Tensor) -> Any:
    """Share out a whole tensor as the weight is that it belongs to."""
    if not isinstance(like, DTensor) or not isinstance(value, Tensor) or value.shape != like.shape:
        return value
    moved = value.to(like.device)
    return distribute_tensor(moved, like.device_mesh, like.placements, src_data_rank=None)


def _parts(network: nn.Module) -> Iterator[nn.Module]:
    for part in network.children():
        if isinstance(part, nn.ModuleList):
            yield from part
        elif any(True for _ in part.parameters()):
            yield part


def _all_whole(module: nn.Module, state: dict[str, Any], prefix: str, metadata: Any) -> None:
    with torch.no_grad():
        state.update({name: gather_whole(value) for name, value in state.items()})


AnyValue = TypeVar("AnyValue")
ENDING_SECONDS = 10.0
"""Seconds until a run is refused as the second one: a killed run is started again at once, and the
processes that made its batches end some seconds after it."""
GLOO = "gloo/transport"
"""Text in every message of a lost connection."""


class Ddp(DDPStrategy):
    """Lightning's, without what costs time and gives nothing here.

    Buffers are the same in all processes, and none changes in a step, but for a
    SyncBatchNorm's, which all compute alike: they are not sent before each forward pass.
    Nor is the network wrapped in a stream of its own, from which torch warns of gradients
    (Lightning issue 21567). Lightning registers hooks of communication on GPUs alone.
    """

    def __init__(self, losses: FitOptions) -> None:
        super().__init__(forward_sync_buffers=False)
        self.losses = losses

    def _setup_model(self, model: nn.Module) -> DistributedDataParallel:
        wrapped = DistributedDataParallel(
            model, device_ids=self.determine_ddp_device_ids(), **self._ddp_kwargs
        )
        if self.losses.communication != "none":
            wrapped.register_comm_hook(*comm_hook(self.losses.communication))
        return wrapped


POWERSGD_RANK = 2
"""Width of the two matrices that PowerSGD sends for one."""
POWERSGD_START = 10
"""Number of steps with whole gradients before PowerSGD begins."""


def comm_hook(kind: str) -> tuple[Any, Callable[..., Any]]:
    """Return the state and the hook by which torch compresses gradients, by `train.communication`.

    PowerSGD sends matrices as products of two narrow ones (Vogels, Karimireddy and Jaggi
    2019) and the rest later; what it still owes is lost with its process. Vectors are sent
    whole.
    """
    if kind != "powersgd":
        hook = {"fp16": fp16_compress_hook, "bf16": bf16_compress_hook}[kind]
        # By its name torch refuses bf16 on the CPU, where gloo sends it.
        return None, lambda state, bucket: hook(state, bucket)
    state = PowerSGDState(
        process_group=None,
        matrix_approximation_rank=POWERSGD_RANK,
        start_powerSGD_iter=POWERSGD_START,
        min_compression_rate=1,
        orthogonalization_epsilon=1e-8,
        batch_tensors_with_same_shape=True,
    )
    return state, powerSGD_hook


def choose_strategy(losses: FitOptions) -> Strategy | str:
    """Return the strategy of `train.strategy`."""
    processes = losses.devices * losses.nodes
    name = losses.strategy if losses.strategy != "auto" else ("ddp" if processes > 1 else "auto")
    if name == "ddp":
        return Ddp(losses)
    return Sharded(free_after_forward=name == "fsdp") if name in SHARDED else name


def check_devices(losses: FitOptions) -> None:
    """Refuse settings that this machine cannot run.

    Raises:
        InputError: more GPUs asked for than there are, fp16 without one, powersgd beside one, or no
            compiler.
    """
    n_gpus, sees_gpu = gpus(losses), torch.cuda.is_available()
    variable, usual = ("CC", ["gcc", "clang"]) if n_gpus else ("CXX", ["g++"])
    # The first word: `ccache g++` names a program and its arguments.
    compilers = os.environ.get(variable, "").split()[:1] or usual
    checks = (
        (
            losses.accelerator == "gpu" and not sees_gpu,
            "train.accelerator: gpu found, and there is none that works. Use auto or cpu.",
            "accelerator.no_gpu",
        ),
        (
            0 < n_gpus < losses.devices,
            f"train.devices: {losses.devices} found, and there are {n_gpus} GPUs.",
            "devices.too_few_gpus",
        ),
        (
            losses.precision == "fp16" and not n_gpus,
            "train.precision: fp16 found, which needs a GPU, and there is none. Use bf16 or 32.",
            "precision.no_gpu",
        ),
        (
            # PyTorch's hook waits for the GPU wherever there is one.
            losses.communication == "powersgd" and not n_gpus and sees_gpu,
            "train.communication: powersgd found, which does not run on the CPU of a machine "
            "whose GPU can be seen. "
            "Hide it (CUDA_VISIBLE_DEVICES=), use it (train.accelerator: auto), or use another "
            "communication.",
            "communication.powersgd_on_cpu",
        ),
        (
            losses.compile and not any(map(shutil.which, compilers)),
            "train.compile: true found, and the compiler that torch needs for it "
            f"({' or '.join(compilers)}) is not installed. Install it (on Debian and Ubuntu: apt "
            f"install g++), name another in the variable {variable}, or set train.compile to "
            "false.",
            "compile.no_compiler",
        ),
    )
    for is_broken, message, key in checks:
        if is_broken:
            raise InputError(message, key=key)


def gpus(losses: FitOptions) -> int:
    """Count the GPUs that a run may use on this machine."""
    return 0 if losses.accelerator == "cpu" else torch.cuda.device_count()


def repeatable() -> None:
    """Let convolutions on a GPU compute in float32 where that is asked for, and the same at
    each time.

    By themselves they round float32 to TF32, with as many bits as float16 has, and some add
    up in any order. Attention in 16 bit goes by torch's own kernels: cuDNN's, which an H100
    prefers, plans anew for each shape of a batch, about a second each, and gives gradients
    that are NaN for some lengths with a mask (PyTorch issue 196678).
    """
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True
    torch.backends.cuda.enable_cudnn_sdp(False)


def process_number() -> int:
    """Return the number of this process among all; number 0 writes files and logs."""
    return int(getattr(rank_zero_only, "rank", 0))


def parted(error: Exception) -> bool:
    """Return whether the error means that another process of the run cannot be reached."""
    return isinstance(error, dist.DistError) or (
        isinstance(error, RuntimeError) and GLOO in str(error)
    )


@contextmanager
def together() -> Iterator[None]:
    """Raise a one-line error, without traceback, if another process has ended and gradients can no
    longer be shared.

    Raises:
        PlumblineError: that is what happened.
    """
    try:
        yield
    except RuntimeError as error:
        if not parted(error):
            raise
        log.debug("", exc_info=error)
        reason = "" if GLOO in str(error) else f" ({str(error).strip().partition(chr(10))[0]})"
        raise PlumblineError(
            f"Another process of this run ended or cannot be reached, so this one stops{reason}. "
            "The same command goes "
            "on from the last epoch that was finished.",
            key="process.unreachable",
        ) from None


@contextmanager
def first_alone(stage: str) -> Iterator[None]:
    """Let one run at a time train in a project: a second would go on from the first one's
    checkpoints, and remove them.

    Of several processes of one run the first has the lock for all.

    Raises:
        InputError: another run is at it.
    """
    with nullcontext() if process_number() else alone(stage, ENDING_SECONDS):
        yield


def threads(losses: FitOptions) -> int:
    """Return the CPU threads of one process: as set, or its share of the cores."""
    return losses.threads or max(1, len(os.sched_getaffinity(0)) // losses.devices)


def clip(module: LightningModule, limit: float | None) -> Tensor:
    """Scale the gradients down to the norm `limit`, and return their norm over all processes."""
    bound = float("inf") if limit is None else limit
    norm: Tensor = gather_whole(
        nn.utils.clip_grad_norm_([p for p in module.parameters() if p.grad is not None], bound)
    )
    return norm


def leave_together() -> None:
    """Leave the process group of the run, if there is one, once all processes have come here.

    Without this, the processes that end first would leave early, while the first one writes
    for minutes; NCCL wants all to leave at once.
    """
    if dist.is_available() and dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def gather(value: AnyValue) -> list[AnyValue]:
    """Return the value of each process, in the order of their numbers."""
    if not (dist.is_available() and dist.is_initialized()):
        return [value]
    values: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values
