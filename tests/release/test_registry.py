"""A registry that does not answer is an error, never "no champion"."""

from __future__ import annotations

import socket
from datetime import UTC, datetime
from pathlib import Path

import pytest

from plumbline.release.promotion import challenge, promote
from plumbline.release.registry import Registry
from plumbline.release.versions import Registered
from tests.refusals import refuses
from tests.release.conftest import MakePackage


def test_a_file_that_is_no_database_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    path.write_text("not a database " * 100)
    with refuses("registry.no_answer", path):
        Registry(uri=f"sqlite:///{path}").champion()


@pytest.mark.parametrize("password", ["secret", "p%40s:secret", "%2Fsecret"])
def test_a_silent_server_is_an_error_that_keeps_its_password(
    make_package: MakePackage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket() as held:  # bound, not listening: every connection is refused
        held.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://user:{password}@127.0.0.1:{held.getsockname()[1]}")
        with refuses("registry.no_answer") as refusal:
            promote(make_package("one"), lambda candidate, champion: None)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("uri", ["mlflow.corp:5000", "file:nowhere", "http//mlflow.corp"])
def test_an_address_that_is_none_is_the_users_mistake(uri: str) -> None:
    with refuses("registry.no_answer", f"{uri}: ", "MLFLOW_TRACKING_URI"):
        Registry(uri=uri).champion()
    with refuses("registry.no_answer") as refusal:
        Registry(uri=f"user:secret@{uri}").champion()
    assert "secret" not in str(refusal.value)


def test_nobody_is_the_challenger_before_the_first_release_and_after_it(
    registry: Registry, make_package: MakePackage
) -> None:
    registry.challenge(None)
    assert registry.challenger() is None
    challenged = challenge(make_package("one"), registry)
    assert registry.challenger() == challenged
    for _ in range(2):
        registry.challenge(None)
        assert registry.challenger() is None


def test_released_files_lie_beside_the_database_wherever_it_is_used_from(
    registry: Registry, make_package: MakePackage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers release from clones of their own, which may be deleted."""
    package = make_package("one")
    (tmp_path / "clone").mkdir()
    monkeypatch.chdir(tmp_path / "clone")
    promote(package, lambda candidate, champion: None, Registry(uri=f"sqlite:///{tmp_path / 'mlflow.db'}"))
    champion = registry.champion()
    assert champion is not None
    assert champion.source.startswith((tmp_path / "mlartifacts").as_uri())
    assert not any((tmp_path / "clone").iterdir())


@pytest.mark.parametrize("tag", ["../../elsewhere", "/tmp", "", "0123456789ab/..", "g" * 12])
def test_no_tag_of_a_server_names_a_folder_of_its_own_choice(tag: str, registry: Registry) -> None:
    entry = Registered(3, tag, datetime.now(UTC), champion=True, source="mlflow-artifacts:/1/2/package")
    with refuses("registry.bad_version_tag", "package_version", repr(tag)):
        registry.folder(entry)
