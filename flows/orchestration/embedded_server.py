"""Start Prefect's server for one run where PREFECT_API_URL is not set: before Prefect is
loaded, until the run ends.

Prefect starts one by itself, but only after it has loaded the server's code into the flow's
own process too, and the client's before that: seconds each, one after the other. Begun here
first, the server loads in a process of its own while this one loads the client.
"""

from __future__ import annotations

import atexit
import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from flows.versioning import checkout, stage_runner
from flows.versioning.process import die_with_parent

RECORD = Path(".plumbline/server.pid")
HOST = "127.0.0.1"
ADDRESS = "PREFECT_API_URL"
PATIENCE_S = 300.0
"""Longest time until the server answers: ten seconds where it makes its tables first,
minutes on a very busy machine."""
SECONDS_TO_END = 15.0
# As Prefect does for its own: no pages for browsers, and none of the services that schedules need.
VARIABLES = {
    "PREFECT__SERVER_EPHEMERAL": "1",
    "PREFECT__SERVER_FINAL": "1",
    "PREFECT_SERVER_UI_ENABLED": "false",
}
_begun: list[subprocess.Popen[bytes]] = []


class ServerFailedError(Exception):
    """The server ended, or does not answer."""


def begin() -> None:
    """Start the server, unless one is set, and direct this process to it; call this before
    Prefect is imported."""
    if os.environ.get(ADDRESS):
        return
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "flows.orchestration.gc_thread"]
    command += ["uvicorn", "--factory", "prefect.server.api.server:create_app"]
    # A process group of its own: Ctrl-C shall end the run, which then still tells the server so.
    server = subprocess.Popen(
        [*command, "--host", HOST, "--port", str(port), "--log-level", "error"],
        stdin=subprocess.DEVNULL,
        env={**os.environ, **VARIABLES},
        process_group=0,
        preexec_fn=die_with_parent,
    )
    # Handlers of the end run after Prefect has sent what it holds: it does that while its
    # threads end.
    atexit.register(_end, server)
    _begun.append(server)
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    RECORD.write_text(str(server.pid), encoding="utf-8")
    os.environ[ADDRESS] = f"http://{HOST}:{port}/api"


def at_work() -> bool:
    """Return whether this process has started a server."""
    return bool(_begun)


def wait() -> None:
    """Wait until the server answers, if it was started here.

    Raises:
        ServerFailedError: it ended, or takes too long.
    """
    until = time.monotonic() + PATIENCE_S
    for server in _begun:
        while not _healthy():
            if server.poll() is not None or time.monotonic() > until:
                how = (
                    f"ended with {server.returncode}"
                    if server.returncode is not None
                    else "does not answer"
                )
                raise ServerFailedError(
                    f"Prefect's server {how}. PREFECT_SERVER_LOGGING_LEVEL=INFO tells more."
                )
            time.sleep(0.05)
        if server.poll() is not None:  # and somebody else has its port
            raise ServerFailedError(f"Prefect's server ended with {server.returncode}. Run again.")


def end_leftover() -> None:
    """End the server of the last run, if it still exists. Only the owner of the checkout
    may call this."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        if _is_server(pid := int(RECORD.read_text(encoding="utf-8"))):
            os.kill(pid, signal.SIGTERM)
    RECORD.unlink(missing_ok=True)


def _end(server: subprocess.Popen[bytes]) -> None:
    """End the server, with time to write its data."""
    server.terminate()
    try:
        server.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _healthy() -> bool:
    connection = http.client.HTTPConnection(os.environ[ADDRESS].split("/")[2], timeout=10)
    try:
        connection.request("GET", "/api/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _is_server(pid: int) -> bool:
    """Check by folder and command that a process is the server: its number may belong to
    another one by now."""
    try:
        here = Path(f"/proc/{pid}/cwd").readlink() == Path.cwd()
        return here and b"prefect.server" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def begin_run() -> None:
    """Lock the checkout for this process, and start Prefect's server while the process goes on.

    A busy checkout ends the process, with a message and the exit code for bad input.
    """
    try:
        checkout.keep()
    except checkout.CheckoutBusyError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(stage_runner.BAD_INPUT)
    end_leftover()
    begin()
