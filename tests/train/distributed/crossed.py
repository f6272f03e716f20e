"""One of two processes that train by one strategy after another, and go on from each other's checkpoints."""

import os
import shutil
import sys
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from plumbline.compress.stage import compress
from plumbline.params import Params
from plumbline.train.fit.module import Optimisation
from plumbline.train.stage import train

DIES = 1
"""The epoch, counted from 0, before which a run is killed that others go on from."""


class Killed(BaseException):
    """Stands for the end of the process."""


class Case(NamedTuple):
    """One run, in a folder of its own."""

    name: str
    params: Params
    port: int
    dies: bool = False
    begun_by: str | None = None
    """Name of the case from whose checkpoint it goes on."""
    pruned: bool = False
    """Run stage `compress` from `data/train` of the project."""


def main(cases: list[Case], port: int) -> None:
    """Run all of them; what each process held of the weights is printed."""
    rank, project = int(os.environ["RANK"]), Path.cwd()
    store = dist.TCPStore("127.0.0.1", port, 2, is_master=rank == 0, timeout=timedelta(days=1))
    for case in cases:
        os.environ["MASTER_PORT"] = str(case.port)
        if rank == 0:
            make(case, project)
        together(store, case.name)
        os.chdir(project / case.name)
        run(case, project)
    sys.stdout.write(f"CPU seconds: {time.process_time():.0f}\n")


def make(case: Case, project: Path) -> None:
    """Make the case's folder, with the checkpoints that it goes on from."""
    (project / case.name).mkdir()
    if case.begun_by:
        shutil.copytree(project / case.begun_by / ".plumbline", project / case.name / ".plumbline")


def together(store: dist.TCPStore, name: str) -> None:
    """Wait for the other process."""
    store.add(name, 1)
    while store.add(name, 0) < 2:  # the other's end is that of this one: see `both`
        time.sleep(0.01)


def run(case: Case, project: Path) -> None:
    """Run one case in the working directory, to its end or its death."""

    def on_train_epoch_start(self: Any) -> None:
        own = [p.to_local() if isinstance(p, DTensor) else p for p in self.parameters()]
        sys.stdout.write(f"{case.name} {sum(p.numel() for p in own)} of {sum(p.numel() for p in self.parameters())}\n")
        if case.dies and self.current_epoch == DIES:
            raise Killed

    # The second process ends a run by leaving.
    with pytest.MonkeyPatch.context() as patch, suppress(Killed, SystemExit):
        patch.setattr(Optimisation, "on_train_epoch_start", on_train_epoch_start)
        if case.pruned:
            compress(project / "data/prepare", project / "data/train", case.params, Path("out"))
        else:
            train(project / "data/prepare", case.params, Path("out"))
    if dist.is_initialized():
        dist.destroy_process_group()
