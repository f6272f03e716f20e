"""A scratch project: real git, real DVC, the real flow, and stages that take no time."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO
from unittest import mock

import httpx
import pytest
import yaml

from flows.versioning import process, remote
from flows.versioning.stage_runner import STAGES as RUN
from tests.ports import free_port
from tests.waiting import PATIENCE_S, Process, until

ROOT = Path(__file__).parents[2]
PREFECT = str(Path(sys.executable).with_name("prefect"))
STAGES = (*RUN, "predict")

# Says two lines, writes one file, and behaves as `behave.json` asks: an exit code, or seconds to sleep. A machine that
# makes other bytes of the same has a variable `BYTES`.
STAGE = """
import ctypes, json, os, pathlib, sys, time
ctypes.CDLL(None).prctl(1, 9)  # as the package's own command line does under DVC: die with the parent
name = sys.argv[1]
own = os.environ.get("PLUMBLINE_STAGES")
if own is not None and name not in own.split():
    sys.exit(2)  # as the package's own command line does
want = json.loads(pathlib.Path("behave.json").read_text()).get(name, {})
print(f"{name} says hello")
print(f"{name} sees GPUs: {os.environ.get('CUDA_VISIBLE_DEVICES')}")
print(f"{name} says why", file=sys.stderr)
time.sleep(want.get("sleep", 0))
if want.get("exit"):
    sys.exit(want["exit"])
out = pathlib.Path("data") / name
out.mkdir(parents=True)
(out / "file.txt").write_text(name)
with (out / "file.txt").open("a") as stream:
    stream.write(os.environ.get("BYTES", ""))
(out / "manifest.json").write_text(json.dumps({"version": "abc123"}))
bad = want.get("fail_gate", False)
rule = {"metric": "severity_mae", "artifact": "int8", "slice": "all", "value": 0.4, "passed": not bad,
        "text": "severity_mae of int8 on all: 0.4, at most 0.3"}
(out / "gate.json").write_text(json.dumps({"verdict": "fail" if bad else "pass", "rules": [rule]}))
figures = {"severity_mae": 0.4, "size_bytes": 12345}
(out / "metrics.json").write_text(json.dumps({"all": {"int8": figures, "baseline": figures}}))
if name == "train":  # a copy, as in dvc.yaml
    pathlib.Path("metrics").mkdir(exist_ok=True)
    pathlib.Path("metrics/train.json").write_bytes((out / "metrics.json").read_bytes())
"""

# Stands in for the package's own command line, which the flow calls for the release alone.
RELEASE = """
import json, pathlib, sys
asked, package = sys.argv[2:]
assert (sys.argv[1], package) == ("release", "data/package"), sys.argv
champion = pathlib.Path(".plumbline/champion")
assert asked == "promote", sys.argv
print("promoted")
code = json.loads(pathlib.Path("behave.json").read_text()).get("release", {}).get("exit", 0)
if code == 0:
    champion.parent.mkdir(exist_ok=True)
    champion.touch()
sys.exit(code)
"""

IDENTITY = ("-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "init.defaultBranch=main")


class Project:
    """The scratch project's folder, and what its stages shall do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = os.environ | {"PREFECT_HOME": str(folder / ".prefect")}
        self.environment.pop("SHELL", None)

    def behave(self, **stages: object) -> None:
        """Ask stages for an `exit` code, to `sleep`, or to `fail_gate`; a changed wish makes its stage run again."""
        params = {stage: {"wish": json.dumps(stages.get(stage))} for stage in (*STAGES, "restore")}
        for folder in (self.folder, self.folder / "restoration"):
            if folder.is_dir():
                (folder / "behave.json").write_text(json.dumps(stages))
                (folder / "params.yaml").write_text(yaml.safe_dump(params))

    def commit(self, message: str = "change") -> str:
        """Commit all there is, where it is for other clones to take; the commit's hash."""
        for command in (["add", "--all"], ["commit", "--quiet", "--allow-empty", "--message", message]):
            subprocess.run(["git", *IDENTITY, *command], cwd=self.folder, check=True)
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=self.folder, check=True, capture_output=True, text=True
        )
        return found.stdout.strip()

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a Python process in the project's folder."""
        return subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def run(self, *arguments: str, timeout_s: float | None = None) -> tuple[int, str]:
        """Run a Python process in the project's folder: its exit code and all it said."""
        process = self.start(*arguments)
        said, _ = process.communicate(timeout=timeout_s)
        return process.returncode, said


@dataclass(frozen=True)
class Server:
    """A Prefect server of one's own, with what it needs to be found."""

    url: str
    log: Path
    database: Path
    """As it was when the server began: with tables and nothing in them."""


@contextmanager
def service(folder: Path, environment: Mapping[str, str], *arguments: str) -> Iterator[tuple[Path, Process]]:
    """Run a part of Prefect beside the test, in a process group that ends with the block; its log and itself."""
    log = folder / f"{arguments[0]}.log"
    with log.open("w") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "flows.orchestration.gc_thread", "prefect", *arguments],
            cwd=folder,
            env={**environment, "PYTHONPATH": str(ROOT)},
            stdout=stream,
            stderr=stream,
            process_group=0,
        )
        try:
            yield log, process
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@pytest.fixture(scope="package")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on a free port with a database of its own, for all tests that need one: it starts in ten seconds."""
    home = tmp_path_factory.mktemp("prefect")
    port = free_port()
    environment = os.environ | {
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "true",
    }
    url = f"http://127.0.0.1:{port}/api"
    with service(home, environment, "server", "start", "--host", "127.0.0.1", "--port", str(port)) as (log, process):
        until(lambda: _healthy(url), "the server's health", needs=process, found=log)
        copy = home / "begun" / "prefect.db"
        copy.parent.mkdir()
        with closing(sqlite3.connect(home / "prefect.db")) as live, closing(sqlite3.connect(copy)) as begun:
            live.backup(begun)
        yield Server(url, log, copy)


@pytest.fixture(scope="package")
def prefect_database(prefect_server: Server) -> Path:
    """An empty database of Prefect: making its tables takes ten seconds, copying it none."""
    return prefect_server.database


def _healthy(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=PATIENCE_S).status_code == 200
    except httpx.TransportError:
        return False


def make_project(folder: Path) -> Project:
    """A scratch project with one commit."""
    for name in (".dvc/config", ".dvc/.gitignore", ".dvcignore", ".gitignore", "prefect.yaml", "deploy/pools.yaml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "flows", folder / "flows", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "stage.py").write_text(STAGE)
    (folder / "plumbline").mkdir()
    # Its own command line, before the package itself, of which flows import the errors.
    (folder / "plumbline" / "__init__.py").write_text(f"__path__.append({str(ROOT / 'src/plumbline')!r})\n")
    (folder / "plumbline" / "__main__.py").write_text(RELEASE)
    stages = {}
    for before, stage in zip((None, *STAGES), STAGES, strict=False):
        deps = ["stage.py", *([f"data/{before}/file.txt"] if before else [])]
        stages[stage] = {
            "cmd": f"exec python stage.py {stage}",
            "deps": deps,
            "params": [stage],
            "outs": [f"data/{stage}"],
        }
    stages["train"]["metrics"] = [{"metrics/train.json": {"cache": False}}]
    (folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    subprocess.run(["git", *IDENTITY, "init", "--quiet"], cwd=folder, check=True)
    scratch = Project(folder)
    scratch.behave()
    scratch.commit()
    return scratch


def add_restoration(project: Project) -> None:
    """Give a scratch project the stages of the other family, and commit."""
    folder = project.folder / "restoration"
    folder.mkdir()
    shutil.copy(ROOT / "restoration/.gitignore", folder / ".gitignore")
    graph = yaml.safe_load((project.folder / "dvc.yaml").read_text())["stages"]
    graph["restore"] = graph.pop("predict") | {"outs": ["data/restore"], "params": ["restore"]}
    for name, stage in graph.items():
        stage["cmd"] = f"exec python ../stage.py {name}"
        stage["deps"][0] = "../stage.py"
    (folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": graph}))
    project.behave()
    project.commit()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A scratch project that is the working directory of the test."""
    # /bin/sh then runs the stages; not every one makes way for its last command by itself.
    monkeypatch.delenv("SHELL", raising=False)
    monkeypatch.chdir(tmp_path)
    return make_project(tmp_path)


def run_inside(
    command: Sequence[str],
    say: Callable[[str], None],
    *,
    limit_s: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> int:
    """Run a command as `flows.versioning.process.run` does, but DVC in this process: to load it takes a second."""
    variables = process.variables(environment) | {"DVC_TEST": "true"}  # with it, DVC leaves `sys.stdout` alone
    with tempfile.TemporaryFile("w+", buffering=1) as stream:
        if list(command[1:3]) in (["-m", "dvc"], ["-m", remote.__name__]):
            from dvc.cli import main as dvc  # a second to load, and few tests need it

            program = dvc if command[2] == "dvc" else remote.main
            with written_to(stream), mock.patch.dict(os.environ, variables), contextlib.chdir(Path.cwd()):
                code = program(list(command[3:]))
        else:
            code = subprocess.run(command, env=variables, stdout=stream, stderr=stream, check=False).returncode
        stream.seek(0)
        for line in stream:
            say(line.rstrip())
    return code


def dvc(*words: str, code: int = 0) -> str:
    """Run DVC in this process, which ends with this exit status; what it and the stages print."""
    lines: list[str] = []
    assert run_inside([sys.executable, "-m", "dvc", *words], lines.append) == code, lines
    return "\n".join(lines)


@contextmanager
def written_to(stream: TextIO) -> Iterator[None]:
    """Let all that this process, DVC's log and child processes print go to a file during the block."""
    handlers = [handler for name in ("dvc", "dvc_objects", "dvc_data") for handler in logging.getLogger(name).handlers]
    streams = [
        (handler, handler.setStream(stream)) for handler in handlers if isinstance(handler, logging.StreamHandler)
    ]
    before = [os.dup(number) for number in (1, 2)]
    try:
        for number in (1, 2):
            os.dup2(stream.fileno(), number)
        with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
            yield
    finally:
        for number, copy in enumerate(before, start=1):
            os.dup2(copy, number)
            os.close(copy)
        for handler, former in streams:
            if former is not None:
                handler.setStream(former)


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """DVC runs in the test's own process, for tests of which the process is no subject."""
    monkeypatch.setattr(process, "run", run_inside)
    # It would end this process, and outlive the test.
    monkeypatch.setattr(remote, "_watch", lambda *_: threading.Event())


@pytest.fixture
def prefect_home(project: Project, prefect_server: Server) -> None:
    """The database that embedded servers of the test find where they would make theirs, which takes ten seconds."""
    home = Path(project.environment["PREFECT_HOME"])
    home.mkdir()
    shutil.copy(prefect_server.database, home / "prefect.db")


@pytest.fixture
def harness(prefect_server: Server) -> Iterator[None]:
    """The shared server for flows that run in the test's own process."""
    from prefect.settings import PREFECT_API_URL, temporary_settings  # seconds to load, and few tests need it

    with temporary_settings({PREFECT_API_URL: prefect_server.url}):
        yield


def stage_process(stage: str, place: Path | None = None) -> int:
    """Process number of a stage of the project in `place`, or in the working directory, once it runs."""

    def look() -> int | None:
        for command in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = command.read_bytes().split(b"\0")
                folder = command.with_name("cwd").readlink()
            except OSError:
                continue
            if words[1:3] == [b"stage.py", stage.encode()] and folder == (place or Path.cwd()):
                return int(command.parent.name)
        return None

    return int(until(look, f"the stage {stage}") or 0)
