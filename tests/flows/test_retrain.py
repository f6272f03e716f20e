"""From a delivery that is unlike the training data to a released model, or to none: the real stages, tiny."""

from __future__ import annotations

import json
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prefect.settings import get_current_settings

from flows.retrain import retrain
from flows.score import score
from plumbline.core.files import sha256_folder
from plumbline.release.registry import Registry
from tests.flows.conftest import ROOT
from tests.serve.score.conftest import PLACE, Town
from tests.tiny import PARAMS, Tiny, run_cli
from tests.waiting import PATIENCE_S, until

PASSED = [{"metric": "severity_mae", "artifact": "int8", "max": 100.0}]
REFUSED = [{"metric": "severity_mae", "artifact": "int8", "max": 0.0}]


@pytest.fixture
def project(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Town:
    """A whole project with a delivery that has drifted; its stages are made as far as they are in `tiny`."""
    town = Town(tiny, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SHELL", raising=False)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "src"))  # as a worker's: stages run their checkout's code alone
    ignore = shutil.ignore_patterns("__pycache__", "cache", "tmp", "*.pyc")
    for name in ("src", ".dvc", "data/raw", "data/borrowed"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignore)
    for name in ("dvc.yaml", ".gitignore", ".dvcignore"):
        shutil.copy(ROOT / name, tmp_path / name)
    subprocess.run(["git", "init", "--quiet"], check=True)
    settings(town, PASSED)
    return town


def settings(town: Town, gates: list[dict[str, object]]) -> None:
    content = PARAMS | {
        "prepare": {**PARAMS["prepare"], "buffer_m": 2.0, "min_points": 5, "max_points": 128},  # DVC looks for them
        "gate": {"rules": gates},
        "adapt": {},
        "score": {"settle_s": 0, "drift": {"min_buildings": 15}},
    }
    (town.folder / "params.yaml").write_text(yaml.safe_dump(content))


def ended(place: str, result: str) -> tuple[str, str]:
    state = retrain(place, result, return_state=True)
    return state.type.value, state.message


@pytest.mark.chaos
@pytest.mark.slow
def test_what_is_lent_is_trained_on_and_released_and_a_refusal_puts_everything_back(project: Town, harness: None):
    project.deliver("noisy", noise_mm=40.0)
    assert project.score().code == 0
    (result,) = project.results().values()
    assert json.loads((result / "manifest.json").read_text())["drift"] == "drift"

    # A gate that refuses: nothing was released, and the cities are those of before.
    settings(project, REFUSED)
    borrowed = sha256_folder(Path("data/borrowed"))
    kind, said = ended(PLACE, result.name)
    assert kind == "FAILED", said
    assert said.startswith("approve refused: severity_mae of int8")
    assert Registry().champion() is None
    assert sha256_folder(Path("data/borrowed")) == borrowed

    settings(project, PASSED)
    kind, said = ended(PLACE, result.name)
    assert kind == "COMPLETED", said
    assert said.startswith(f"{PLACE} lends its points; commit data/borrowed/{PLACE} and {PLACE}.yaml.")
    champion = Registry().champion()
    assert champion is not None
    entry = yaml.safe_load(Path(f"data/borrowed/{PLACE}.yaml").read_text())
    assert (entry["folder"], entry["band"]) == (f"data/borrowed/{PLACE}", "C")
    reference = json.loads(Path("data/package/reference.json").read_text())
    assert PLACE in reference["cities"]

    # The same kind of points again is no news for the champion that has learned from them.
    project.deliver("noisy_again", noise_mm=41.0)
    again = run_cli("score", cwd=project.folder)
    assert again.code == 0, again.err
    told = json.loads((project.results()["noisy_again"] / "drift.json").read_text())
    assert told["verdict"] != "drift", told["reasons"]
    assert {one["nearest"] for name, one in told["features"].items() if "noise" in name} == {PLACE}


@pytest.mark.slow
@pytest.mark.parametrize("ends", [ValueError("nobody thought of this"), SystemExit(143)], ids=["bug", "ended"])
def test_a_run_that_breaks_off_puts_everything_back(
    project: Town, harness: None, monkeypatch: pytest.MonkeyPatch, ends: BaseException
):
    project.deliver("noisy", noise_mm=40.0)
    assert project.score().code == 0
    (result,) = project.results().values()
    borrowed = sha256_folder(Path("data/borrowed"))

    def break_off(dask: str | None) -> None:
        assert (Path("data/borrowed") / PLACE).is_dir()
        raise ends

    monkeypatch.setattr("flows.retrain.run_stages", break_off)
    with pytest.raises(type(ends)):
        retrain(PLACE, result.name)
    assert sha256_folder(Path("data/borrowed")) == borrowed


def test_what_cannot_be_lent_is_said(project: Town, harness: None):
    folder = project.deliver("noisy", noise_mm=40.0)
    assert project.score().code == 0
    (result,) = project.results().values()
    next(folder.glob("*.csv")).write_text("other")
    kind, said = ended(PLACE, result.name)
    assert kind == "FAILED"
    assert "not the file that" in said
    assert ended(PLACE, "nothing")[0] == "FAILED"
    assert not Path(".plumbline/lent").exists() or not list(Path(".plumbline/lent").iterdir())


@pytest.mark.slow
def test_a_delivery_that_drifted_calls_for_training_once_and_another_does_not(project: Town, harness: None):
    began = datetime.now(UTC).isoformat()  # other tests tell the same server of drift, too
    project.deliver("plain")
    project.deliver("noisy", noise_mm=40.0)
    assert project.score().code == 0
    told = {name: json.loads((path / "drift.json").read_text())["verdict"] for name, path in project.results().items()}
    assert told == {"plain": "none", "noisy": "drift"}
    api = str(get_current_settings().api.url)
    for _ in range(2):
        score(return_state=True)
    wanted = {"filter": {"event": {"name": ["plumbline.drift"]}, "occurred": {"since": began}}}

    def told() -> list[dict[str, Any]]:
        answer = httpx.post(f"{api}/events/filter", json=wanted, timeout=PATIENCE_S)
        return answer.raise_for_status().json()["events"]

    (event,) = until(told, "an event of drift", pause_s=0.5)
    assert event["resource"]["prefect.resource.id"] == f"plumbline.place.{PLACE}"
    assert event["payload"]["result"] == project.results()["noisy"].name
    assert any("log_noise" in reason for reason in event["payload"]["reasons"])
