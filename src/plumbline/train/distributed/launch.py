"""Start and watch one process for each device of a machine, by torchrun.

Without Lightning, which takes seconds to load and which the process that only waits does not need.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import uuid
from collections.abc import Sequence

from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from plumbline.core.console import log, setup_logging
from plumbline.core.errors import InputError
from plumbline.core.jobs import die_with_parent
from plumbline.params import FitOptions


def one_process_a_device(losses: FitOptions) -> None:
    """Run the command in each of `train.devices` processes: this one starts them, waits,
    and exits with their code.

    Returns at once where one process is enough, and in the processes that torchrun or SLURM
    have started.

    Raises:
        InputError: several machines are asked for, and no torchrun has started this process.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        if not die_with_parent():  # a killed torchrun would leave its processes training
            sys.exit(1)
        setup_logging("--verbose" in sys.argv, int(os.environ["RANK"]))
        return
    if "SLURM_NTASKS" in os.environ:
        setup_logging("--verbose" in sys.argv, int(os.environ.get("SLURM_PROCID", 0)))
        return
    if losses.nodes > 1:
        raise InputError(
            f"train.nodes: {losses.nodes} found, and this process was not started by torchrun. On "
            f"each machine, with NUMBER from 0 to {losses.nodes - 1} and the address of the one "
            f"with 0: torchrun --nnodes {losses.nodes} --node-rank NUMBER "
            f"--nproc-per-node {losses.devices} --master-addr ADDRESS --master-port 29400 -m "
            f"plumbline {' '.join(sys.argv[1:])}",
            key="nodes.no_torchrun",
        )
    if losses.devices > 1:
        sys.exit(run(losses.devices, ["-m", "plumbline", *sys.argv[1:]]))


def run(processes: int, arguments: Sequence[str]) -> int:
    """Run Python with these arguments in several processes; return the exit code of the
    first failure, or 0.

    The same as `torchrun --standalone --nproc-per-node PROCESSES`, by torchrun's own
    library: the command would turn every exit code into 1, and put a page of its own under
    the message.
    """
    # A failed process says itself why.
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    settings = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=uuid.uuid4().hex,
        max_restarts=0,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",  # a free port
    )
    try:
        elastic_launch(settings, sys.executable)(*arguments)
    except ChildFailedError as error:
        # After a failure torchrun ends the remaining processes by SIGTERM; a killed one makes
        # the others fail.
        codes = {rank: failure.exitcode for rank, failure in error.failures.items()}
        codes = {rank: code for rank, code in codes.items() if code != -signal.SIGTERM}
        killed = {rank: -code for rank, code in codes.items() if code < 0}
        if killed:
            rank, number = next(iter(killed.items()))
            log.error(
                "Training process %d of %d was killed (%s; a system short of memory does so, "
                "too). The same command "
                "goes on from the last epoch that was finished.",
                rank,
                processes,
                signal.Signals(number).name,
            )
            return 128 + number
        return max(codes.values(), default=128 + signal.SIGTERM)
    except SignalException as error:
        return 128 + int(error.sigval)
    return 0
