"""DVC's remote goes away in the middle of a push: a folder that is no longer mounted, an S3 server that is killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import boto3
import pytest

from flows.versioning import remote
from flows.versioning.stage_runner import NotRestoredError, UnreachableError, reproduce
from tests.flows.conftest import STAGE, make_project
from tests.flows.versioning.test_handoff import answers
from tests.ports import free_port
from tests.waiting import until

pytestmark = pytest.mark.chaos
FILES = 600
# A result of many files, so that there is a middle of its push.
MANY = f"""
for n in range({FILES} if name == "simulate" else 0):
    (out / f"{{n}}.bin").write_bytes(os.urandom(20_000))
"""


class Clones:
    """A project, and clones of it that reach one remote."""

    def __init__(self, place: Path, settings: str) -> None:
        self.place = place
        self.settings = f"['remote \"local\"']\n{settings}\n"
        self.project = make_project(place / "project")
        (self.project.folder / "stage.py").write_text(STAGE + MANY)
        self.project.commit()

    def stand_in(self, name: str) -> None:
        """Go into a clone, which is made where it is not there yet."""
        folder = self.place / name
        if not folder.exists():
            subprocess.run(["git", "clone", "--quiet", str(self.project.folder), str(folder)], check=True)
            (folder / ".dvc/config.local").write_text(self.settings)
        os.chdir(folder)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("SHELL", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "project").mkdir()
    return tmp_path


def pushed_while(begun: Callable[[], bool], strike: Callable[[], None]) -> str:
    """Push, strike once it is in the middle; what the push failed with."""

    def wait() -> None:
        until(begun, "the middle of the push", pause_s=0.001)
        strike()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    with pytest.raises(UnreachableError) as caught:
        remote.push(["simulate"], str)
    thread.join()
    return str(caught.value)


def nobody_takes_a_half(clones: Clones) -> None:
    clones.stand_in("other")
    with pytest.raises(NotRestoredError, match="result of simulate is not in DVC's remote"):
        reproduce("simulate", str, pull=True, only=())
    assert not Path("data/simulate").exists()
    shutil.rmtree(clones.place / "other")


def all_of_it_comes(clones: Clones) -> None:
    clones.stand_in("other")
    assert reproduce("simulate", str, pull=True, only=()) == "restored"
    assert len(list(Path("data/simulate").glob("*.bin"))) == FILES
    clones.stand_in("one")
    assert reproduce("simulate", str) == "unchanged"


def test_a_folder_goes_away(place: Path) -> None:
    store, away = place / "remote", place / "away"
    store.mkdir()
    clones = Clones(place, f"    url = {store}")
    clones.stand_in("one")
    reproduce("simulate", str)
    said = pushed_while(lambda: sum(1 for _ in store.rglob("*")) > 100, lambda: _move(store, away))
    assert "it is not the store that it was" in said
    assert store.exists()
    nobody_takes_a_half(clones)
    clones.stand_in("one")

    shutil.copytree(store, away, dirs_exist_ok=True)
    shutil.rmtree(store)
    away.rename(store)
    remote.push(["simulate"], str)
    all_of_it_comes(clones)


def _move(store: Path, away: Path) -> None:
    store.rename(away)


class Bucket:
    """An S3 server with a bucket, in memory."""

    def __init__(self) -> None:
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self.server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(partial(answers, self.address), "an answer of the S3 server", needs=self.server)
        self.client = boto3.client("s3", endpoint_url=self.address, aws_access_key_id="a", aws_secret_access_key="b")
        self.client.create_bucket(Bucket="plumbline")

    def objects(self) -> int:
        return int(self.client.list_objects_v2(Bucket="plumbline").get("KeyCount", 0))

    def kill(self) -> None:
        self.server.send_signal(signal.SIGKILL)
        self.server.wait()


def test_an_s3_server_is_killed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes back empty, as after the loss of its disk: the worst of what can come back."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    bucket = Bucket()
    try:
        clones = Clones(place, f"    url = s3://plumbline/x\n    endpointurl = {bucket.address}")
        clones.stand_in("one")
        reproduce("simulate", str)
        said = pushed_while(lambda: bucket.objects() > 100, bucket.kill)
        assert "does not answer: silent for 120 s" in said
        bucket.start()
        nobody_takes_a_half(clones)
        clones.stand_in("one")
        remote.push(["simulate"], str)
        all_of_it_comes(clones)
    finally:
        bucket.kill()
