"""A challenger answers beside the champion: recorded, and seen by nobody else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml

from plumbline.export.package import verify_package
from plumbline.serve.predictions import read_predictions
from plumbline.serve.score.messages import unsent
from tests.serve.score.conftest import PLACE, Town
from tests.tiny import PARAMS, Tiny, run_cli

pytestmark = pytest.mark.slow


@pytest.fixture
def challenger(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model, which asks for more points a building."""
    stages = ("prepare", "train", "compress", "export", "validate", "gate", "approve")
    project = tiny.copy(tmp_path_factory.mktemp("challenger"), *stages)
    (project / "params.yaml").write_text(yaml.safe_dump(PARAMS | {"prepare": {**PARAMS["prepare"], "min_points": 12}}))
    assert run_cli("package", cwd=project).code == 0
    return project / "data" / "package"


def test_its_answers_are_recorded_and_never_published(trained_town: Town, challenger: Path):
    town = trained_town
    town.settings(damage_rates={PLACE: 0.3})
    version, champion = verify_package(challenger).version, verify_package(town.package).version
    assert version != champion
    assert run_cli("release", "promote", town.package, cwd=town.folder).code == 0
    ended = run_cli("release", "challenge", challenger, cwd=town.folder)
    assert ended.err == f"INFO challenger is now {version}\n"
    assert run_cli("release", "challenge", town.package, cwd=town.folder).code == 2  # the champion itself
    town.deliver("one")
    ended = run_cli("score", "--workers", 1, cwd=town.folder)
    assert ended.code == 0, ended.err
    result = town.results()["one"]
    published = read_predictions(result / "predictions.gpkg")
    assert set(published["model_version"]) == {champion}
    assert version not in "".join(path.read_text() for path in result.iterdir() if path.suffix != ".gpkg")

    shadow = town.out / "_shadow" / PLACE / result.name / version
    said = read_predictions(shadow / "predictions.gpkg")
    few = published["n_points"] < 12
    assert few.any()
    assert set(said.loc[few, "status"]) == {"insufficient_points"}
    assert set(said["damage_rate"].dropna()) == set(published["damage_rate"].dropna()) == {0.3}
    record = json.loads((shadow / "shadow.json").read_text())
    assert (record["champion"], record["challenger"]) == (champion, version)
    differences = pd.read_csv(shadow / "differences.csv")
    assert record["differences"]["changed"] == len(differences)
    of_status = differences[differences["what"].str.contains("status")]
    assert len(of_status) == (published["status"] != said["status"]).sum() > 0
    assert set(of_status["status_challenger"]) == {"insufficient_points"}
    assert unsent(town.out, PLACE) == []

    # Whatever becomes of the challenger, the champion's answers are published.
    for path in (town.folder / "mlartifacts").rglob("manifest.json"):
        if json.loads(path.read_text())["version"] == version:
            (path.parent / "model.onnx").unlink()
    shutil.rmtree(shadow)
    town.deliver("two", every=2)
    ended = run_cli("score", "--workers", 1, cwd=town.folder)
    assert ended.code == 0, ended.err
    assert "no answers of the challenger" in ended.err
    assert set(town.results()) == {"one", "two"}
    assert json.loads((town.results()["two"] / "manifest.json").read_text())["compared_with"] == result.name
    assert run_cli("release", "challenge", "--none", cwd=town.folder).code == 0
    assert run_cli("release", "challenge", cwd=town.folder).code == 2
