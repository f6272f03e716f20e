"""What most tests of training share. One thread, as for the model."""

import logging
from pathlib import Path

import pytest

from plumbline.core.console import log
from tests.model.conftest import one_thread
from tests.train.made import save_prepared

__all__ = ["one_thread"]


@pytest.fixture
def work(tmp_path, monkeypatch) -> Path:
    """A project folder of the test's own, with data, and a record that does not answer."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "file:nowhere")
    save_prepared(tmp_path / "data" / "prepare")
    return tmp_path


@pytest.fixture
def said():
    """Messages of the package's log."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(f"{record.levelname} {record.getMessage()}")
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield lines
    log.removeHandler(handler)
    log.setLevel(level)
