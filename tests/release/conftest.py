"""A real registry on SQLite in a folder of the test's own, and small packages with real hashes."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from plumbline.release.promotion import promote
from plumbline.release.registry import Registry
from plumbline.release.signature import PASSWORD
from tests.tiny import empty_registry
from tests.words import make_package as write_words_package

MakePackage = Callable[..., Path]
PLACES = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)
"""Columns of MLflow's database that hold the folder of the files."""


@pytest.fixture(scope="session")
def template_db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return empty_registry(tmp_path_factory)


@pytest.fixture(scope="session")
def histories(template_db: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Registries after one to five promotions, of packages with these words, in folders of these numbers."""
    place = tmp_path_factory.mktemp("histories")
    root = place / "all"
    root.mkdir()
    shutil.copy(template_db, root / "mlflow.db")
    with contextlib.chdir(root), mock.patch.dict(os.environ):
        os.environ.pop("MLFLOW_TRACKING_URI", None)
        for count, words in enumerate(("one", "two", "three", "four", "five"), start=1):
            promote(write_words_package(root, words), lambda *_: None)
            shutil.copytree(root, place / str(count))
    return place


@pytest.fixture
def registry(
    request: pytest.FixtureRequest, template_db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Registry:
    """A registry in the working directory of the test: empty, or after so many promotions."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    if count := getattr(request, "param", 0):
        histories = request.getfixturevalue("histories")
        shutil.copytree(histories / str(count), tmp_path, dirs_exist_ok=True)
        with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database, database:
            for table, column in PLACES:
                places = (str(histories / "all"), str(tmp_path))
                database.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", places)
    else:
        shutil.copy(template_db, tmp_path / "mlflow.db")
    return Registry()


def after(promotions: int) -> pytest.MarkDecorator:
    """Let the registry of a test have so many versions, each the champion in its turn."""
    return pytest.mark.parametrize("registry", [promotions], indirect=True)


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
