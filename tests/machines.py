"""Two machines on one: each a network, a host name and a `/etc/hosts` of its own, with a cable between them.

Their disk is shared, and so are processors. Linux namespaces make them, which only root may.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.waiting import until

SPACES = ("net", "uts", "mnt")
NEEDED = ("ip", "nsenter", "unshare", "hostname", "mount")


class Machine(NamedTuple):
    """One of the two."""

    name: str
    address: str
    network: str
    """name of its end of the cable"""
    pid: int
    """process that holds its namespaces"""

    def command(self, *words: str) -> list[str]:
        """What runs `words` there, in the folder where it is started."""
        return ["nsenter", "--target", str(self.pid), "--net", "--uts", "--mount", f"--wd={Path.cwd()}", *words]


@contextmanager
def two_machines(folder: Path) -> Iterator[list[Machine]]:
    """Both, until the end of the block; files of theirs are kept in `folder`. Skips the test where none can be made."""
    if os.geteuid() or not all(map(shutil.which, NEEDED)):
        pytest.skip(f"two machines are made by root, with {', '.join(NEEDED)} (Debian: iproute2, util-linux, hostname)")
    with ExitStack() as stack:
        holders = [stack.enter_context(_namespaces()) for _ in range(2)]
        machines = [Machine(f"machine-{i}", f"10.77.0.{i + 1}", f"cable{i}", pid) for i, pid in enumerate(holders)]
        one, other = machines
        cable = ["ip", "link", "add", one.network, "netns", str(one.pid), "type", "veth", "peer", other.network]
        if subprocess.run([*cable, "netns", str(other.pid)], capture_output=True).returncode:
            pytest.skip("this root may not lay a cable between namespaces, or the system has none (veth)")
        for machine in machines:
            hosts = folder / machine.name
            # As Debian's installer writes it: a machine's own name is an address of loopback.
            hosts.write_text(f"127.0.0.1 localhost\n127.0.1.1 {machine.name}\n")
            for words in (
                ["hostname", machine.name],
                ["mount", "--bind", str(hosts), "/etc/hosts"],
                ["ip", "address", "add", f"{machine.address}/24", "dev", machine.network],
                ["ip", "link", "set", machine.network, "up"],
                ["ip", "link", "set", "lo", "up"],
            ):
                _run(*machine.command(*words))
        yield machines


@contextmanager
def _namespaces() -> Iterator[int]:
    """Process that lives in namespaces of its own, which end with it."""
    holder = subprocess.Popen(["unshare", "--net", "--uts", "--mount", "sleep", "infinity"])
    try:
        until(lambda: _lives_apart(holder.pid) or holder.poll() is not None, "a process with namespaces of its own")
        if holder.returncode is not None:
            pytest.skip("this root may not make namespaces")
        yield holder.pid
    finally:
        holder.kill()
        holder.wait()


def _lives_apart(pid: int) -> bool:
    own, other = (Path(f"/proc/{number}/ns") for number in (os.getpid(), pid))
    try:
        return all((own / space).readlink() != (other / space).readlink() for space in SPACES)
    except OSError:  # it has ended
        return False


def _run(*words: str) -> None:
    done: subprocess.CompletedProcess[str] = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}: {done.stderr}"
