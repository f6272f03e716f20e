"""A delivery that is unlike the training data lends its points to the pipeline, or leaves no trace in it."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from prefect.states import Completed, Failed

from flows.retrain import retrain
from plumbline.core.errors import InputError
from plumbline.core.files import sha256_folder
from tests.flows.conftest import ROOT
from tests.serve.score.conftest import PLACE, Town
from tests.tiny import Tiny


@pytest.fixture
def project(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Town:
    """A project with a place for deliveries, and what was borrowed before."""
    town = Town(tiny, tmp_path)
    town.settings(drift={"min_buildings": 15})
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    shutil.copytree(ROOT / "data/borrowed", tmp_path / "data/borrowed")
    return town


def ended(place: str, result: str) -> tuple[str, str]:
    state = retrain(place, result, return_state=True)
    return state.type.value, state.message


@pytest.mark.slow
def test_what_is_lent_stays_where_the_run_completes_and_else_everything_is_put_back(
    project: Town, harness: None, monkeypatch: pytest.MonkeyPatch
):
    project.deliver("noisy", noise_mm=40.0)
    assert project.score().code == 0
    (result,) = project.results().values()
    borrowed = sha256_folder(Path("data/borrowed"))
    for end in (Failed(message="approve refused"), ValueError("nobody thought of this"), SystemExit(143)):

        def run_stages(dask: str | None, end: Any = end) -> Any:
            assert (Path("data/borrowed") / PLACE).is_dir()
            if isinstance(end, BaseException):
                raise end
            return end

        monkeypatch.setattr("flows.retrain.run_stages", run_stages)
        if isinstance(end, BaseException):
            with pytest.raises(type(end)):
                retrain(PLACE, result.name)
        else:
            assert ended(PLACE, result.name) == ("FAILED", "approve refused")
        assert sha256_folder(Path("data/borrowed")) == borrowed

    monkeypatch.setattr("flows.retrain.run_stages", lambda _: Completed(message="recomputed: train"))
    told = f"{PLACE} lends its points; commit data/borrowed/{PLACE} and {PLACE}.yaml. recomputed: train"
    assert ended(PLACE, result.name) == ("COMPLETED", told)
    entry = yaml.safe_load(Path(f"data/borrowed/{PLACE}.yaml").read_text())
    assert (entry["folder"], entry["band"]) == (f"data/borrowed/{PLACE}", "C")

    # What was judged has changed since, or there is no such result.
    assert ended(PLACE, "nothing")[0] == "FAILED"
    (project.source / PLACE / "noisy").joinpath(next(iter(project.products))).write_text("other")
    kind, said = ended(PLACE, result.name)
    assert (kind, "not the file that" in said) == ("FAILED", True)
    assert not list(Path(".plumbline/lent").iterdir())


@pytest.mark.parametrize(
    ("end", "name", "done"),
    [
        (Completed(message="recomputed: train"), "Completed", "keep_lent"),
        (Failed(message="approve refused"), "Failed", "take_back"),
        (SystemExit(143), "", "take_back"),
        (InputError("rows.csv: no such file", key="file.missing"), "BadInput", "take_back"),
    ],
    ids=["completed", "refused", "ended", "bad input"],
)
def test_points_stay_lent_if_the_run_completes(
    end: Any, name: str, done: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    calls: list[tuple[str, str]] = []

    def run_stages(dask: str | None) -> Any:
        if isinstance(end, BaseException):
            raise end
        return end

    monkeypatch.setattr("flows.retrain.get_run_logger", logging.getLogger)
    monkeypatch.setattr("flows.retrain.lend", lambda place, result: f"{place}_{result}")
    monkeypatch.setattr("flows.retrain.run_stages", run_stages)
    for call in ("take_back", "keep_lent"):
        monkeypatch.setattr(f"flows.retrain.{call}", lambda city, call=call: calls.append((call, city)))
    if name:
        assert retrain.fn("town", "a").name == name
    else:
        with pytest.raises(type(end)):
            retrain.fn("town", "a")
    assert calls == [(done, "town_a")]


def test_what_cannot_be_lent_is_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("flows.retrain.get_run_logger", logging.getLogger)
    monkeypatch.setattr("flows.retrain.run_stages", lambda _: pytest.fail("nothing was lent"))
    refusal = InputError("a.csv: not the file that it was", key="delivery.other_file")
    monkeypatch.setattr("flows.retrain.lend", Mock(side_effect=refusal))
    state = retrain.fn("town", "a")
    assert (state.name, state.message) == ("BadInput", str(refusal))
