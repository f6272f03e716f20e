"""Load DVC once and fork it for each command: loading takes two seconds, most commands a fifth of one.

`run` does as `process.run` does of a command line of DVC. Behind it a process that has loaded DVC waits at a socket
(`python -m flows.versioning.dvc_process dvc`; by that last word others know it for one). Each command is a fork of it,
so none finds what another has left, and each has a process group of its own. It ends with the process that began it.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from flows.versioning import process

PROGRAMS = {"dvc": "dvc.cli", "flows.versioning.remote": "flows.versioning.remote"}
"""Name of a program -> module whose `main` it is."""
LOAD_S = 60.0
"""How long DVC may take to load; on a disk that hangs, for ever."""
_LENGTH = 8
_kept: list[_Ready | None] = []
"""The process that was begun; None once it has failed, and no other is tried."""
_alone = threading.Lock()


def begin() -> None:
    """Load DVC from now on, in the background."""
    if sys.platform == "linux" and not _kept:
        _kept.append(_Ready())


def run(
    program: str,
    arguments: Sequence[str],
    say: Callable[[str], None],
    *,
    limit_s: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> int:
    """Run `dvc`, or `flows.versioning.remote`, with these arguments; the rest is as in `process.run`.

    Raises:
        TookTooLongError: it was still at work at the limit.
    """
    # While one command is at work, and where none can be forked, DVC is loaded anew.
    if _alone.acquire(blocking=False):
        try:
            begin()
            asked = (program, arguments, process.variables(environment))
            if _kept and _kept[0] and (begun := _kept[0].start(*asked, min(limit_s or LOAD_S, LOAD_S))):
                return _attended(*begun, say, limit_s)
        finally:
            _alone.release()
    command = [sys.executable, "-m", program, *arguments]
    return process.run(command, say, limit_s=limit_s, environment=environment)


def _attended(ready: _Ready, pid: int, output: IO[str], say: Callable[[str], None], limit_s: float | None) -> int:
    code: list[int] = []
    watcher = threading.Thread(target=lambda: code.append(ready.code(pid)), daemon=True)
    watcher.start()
    with output:
        process.attend(pid, output, watcher, say, limit_s)
    return code[0]


class _Ready:
    """The process that has loaded DVC, as seen by its starter."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        # These very flows, whatever the working directory holds.
        paths = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "flows.versioning.dvc_process", "dvc"],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env=process.variables({"PYTHONPATH": os.pathsep.join(paths)}),
                process_group=0,
            )
        self._answers = self._socket.makefile("r", encoding="utf-8")

    def start(
        self, program: str, arguments: Sequence[str], variables: Mapping[str, str], within_s: float
    ) -> tuple[_Ready, int, IO[str]] | None:
        """Start a command; return its handle, process and output. None if that fails, and from then on."""
        here = str(Path.cwd())
        asked = {"program": program, "arguments": list(arguments), "variables": dict(variables), "here": here}
        words = json.dumps(asked).encode()
        reading, writing = os.pipe()
        try:
            self._socket.settimeout(within_s)
            socket.send_fds(self._socket, [len(words).to_bytes(_LENGTH, "big")], [writing])
            self._socket.sendall(words)
            told = self._answers.readline()
            self._socket.settimeout(None)
        except OSError:
            told = ""
        except BaseException:  # interrupted while DVC loads: the answer would be taken for that to the next command
            os.close(reading)
            self._end()
            raise
        finally:
            os.close(writing)
        if not told:
            os.close(reading)
            self._end()
            return None
        return self, int(told), os.fdopen(reading, encoding="utf-8", errors="replace")

    def code(self, pid: int) -> int:
        """Return the exit status of the command, once it has ended; that of a kill if the loader is gone."""
        told = self._answers.readline()
        if not told:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            self._end()
        return int(told or -signal.SIGKILL)

    def _end(self) -> None:
        self._answers.close()
        self._socket.close()
        self._process.kill()
        self._process.wait()
        _kept[:] = [None]


def main() -> int:
    """Load DVC; then fork for each command from the socket, until its other end is closed."""
    asked = socket.socket(fileno=os.dup(0))
    os.close(os.pidfd_open(os.getpid()))  # an error here, where the kernel has none, and not amid a command
    _load()
    while True:
        head, handles, _, _ = socket.recv_fds(asked, _LENGTH, 1)
        if not handles:
            return 0
        size = int.from_bytes(head, "big")
        command: dict[str, Any] = json.loads(b"".join(_received(asked, size)))
        child = os.fork()
        if child == 0:
            asked.close()
            return _command(command, handles[0])
        os.close(handles[0])
        with contextlib.suppress(OSError):  # it has done so itself already
            os.setpgid(child, child)
        asked.sendall(f"{child}\n".encode())
        asked.sendall(f"{_ended(child, asked)}\n".encode())


def _load() -> None:
    """Load all modules that most commands need."""
    for module in PROGRAMS.values():
        importlib.import_module(module)
    from dvc.cli.parser import get_main_parser
    from dvc.repo import Repo

    get_main_parser()
    # A worker's run begins in a folder of Prefect's. Of a project that cannot be read the first command will tell.
    with contextlib.suppress(Exception), Repo(os.environ.get("PLUMBLINE_HOME")):
        pass


def _received(asked: socket.socket, size: int) -> Any:
    while size:
        part = asked.recv(size)
        if not part:
            sys.exit(0)
        size -= len(part)
        yield part


def _command(command: dict[str, Any], output: int) -> int:
    """Become the command, in the fork."""
    os.setpgid(0, 0)
    process.die_with_parent()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for handle, place in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(handle, place)
    os.close(nothing)
    os.close(output)
    os.environ.clear()
    os.environ.update(command["variables"])
    os.chdir(command["here"])
    sys.argv[:] = [command["program"], *command["arguments"]]
    code: int = importlib.import_module(PROGRAMS[command["program"]]).main(command["arguments"])
    return code


def _ended(child: int, asked: socket.socket) -> int:
    """Wait for a command, end its leftover processes, return its exit status (negative: the signal)."""
    handle = os.pidfd_open(child)
    try:
        ready, _, _ = select.select([handle, asked.fileno()], [], [])
        # Killed before it is waited for: until then the group's number cannot go to another.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        if handle not in ready:
            sys.exit(0)  # who asked has ended
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        os.close(handle)


if __name__ == "__main__":
    sys.exit(main())
