"""One of two processes that send gradients by each hook; the first prints what came of it as JSON."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from plumbline.train.distributed.strategies import comm_hook

KINDS = ("none", "fp16", "bf16", "powersgd")
STEPS = 45
BEGUN = 15
"""Of these, so many until every hook does what it does."""
ACKNOWLEDGED = 120
"""Where Linux has the bytes that the other end has, in what it tells of a connection (`struct tcp_info`)."""


def network() -> nn.Module:
    """Matrices, vectors, and an odd number of parameters."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(48, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 4, bias=False))


def main(port: str) -> None:
    """Train with each hook on the same data, half of it in each process; RANK says which one this is."""
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    generator = torch.Generator().manual_seed(1)
    x, weight = torch.randn(64, 48, generator=generator), torch.randn(48, 4, generator=generator)
    y = (x @ weight).tanh()
    found = {}
    for name in KINDS:
        model = DistributedDataParallel(network())
        if name != "none":
            model.register_comm_hook(*comm_hook(name))
        optimiser = torch.optim.SGD(model.parameters(), lr=0.2)
        losses, errors = [], []
        for step in range(STEPS):
            if step == BEGUN:
                before = wire_bytes()
            optimiser.zero_grad()
            loss = nn.functional.mse_loss(model(x[rank::2]), y[rank::2])
            loss.backward()
            got = torch.cat([p.grad.flatten() for p in model.parameters()])
            optimiser.step()
            wanted = torch.cat([g.flatten() for g in whole(model.module, x, y, before=got, rate=0.2)])
            errors.append(float((got - wanted).norm() / wanted.norm()))
            losses.append(float(nn.functional.mse_loss(model.module(x), y)))
        wire = (wire_bytes() - before) / (STEPS - BEGUN)
        both = [torch.empty_like(got) for _ in range(2)]
        dist.all_gather(both, got)
        found[name] = {
            "losses": losses,
            "errors": errors,
            "wire": wire,
            "alike": bool(torch.equal(*both)),
        }
    if rank == 0:
        sys.stdout.write(json.dumps(found))
    dist.destroy_process_group()


def wire_bytes() -> int:
    """Sent over all connections of this process."""
    total = 0
    for path in list(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(OSError):
            if path.readlink().name.startswith("socket:"):  # a copy of another kind would stay open
                with socket.socket(fileno=os.dup(int(path.name))) as one:
                    told = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, ACKNOWLEDGED + 8)
                    total += struct.unpack_from("Q", told, ACKNOWLEDGED)[0]
    return total


def whole(model: nn.Module, x: torch.Tensor, y: torch.Tensor, before: torch.Tensor, rate: float) -> list[torch.Tensor]:
    """Gradients of the whole batch at the weights before the step along `before`."""
    parameters = list(model.parameters())
    old = [p.detach().clone() for p in parameters]
    start = 0
    with torch.no_grad():
        for parameter in parameters:
            parameter += rate * before[start : start + parameter.numel()].view_as(parameter)
            start += parameter.numel()
    result = torch.autograd.grad(nn.functional.mse_loss(model(x), y), parameters)
    with torch.no_grad():
        for parameter, value in zip(parameters, old, strict=True):
            parameter.copy_(value)
    return list(result)
