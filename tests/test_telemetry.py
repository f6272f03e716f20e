"""No library sends or keeps anything about its user."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import plumbline
from tests.tiny import run_process

CASE = Path(__file__).parent / "fixtures/cases/base"
POINTS = ["--points", CASE / "asc.csv", CASE / "des.csv"]
FAST = ["--steps", "1", "--samples", "2", "--cell", "50"]


@pytest.mark.heavy
@pytest.mark.parametrize(
    "words",
    [
        ["predict", *POINTS, "--buildings", CASE / "fp.gpkg", "--output", "o.gpkg", "--map", "m.html"],
        pytest.param(["restore", *POINTS, "--output", "o.tif", "--picture", "p.png", *FAST], marks=pytest.mark.slow),
    ],
    ids=["predict", "restore"],
)
def test_an_empty_home_stays_empty(words, tmp_path, monkeypatch):
    for name in set(os.environ) - {"PATH"}:  # some of them, CI for one, are reasons of their own to keep quiet
        monkeypatch.delenv(name)
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    monkeypatch.setenv("HOME", str(home))
    ended = run_process(*words, cwd=work)
    assert ended.returncode == 0, ended.stderr
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    "libraries",
    [
        [
            "from huggingface_hub.constants import HF_HUB_DISABLE_TELEMETRY; assert HF_HUB_DISABLE_TELEMETRY",
            "from mlflow.telemetry.utils import is_telemetry_disabled; assert is_telemetry_disabled()",
            "from dvc.analytics import is_enabled; assert not is_enabled()",
        ],
        [
            "from prefect._internal.analytics.enabled import is_telemetry_enabled; assert not is_telemetry_enabled()",
            "from prefect.settings import get_current_settings as get; assert not get().server.analytics_enabled",
        ],
    ],
    ids=["Hugging Face, MLflow, DVC", "Prefect"],
)
@pytest.mark.heavy
def test_telemetry_is_off(libraries, tmp_path):
    source = str(Path(plumbline.__file__).parents[1])
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": source}
    code = "\n".join(["import plumbline", *libraries])
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, check=True)
