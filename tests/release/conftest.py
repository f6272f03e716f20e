"""A real registry on SQLite in a folder of the test's own, and small packages with real hashes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from plumbline.export.package import write_package
from plumbline.params import Prepare
from plumbline.release.registry import Registry
from tests.tiny import empty_registry

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
    """Write a package whose model is a file with the given words."""

    def make(words: str, verdict: str = "pass", **gate: int) -> Path:
        folder = tmp_path / f"package_{words}"
        model = tmp_path / "model.onnx"
        model.write_text(words)
        about = {
            "name": "plumbline",
            "default_model": "model.onnx",
            "prepare": Prepare().model_dump(),
            "hashes": {"data": "d" * 64},
            "metrics": {"int8": {"severity_mae": 0.25}},
            "gate": {"verdict": verdict, **gate},
        }
        write_package({"model.onnx": model}, about, "A card.", folder)
        return folder

    return make
