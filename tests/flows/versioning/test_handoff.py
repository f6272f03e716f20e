"""Two clones that share only git and a remote: a folder, and a bucket. Real git, real DVC, a real S3 server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import boto3
import httpx
import pytest

from flows.versioning import clones, remote
from flows.versioning.stage_runner import (
    UNREACHABLE,
    NotRestoredError,
    StageFailedError,
    UnreachableError,
    reproduce,
)
from tests.flows.conftest import ROOT, Project, make_project
from tests.ports import free_port
from tests.waiting import PATIENCE_S, until

BEFORE = ["simulate", "ingest", "prepare"]


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """Address of an S3 server with one bucket."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        until(partial(answers, address), "an answer of the S3 server", needs=server)
        client = boto3.client("s3", endpoint_url=address, aws_access_key_id="a", aws_secret_access_key="b")
        client.create_bucket(Bucket="plumbline")
        yield address
    finally:
        server.kill()
        server.wait()


def answers(address: str) -> bool:
    try:
        httpx.get(address, timeout=PATIENCE_S)
    except httpx.TransportError:
        return False
    return True


class Machine:
    """A clone of its own, in which the test can stand."""

    def __init__(self, project: Project, folder: Path, config: str) -> None:
        self.folder = folder
        subprocess.run(["git", "clone", "--quiet", str(project.folder), str(folder)], check=True)
        (folder / ".dvc/config.local").write_text(config)

    def stand(self) -> None:
        os.chdir(self.folder)


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.chaos)])
def machines(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Project, Machine, Machine]:
    """A project, and two clones of it with a remote that both reach, and each a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SHELL", raising=False)
    project = make_project(tmp_path / "project")
    if request.param == "s3":
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
        where = f"url = s3://plumbline/{tmp_path.name}\n    endpointurl = {request.getfixturevalue('bucket')}"
    else:
        request.getfixturevalue("inside")
        (tmp_path / "remote").mkdir()
        where = f"url = {tmp_path / 'remote'}"
    config = f"['remote \"local\"']\n    {where}\n"
    return project, Machine(project, tmp_path / "one", config), Machine(project, tmp_path / "two", config)


def test_a_stage_goes_on_elsewhere_with_what_another_made(machines: tuple[Project, Machine, Machine]) -> None:
    project, one, two = machines
    heard: list[str] = []
    one.stand()
    commit = clones.take("HEAD")
    remote.check(str)
    assert reproduce("prepare", str, only=BEFORE) == "ran"

    # Not handed over yet: the other machine says what is missing, and makes nothing of it.
    two.stand()
    clones.take(commit)
    with pytest.raises(NotRestoredError, match="result of simulate is not in DVC's remote") as caught:
        reproduce("train", heard.append, pull=True, only=("train",))
    assert caught.value.exit_code == 2
    assert "simulate says hello" not in heard
    assert not Path("data/simulate").exists()

    one.stand()
    remote.push(BEFORE, str)
    two.stand()
    heard.clear()
    assert reproduce("train", heard.append, pull=True, only=("train",)) == "ran"
    assert [line for line in heard if line.endswith("hello")] == ["train says hello"]
    remote.push(["train"], str)

    one.stand()
    assert reproduce("train", str, pull=True, only=()) == "restored"
    assert Path("data/train/file.txt").read_text() == "train"
    assert Path("metrics/train.json").exists()  # figures that git keeps go with the result

    # The next commit changes what comes before: nobody takes the old result for the new one.
    project.behave(prepare={"other": 1})
    commit = project.commit()
    two.stand()
    assert clones.take(commit) == commit
    with pytest.raises(NotRestoredError, match="result of prepare"):
        reproduce("train", str, pull=True, only=("train",))


@pytest.mark.slow
def test_a_lock_whose_results_nobody_has_is_passed_over(
    machines: tuple[Project, Machine, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a new clone of a project whose results went to no remote; each machine makes other bytes of the same."""
    project, one, two = machines
    os.chdir(project.folder)
    monkeypatch.setenv("BYTES", "of the commit")
    reproduce("train", str, only=(*BEFORE, "train"))
    commit = project.commit()

    one.stand()
    clones.take(commit)
    remote.check(str)
    monkeypatch.setenv("BYTES", "of one")
    for stage in BEFORE:
        assert reproduce(stage, str, pull=True) == "ran"
    remote.push(BEFORE, str)

    two.stand()
    clones.take(commit)
    monkeypatch.setenv("BYTES", "of two")
    assert reproduce("train", str, pull=True, only=("train",)) == "ran"
    remote.push(["train"], str)

    one.stand()
    assert reproduce("train", str, pull=True, only=()) == "restored"
    assert Path("data/prepare/file.txt").read_text() == "prepareof one"
    assert Path("data/train/file.txt").read_text() == "trainof two"


def test_a_remote_that_is_gone_is_an_error_and_no_reason_to_compute(
    machines: tuple[Project, Machine, Machine], tmp_path: Path
) -> None:
    _, one, _ = machines
    one.stand()
    reproduce("simulate", str)
    config = Path(".dvc/config.local")
    # A folder that is not there, or a port where nobody listens.
    said = config.read_text().replace("/remote\n", "/gone\n")
    in_bucket = "endpointurl" in said
    config.write_text(f"{said.split('endpointurl')[0]}endpointurl = http://127.0.0.1:9\n" if in_bucket else said)
    with pytest.raises(UnreachableError, match="does not answer"):
        remote.check(str)
    if in_bucket:  # a folder would be made by DVC: hence the question before
        with pytest.raises(UnreachableError, match="dvc push"):
            remote.push(["simulate"], str)


@pytest.mark.slow
@pytest.mark.parametrize("machines", ["folder"], indirect=True)
def test_a_folder_that_goes_away_during_a_push_is_not_taken_for_another(
    machines: tuple[Project, Machine, Machine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DVC makes a new folder in its place, and would tell of success."""
    _, one, two = machines
    store, away = tmp_path / "remote", tmp_path / "away"
    one.stand()
    reproduce("simulate", str)
    # Stands in for DVC, and moves the store when it is asked to push.
    with monkeypatch.context() as patch:
        patch.setattr("dvc.cli.main", lambda _: (store.rename(away) and store.mkdir()) or 0)
        assert remote.main(["dvc", "push", "--run-cache", "simulate"]) == UNREACHABLE
    two.stand()
    with pytest.raises(NotRestoredError, match="result of simulate is not in DVC's remote"):
        reproduce("simulate", str, pull=True, only=())
    store.rename(tmp_path / "new")
    away.rename(store)
    one.stand()
    remote.push(["simulate"], str)
    two.stand()
    assert reproduce("simulate", str, pull=True, only=()) == "restored"


# A store that answers nothing, and a push that would never end.
SILENT = """
import time
from flows.versioning import remote
remote.SILENT_S, remote.PULSE_S = 0.5, 0.1
remote._watch(None, "s3://bucket/files")
time.sleep(3600)
"""


def test_a_push_to_a_store_that_falls_silent_is_ended() -> None:
    done = subprocess.run([sys.executable, "-c", SILENT], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == UNREACHABLE
    assert "s3://bucket/files does not answer: silent for" in done.stdout


def refuse(*_: object) -> None:
    raise OSError("[Errno 5] no access") from PermissionError("Forbidden")


@pytest.mark.parametrize("store", ["stand-in", pytest.param("s3", marks=pytest.mark.slow)])
def test_refused_credentials_are_bad_input_and_not_tried_again(
    store: str, project: Project, inside: None, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if store == "s3":
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
            monkeypatch.setenv(name, "/nowhere/none")
        address = f"url = s3://plumbline/none\n    endpointurl = {request.getfixturevalue('bucket')}"
        Path(".dvc/config.local").write_text(f"['remote \"local\"']\n    {address}\n")
    else:
        monkeypatch.setattr(remote, "_probe", refuse)
    with pytest.raises(StageFailedError, match="refuses the credentials") as caught:
        remote.check(str)
    assert caught.value.exit_code == 2
    assert not isinstance(caught.value, UnreachableError)


@pytest.mark.usefixtures("inside")
def test_a_machine_without_a_remote_says_so(project: Project) -> None:
    Path(".dvc/config").write_text("[core]\n    analytics = false\n")
    with pytest.raises(StageFailedError, match="no remote specified") as caught:
        remote.check(str)
    assert caught.value.exit_code == 2
    assert not isinstance(caught.value, UnreachableError)
