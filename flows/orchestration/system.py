"""Start and stop Prefect's server and the workers of deploy/pools.yaml on this machine:
`make up`, `make down`.

`python -m flows.orchestration.system up|down|status` from the project's root. Exit code 0:
done, or so already; else 1 or 2, with one message that says why, and nothing left behind.
`PLUMBLINE_PORT` is the server's port on 127.0.0.1.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import httpx
from filelock import FileLock, Timeout
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.settings import PREFECT_API_URL, temporary_settings
from rich.console import Console

from flows.orchestration import pools
from flows.orchestration.pools import Pool
from flows.orchestration.services import FOLDER, RECORD, Record, log_of, read_record
from flows.versioning import clones, process
from flows.versioning.stage_runner import BAD_INPUT, StageFailedError

HOST = "127.0.0.1"
PORT = "PLUMBLINE_PORT"
SERVER = "server"
VACUUM = {
    "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
    "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": str(30 * 86_400),
}
"""Settings of the server by which it removes records of runs that ended 30 days ago, with
their logs and artifacts."""
PATIENCE_S = 600.0
_console = Console()


def up() -> int:
    """Start what is not running, and wait until all of it is."""
    wanted = pools.read_pools()
    names = [SERVER, *(name for pool in wanted for name in pool.worker_names())]
    with _alone():
        record = _record()
        before = set(record.alive())
        if before >= set(names) and _healthy(record.port):
            _say("It is up.")
        else:
            # What a worker that died has left at work.
            _stop(record, [name for name in names if name not in before])
            if SERVER not in before:
                _check_free(record.port)
            try:
                record.write()
                _start(record, wanted, before)
            except BaseException:
                _stop(
                    record,
                    [service.name for service in record.services if service.name not in before],
                )
                raise
        _say_how(record)
    return 0


def down() -> int:
    """Stop what `up` started, with all its children."""
    with _alone():
        record = read_record()
        if record is None:
            RECORD.unlink(missing_ok=True)
            _say("It is not up.")
            return 0
        at_work = list(record.alive())
        _stop(record, [service.name for service in record.services])
        _say(f"Stopped: {', '.join(at_work) or 'nothing was at work any more'}.")
    return 0


def status() -> int:
    """Print what runs; return exit code 1 if something is missing."""
    record = read_record()
    if record is None:
        _say("It is not up. Start it: make up")
        return 1
    at_work = record.alive()
    for service in record.services:
        state = (
            "at work"
            if service.name in at_work
            else f"ended; see {log_of(service.name)}, then: make up"
        )
        _say(f"{service.name} (process {service.pid}): {state}")
    healthy = _healthy(record.port)
    _say(f"{_address(record.port)} {'answers' if healthy else 'does not answer'}")
    return 0 if healthy and len(at_work) == len(record.services) else 1


def _record() -> Record:
    """Return the record of running services; without any, a new one, after ending the rest
    of the old one."""
    port = os.environ.get(PORT)
    if port is not None and not (port.isdigit() and 0 < int(port) < 65536):
        raise StageFailedError(
            f"{PORT}: {port} found; a port number is needed", BAD_INPUT, key="port.not_a_number"
        )
    old = read_record()
    if old is not None and old.alive():
        if port is not None and int(port) != old.port:
            raise StageFailedError(
                f"It is up on port {old.port}, not {port}. Stop it first: make down",
                BAD_INPUT,
                key="port.already_chosen",
            )
        return old
    if old is not None:
        old.end_children(*(service.name for service in old.services))
    return Record(int(port or 4200))


def _start(record: Record, wanted: list[Pool], before: set[str]) -> None:
    if SERVER not in before:
        (FOLDER / "prefect").mkdir(parents=True, exist_ok=True)
        _say(f"Starting Prefect's server on {HOST}:{record.port}")
        command = [
            sys.executable,
            "-m",
            "flows.orchestration.gc_thread",
            "prefect",
            "server",
            "start",
        ]
        record.start(
            SERVER, [*command, "--host", HOST, "--port", str(record.port)], _variables(record.port)
        )
    _wait(record, SERVER, lambda: _healthy(record.port), "it does not answer")
    new = [(pool, name) for pool in wanted for name in pool.worker_names() if name not in before]
    folders = {name: clones.provide(name) if pool.clone else Path.cwd() for pool, name in new}
    if remark := clones.remark_on_changes():
        _say(remark)
    gpus = pools.gpus_here()
    with _client(record.port) as client:
        pools.create_pools(client, wanted)
        resting = pools.read_paused(client)
        _deploy(record.port)
        pools.create_automations(client)
        if names := pools.pause_again(client, resting):
            _say(f"Paused, as before: {', '.join(names)}")
        begin = datetime.now(UTC)
        for pool, name in new:
            variables = pool.variables(name, gpus)
            _say(
                f"Starting worker {name} of pool {pool.name}, GPUs: "
                f"{variables['CUDA_VISIBLE_DEVICES'] or 'none'}"
            )
            record.start(
                name,
                _worker(pool, name),
                _variables(record.port) | _at_home(folders[name]) | variables,
            )
        for pool, name in new:
            _wait(
                record,
                name,
                partial(_heard_of, client, pool, name, begin),
                "the server has not heard of it",
            )


def _heard_of(client: SyncPrefectClient, pool: Pool, name: str, since: datetime) -> bool:
    return _everywhere(name) in pools.heard_of(client, pool.name, since)


def _stop(record: Record, names: list[str]) -> None:
    """Stop the workers, report their runs to the server, then stop the server and remove
    the record."""
    workers = [name for name in names if name != SERVER]
    runs = record.variables("PREFECT__FLOW_RUN_ID", *workers)
    for name in workers:
        record.end(name)
    record.end_children(*workers)
    if runs and _healthy(record.port):
        with contextlib.suppress(httpx.HTTPError), _client(record.port) as client:
            if closed := pools.close_runs(client, runs):
                _say(f"Ended with their workers, to be retried: {', '.join(closed)}")
    if SERVER in names:
        record.end(SERVER)
        record.end_children(SERVER)
    record.forget(*names)


def _wait(record: Record, name: str, ready: Callable[[], bool], trouble: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not ready():
        ended = name not in record.alive()
        if ended or time.monotonic() > until:
            reason = "it ended at once" if ended else f"{trouble} after {PATIENCE_S:.0f} s"
            last = (
                log_of(name).read_text(encoding="utf-8", errors="replace").strip().splitlines()[-5:]
            )
            raise StageFailedError(
                "\n".join([f"{name}: {reason}. The end of {log_of(name)}:", *last]),
                1,
                key="service.not_started",
            )
        time.sleep(0.5)


def _deploy(port: int) -> None:
    """Send the deployments of prefect.yaml; each worker fills in the folder of its clone,
    not this process."""
    lines: list[str] = []
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
    if process.run(command, lines.append, limit_s=PATIENCE_S, environment=_variables(port)):
        raise StageFailedError(
            "\n".join(["prefect deploy --all failed:", *lines[-10:]]), 1, key="deployment.failed"
        )


def _worker(pool: Pool, name: str) -> list[str]:
    command = [
        sys.executable,
        "-m",
        "prefect",
        "worker",
        "start",
        "--type",
        "process",
        "--limit",
        "1",
    ]
    return [*command, "--pool", pool.name, "--name", _everywhere(name)]


def _everywhere(worker: str) -> str:
    """Return a worker's name, unique over all machines."""
    return f"{worker}@{socket.gethostname()}"


def _variables(port: int) -> dict[str, str]:
    return {
        "PREFECT_API_URL": f"{_address(port)}/api",
        "PREFECT_HOME": str((FOLDER / "prefect").resolve()),
        "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
        **{name: os.environ.get(name, value) for name, value in VACUUM.items()},
        "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(pools.HEARTBEAT_S),
        "PREFECT_WORKER_QUERY_SECONDS": "1",
        # `python` of the pools' command is that of this environment, activated or not.
        "PATH": os.pathsep.join(
            [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
        ),
        # One registry for all: each clone would begin one of its own.
        "MLFLOW_TRACKING_URI": os.environ.get("MLFLOW_TRACKING_URI")
        or f"sqlite:///{Path('mlflow.db').resolve()}",
    }


def _at_home(folder: Path) -> dict[str, str]:
    """Return variables that put the clone's own code before the installed one."""
    paths = [str(folder / "src"), str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PLUMBLINE_HOME": str(folder), "PYTHONPATH": os.pathsep.join(paths)}


def _check_free(port: int) -> None:
    with socket.socket() as probe:
        # Of a server that has just ended.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            message = (
                f"Port {port} of {HOST} is not free ({error.strerror}). Choose another: "
                f"{PORT}=4300 make up"
            )
            raise StageFailedError(message, BAD_INPUT, key="port.in_use") from error


def _healthy(port: int) -> bool:
    try:
        return httpx.get(f"{_address(port)}/api/health", timeout=10).status_code == 200
    except httpx.HTTPError:
        return False


@contextlib.contextmanager
def _client(port: int) -> Iterator[SyncPrefectClient]:
    with (
        temporary_settings({PREFECT_API_URL: f"{_address(port)}/api"}),
        get_client(sync_client=True) as client,
    ):
        yield client


def _alone() -> contextlib.AbstractContextManager[object]:
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        return FileLock(FOLDER / "lock").acquire(timeout=0)
    except Timeout:
        raise StageFailedError(
            "Another `make up` or `make down` is at work here.", BAD_INPUT, key="system.busy"
        ) from None


def _address(port: int) -> str:
    return f"http://{HOST}:{port}"


def _say(line: str) -> None:
    _console.print(line, markup=False, highlight=False, soft_wrap=True)


def _say_how(record: Record) -> None:
    _say(f"Open     {_address(record.port)}")
    _say(f"Use      export PREFECT_API_URL={_address(record.port)}/api")
    _say("Run now  prefect deployment run pipeline/nightly")
    _say(f"Logs     {FOLDER}/*.log")
    _say("Stop     make down")


def main(arguments: list[str]) -> int:
    """Do what the one argument names."""
    commands = {"up": up, "down": down, "status": status}
    if len(arguments) != 1 or arguments[0] not in commands:
        _say(f"Say one of: {', '.join(commands)}")
        return BAD_INPUT
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        return commands[arguments[0]]()
    except StageFailedError as error:
        Console(stderr=True).print(str(error), markup=False, highlight=False, soft_wrap=True)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
