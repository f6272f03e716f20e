"""Start and watch one process for each device of a machine, by torchrun.

Without Lightning, which takes seconds to load and which the process that only waits does not need.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import signal
import socket
import sys
import uuid
from collections.abc import Sequence

import psutil  # type: ignore[import-untyped]
import torch
from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from plumbline.core.console import log, setup_logging
from plumbline.core.errors import InputError
from plumbline.core.jobs import die_with_parent
from plumbline.params import FitOptions

GLOO_NETWORK = "GLOO_SOCKET_IFNAME"
"""Variable by which gloo is told the network. By itself it takes that of the machine's name, which may be loopback."""


def one_process_a_device(losses: FitOptions) -> None:
    """Run the command in each of `train.devices` processes: this one starts them, waits, and exits with their code.

    Returns at once where one process is enough, and in the processes that torchrun or SLURM have started.

    Raises:
        InputError: several machines are asked for, and no torchrun has started this process, or by an address that
            leads other machines to themselves.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        if not die_with_parent():  # a killed torchrun would leave its processes training
            sys.exit(1)
        setup_logging("--verbose" in sys.argv, int(os.environ["RANK"]))
        # GPUs go by NCCL, which finds its own way, and so does gloo where the machine's name is of use.
        on_cpu = losses.accelerator == "cpu" or not torch.cuda.is_available()
        if losses.nodes > 1 and on_cpu and GLOO_NETWORK not in os.environ and named_as_loopback():
            found = network_to(os.environ["MASTER_ADDR"])
            os.environ.update({GLOO_NETWORK: found} if found else {})
        return
    if "SLURM_NTASKS" in os.environ:
        setup_logging("--verbose" in sys.argv, int(os.environ.get("SLURM_PROCID", 0)))
        return
    if losses.nodes > 1:
        raise InputError(
            f"train.nodes: {losses.nodes} found, and this process was not started by torchrun. On each machine, with "
            f"NUMBER from 0 to {losses.nodes - 1} and the address of the one with 0: torchrun --nnodes {losses.nodes} "
            f"--node-rank NUMBER --nproc-per-node {losses.devices} --master-addr ADDRESS --master-port 29400 "
            f"-m plumbline {' '.join(sys.argv[1:])}"
        )
    if losses.devices > 1:
        sys.exit(run(losses.devices, ["-m", "plumbline", *sys.argv[1:]]))


def named_as_loopback() -> bool:
    """Return whether this machine's own name leads to loopback, as Debian's installer sets it, or nowhere."""
    try:
        return ipaddress.ip_address(socket.gethostbyname(socket.gethostname())).is_loopback
    except OSError:
        return True


def network_to(address: str) -> str | None:
    """Return the network interface by which this machine reaches or has `address`; None if gloo cannot use any.

    Raises:
        InputError: nothing has this name, or it is loopback's address by another name.
    """
    try:
        family, *_, where = socket.getaddrinfo(address, 1, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as way:
            way.connect(where)  # nothing is sent: the system only chooses the way
            own = ipaddress.ip_address(way.getsockname()[0].partition("%")[0])
    except (OSError, UnicodeError) as error:
        raise InputError(
            f"MASTER_ADDR (torchrun --master-addr): {address} found, to which there is no way ({error}). Give the "
            "address of machine 0 in the network of all of them."
        ) from None
    # Debian gives each machine its own name as 127.0.1.1.
    if own.is_loopback and address != "localhost" and not address.startswith(("127.", "::1")):
        raise InputError(
            f"MASTER_ADDR (torchrun --master-addr): {address} found, which on this machine is {where[0]}, and no other "
            "machine reaches that. Give its address in the network of all of them, one of `hostname -I`."
        )
    found: dict[object, str] = {
        ipaddress.ip_address(one.address.partition("%")[0]): name
        for name, addresses in psutil.net_if_addrs().items()
        for one in addresses
        if one.family in (socket.AF_INET, socket.AF_INET6)
    }
    name = found.get(own)
    return None if name == "lo" and not own.is_loopback else name


def _order(failure: ProcessFailure) -> tuple[int, int]:
    """Return the sort key of a failure: the least one is the cause of all others.

    A killed process ends the others, and after a failure torchrun ends the remaining ones by SIGTERM.
    """
    code = failure.exitcode
    return (2 if code == -signal.SIGTERM else 0 if code < 0 else 1), failure.timestamp


def run(processes: int, arguments: Sequence[str]) -> int:
    """Run Python with these arguments in several processes; return the exit code of the first failure, or 0.

    The same as `torchrun --standalone --nproc-per-node PROCESSES`, by torchrun's own library: the command would turn
    every exit code into 1, and put a page of its own under the message.
    """
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # a failed process says itself why
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
        process, failure = min(error.failures.items(), key=lambda one: _order(one[1]))
        if failure.exitcode >= 0:
            return failure.exitcode
        log.error(
            "Training process %d of %d was killed (%s; a system short of memory does so, too). The same command goes "
            "on from the last epoch that was finished.",
            process,
            processes,
            signal.Signals(-failure.exitcode).name,
        )
        return 128 - failure.exitcode
    except SignalException as error:
        return 128 + int(error.sigval)
    return 0
