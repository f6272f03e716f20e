"""Shard weights, gradients and the optimiser's state over processes, by torch's `fully_shard` (FSDP2).

Checkpoints hold whole tensors, in the form that one process writes: any strategy goes on from those of any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from lightning import LightningModule
from lightning.pytorch.strategies import DDPStrategy
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer
from torch.utils._pytree import tree_map


class Sharded(DDPStrategy):
    """Lightning's way to start and join processes, with a sharded network where DDP would wrap a whole one.

    Lightning's own strategy for FSDP2 shards before callbacks copy the network for the mean of the weights, and a
    sharded network cannot be copied.
    """

    def __init__(self, free_after_forward: bool) -> None:
        """`free_after_forward`: gather weights again for the backward pass (ZeRO-3); else keep them until then."""
        super().__init__()
        self.free_after_forward = free_after_forward

    def _setup_model(self, model: nn.Module) -> Any:
        self.shard(model)
        return model

    def _register_ddp_hooks(self) -> None:
        """Leave out what asks for DDP's wrapper."""

    def shard(self, module: nn.Module) -> None:
        """Shard the network of `module`, in place: each part by itself, so that one at a time is whole in memory."""
        network = module.get_submodule(getattr(module, "network"))  # noqa: B009
        mesh = init_device_mesh(self.root_device.type, (self.world_size,))
        for part in [*_parts(network), network]:
            fully_shard(part, mesh=mesh, reshard_after_forward=self.free_after_forward)
        module.register_state_dict_post_hook(_all_whole)  # type: ignore[no-untyped-call]

    def gather_weights(self, module: LightningModule) -> None:
        """Gather all weights for an evaluation, in which processes may have different numbers of batches."""
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
        state: dict[str, Any] = tree_map(whole, super().optimizer_state(optimizer))
        return state

    def load_optimizer_state_dict(self, checkpoint: Any) -> None:
        """Take this process's share of a whole state."""
        shared = []
        for optimizer, given in zip(self.optimizers, checkpoint["optimizer_states"], strict=True):
            weights = [weight for group in optimizer.param_groups for weight in group["params"]]
            state = {
                number: {name: _share(value, weights[number]) for name, value in values.items()}
                for number, values in given["state"].items()
            }
            shared.append({**given, "state": state})
        super().load_optimizer_state_dict({"optimizer_states": shared})


def sharded_parts(module: nn.Module) -> list[FSDPModule]:
    """Parts of a network that gather their own weights."""
    return [part for part in module.modules() if isinstance(part, FSDPModule)]


def whole(value: Any) -> Any:
    """Gather a tensor of which this process has a share; anything else stays as it is."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def own_share(value: Tensor) -> Tensor:
    """Return what this process keeps of a tensor, which a change in place changes too."""
    return value.to_local() if isinstance(value, DTensor) else value


def _share(value: Any, like: Tensor) -> Any:
    """Share out a whole tensor as the weight is that it belongs to."""
    if not isinstance(like, DTensor) or not isinstance(value, Tensor) or value.shape != like.shape:
        return value
    there = value.to(like.device)
    return distribute_tensor(there, like.device_mesh, like.placements, src_data_rank=None)


def _parts(network: nn.Module) -> Iterator[nn.Module]:
    for part in network.children():
        if isinstance(part, nn.ModuleList):
            yield from part
        elif any(True for _ in part.parameters()):
            yield part


def _all_whole(module: nn.Module, state: dict[str, Any], prefix: str, metadata: Any) -> None:
    with torch.no_grad():
        state.update({name: whole(value) for name, value in state.items()})
