"""A real registry on SQLite in a folder of the test's own, and small packages with real hashes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from plumbline.release.registry import Registry
from plumbline.release.signature import PASSWORD
from tests.tiny import empty_registry
from tests.words import make_package as write_words_package

MakePackage = Callable[..., Path]


@pytest.fixture(scope="session")
def template_db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return empty_registry(tmp_path_factory)


@pytest.fixture
def registry(template_db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """An empty registry in the working directory of the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    shutil.copy(template_db, tmp_path / "mlflow.db")
    return Registry()


@pytest.fixture
def make_package(tmp_path: Path) -> MakePackage:
    """Write a package whose model is a file with the given words; see `tests.words.make_package`."""
    return partial(write_words_package, tmp_path)


class Pair:
    """A private and a public key in files."""

    def __init__(self, folder: Path, name: str, key: Any = None, password: bytes | None = None) -> None:
        self.private, self.public = folder / f"{name}.pem", folder / f"{name}.pub.pem"
        made = key or ec.generate_private_key(ec.SECP256R1())
        hidden = BestAvailableEncryption(password) if password else NoEncryption()
        self.private.write_bytes(made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, hidden))
        self.private.chmod(0o600)
        self.public.write_bytes(made.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    monkeypatch.delenv(PASSWORD, raising=False)
    return Pair(tmp_path, "own")
