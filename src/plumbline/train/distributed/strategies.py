"""Choose Lightning's strategy for several processes, check the devices, and let the processes work together."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from lightning import LightningModule
from lightning.pytorch.strategies import DDPStrategy, Strategy
from lightning.pytorch.utilities import rank_zero_only
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from plumbline.core.console import log
from plumbline.core.errors import InputError, PlumblineError
from plumbline.core.jobs import alone
from plumbline.params import FitOptions
from plumbline.params.train import SHARDED
from plumbline.train.distributed.sharded import Sharded, whole

AnyThing = TypeVar("AnyThing")
ENDING_SECONDS = 10.0
"""A killed run is begun again at once, and processes that made its batches take some seconds to see that it is gone."""
GLOO = "gloo/transport"
"""In every message of a connection that is gone."""


class Ddp(DDPStrategy):
    """Lightning's, without what costs time and gives nothing here.

    Buffers are the same in all processes, and none changes in a step, but for a SyncBatchNorm's, which all compute
    alike: they are not sent before each forward pass. Nor is the network wrapped in a stream of its own, from which
    torch warns of gradients (Lightning issue 21567).
    """

    def __init__(self) -> None:
        super().__init__(forward_sync_buffers=False)

    def _setup_model(self, model: nn.Module) -> DistributedDataParallel:
        return DistributedDataParallel(model, device_ids=self.determine_ddp_device_ids(), **self._ddp_kwargs)


def choose_strategy(losses: FitOptions) -> Strategy | str:
    """Return the strategy of `train.strategy`."""
    processes = losses.devices * losses.nodes
    name = losses.strategy if losses.strategy != "auto" else ("ddp" if processes > 1 else "auto")
    if name == "ddp":
        return Ddp()
    return Sharded(free_after_forward=name == "fsdp") if name in SHARDED else name


def check_devices(losses: FitOptions, attention: str = "sdpa") -> None:
    """Refuse settings that this machine cannot run. `attention`: that of the network, which torch may compile.

    Raises:
        InputError: more GPUs asked for than there are, fp16 without one, powersgd beside one, or no compiler.
    """
    if losses.compile:
        _check_compiler("train.compile: true", "CXX", ("g++",), "C++")
    if gpus(losses) and (losses.compile or attention in ("flex", "ragged")):
        # Triton builds what starts a GPU's kernels in C; these kernels are compiled whether the network is or not.
        wanted = "train.compile: true" if losses.compile else f"model.attention: {attention}"
        _check_compiler(wanted, "CC", ("gcc", "clang"), "C")
    if losses.accelerator == "gpu" and not torch.cuda.is_available():
        raise InputError("train.accelerator: gpu found, and there is none that works. Use auto or cpu.")
    if gpus(losses) and losses.devices > gpus(losses):
        raise InputError(f"train.devices: {losses.devices} found, and there are {gpus(losses)} GPUs.")
    if losses.precision == "fp16" and not gpus(losses):
        raise InputError("train.precision: fp16 found, which needs a GPU, and there is none. Use bf16 or 32.")
    if losses.communication == "powersgd" and not gpus(losses) and torch.cuda.is_available():
        raise InputError(  # PyTorch's hook waits for the GPU wherever there is one
            "train.communication: powersgd found, which does not run on the CPU of a machine whose GPU can be seen. "
            "Hide it (CUDA_VISIBLE_DEVICES=), use it (train.accelerator: auto), or use another communication."
        )


def _check_compiler(wanted: str, variable: str, usual: tuple[str, ...], language: str) -> None:
    """Check that Python's headers and a compiler of `language` are there: that of `variable`, else a `usual` one."""
    # Torch and Triton run the variable's whole value as one command: "ccache gcc", options or nothing do not start.
    named = os.environ.get(variable)
    compilers, header = usual if named is None else (named,), Path(sysconfig.get_path("include"), "Python.h")
    instead = "false" if "compile" in wanted else "sdpa"
    if not any(map(shutil.which, compilers)):
        raise InputError(
            f"{wanted} found, and no {language} compiler {' or '.join(compilers) or repr(named)}. Install one (apt-get "
            f"install {usual[0]}), name yours, without options, in the environment variable {variable} or take that "
            f"away, or use {instead}."
        )
    if not header.exists():
        raise InputError(
            f"{wanted} found, and not {header}, which what torch compiles includes. Install Python's "
            f"headers (apt-get install python3-dev), or use {instead}."
        )


def gpus(losses: FitOptions) -> int:
    """Count the GPUs that a run may use on this machine."""
    return 0 if losses.accelerator == "cpu" else torch.cuda.device_count()


def repeatable() -> None:
    """Let convolutions on a GPU compute in float32 where that is asked for, and the same at each time.

    By themselves they round float32 to TF32, with as many bits as float16 has, and some add up in any order. Attention
    in 16 bit goes by torch's own kernels: cuDNN's, which an H100 prefers, plans anew for each shape of a batch, about a
    second each, and gives gradients that are NaN for some lengths with a mask (PyTorch issue 196678).
    """
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True
    torch.backends.cuda.enable_cudnn_sdp(False)


def process_number() -> int:
    """Return the number of this process among all; number 0 writes files and logs."""
    return int(getattr(rank_zero_only, "rank", 0))


def parted(error: Exception) -> bool:
    """Return whether the error means that another process of the run cannot be reached."""
    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and GLOO in str(error))


@contextmanager
def together() -> Iterator[None]:
    """Say in a line, not in a traceback, that another process has ended and no gradient can be shared any more.

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
            f"Another process of this run ended or cannot be reached, so this one stops{reason}. The same command goes "
            "on from the last epoch that was finished."
        ) from None


@contextmanager
def first_alone(stage: str) -> Iterator[None]:
    """Let one run at a time train in a project: a second would go on from the first one's checkpoints, and remove them.

    Of several processes of one run the first holds the place for all.

    Raises:
        InputError: another run is at it.
    """
    with nullcontext() if process_number() else alone(stage, ENDING_SECONDS):
        yield


def threads(losses: FitOptions) -> int:
    """Return the CPU threads of one process: as set, or its share of the cores."""
    return losses.threads or max(1, len(os.sched_getaffinity(0)) // losses.devices)


def has_batch_norm(module: nn.Module) -> bool:
    """Return whether a module has batch statistics, which would differ between processes."""
    return any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in module.modules())


def clip(module: LightningModule, most: float | None) -> Tensor:
    """Scale the gradients down to the norm `most`, and return the norm they had, over all processes' shares."""
    bound = float("inf") if most is None else most
    norm: Tensor = whole(nn.utils.clip_grad_norm_([p for p in module.parameters() if p.grad is not None], bound))
    return norm


def leave_together() -> None:
    """Leave the process group of the run, if there is one, once all processes have come here.

    Without this, the processes that end first would leave early, while the first one writes for minutes; NCCL wants all
    to leave at once.
    """
    if dist.is_available() and dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def gather(value: AnyThing) -> list[AnyThing]:
    """Return the value of each process, in the order of their numbers."""
    if not (dist.is_available() and dist.is_initialized()):
        return [value]
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, value)
    return found
