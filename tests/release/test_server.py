"""The registry on a real MLflow server as it is by default: files go through the server, and none lie here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from plumbline.core.errors import SignatureRefused
from plumbline.export.package import verify_package
from plumbline.params import Tidy
from plumbline.release.promotion import promote, rollback
from plumbline.release.registry import Registry
from plumbline.release.resolve import resolve_model
from plumbline.release.tidy import tidy
from tests.ports import free_port
from tests.refusals import refuses
from tests.release.conftest import MakePackage, Pair
from tests.servers import answering
from tests.words import read_words


def agree(candidate: Path, champion: Path) -> None:
    pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A server on a free port, which `Registry` asks."""
    place, port = tmp_path / "server", free_port()
    place.mkdir()
    uri = f"http://127.0.0.1:{port}"
    command = [
        sys.executable,
        "-m",
        "mlflow",
        "server",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--workers",
        "1",
        "--backend-store-uri",
        f"sqlite:///{place}/mlflow.db",
        "--artifacts-destination",
        str(place / "files"),
    ]
    with answering(command, f"{uri}/health"):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        monkeypatch.chdir(place)
        yield


@pytest.mark.chaos
@pytest.mark.usefixtures("server")
def test_packages_are_promoted_found_rolled_back_and_tidied(make_package: MakePackage, keys: Pair) -> None:
    for words in ("one", "two", "three"):
        promote(make_package(words), agree)
    assert read_words(resolve_model("champion")) == "three"
    assert verify_package(resolve_model("champion")).version == Registry().champion().version
    assert rollback().changed
    assert read_words(resolve_model("champion")) == "two"
    with refuses("signature.missing", error=SignatureRefused):
        resolve_model("champion", verify_key=keys.public)
    promote(make_package("four"), agree, sign_key=keys.private)
    assert read_words(resolve_model("champion", verify_key=keys.public)) == "four"
    assert rollback().changed
    tidy(Tidy(former_champions=1, packages=1), Registry())
    assert read_words(resolve_model("champion")) == "two"
    assert {item.champion for item in Registry().versions()} == {True, False}
