"""The model that comes with Plumbline."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from plumbline.core.errors import InputError
from plumbline.export.package import open_package, verify_package
from plumbline.model.diagnosis import load_diagnosis
from plumbline.model.network import spec_of
from plumbline.model.spec import new_spec
from plumbline.params import Compress, Model, Train, load_params
from plumbline.pretrained import MODEL, PACKAGE
from plumbline.release.resolve import resolve_model
from tests.tiny import run_cli

ROOT = Path(__file__).parents[1]
MAX_BYTES = 7 * 2**19
"""Two thirds of it are the distributions of the training cities, to which a city is compared."""


def test_it_is_whole_small_and_passed_its_gates():
    manifest = verify_package(PACKAGE)
    assert manifest.gate["verdict"] == "pass"
    files = [path for folder in (PACKAGE, MODEL) for path in folder.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= MAX_BYTES
    assert resolve_model("pretrained") == PACKAGE


def test_the_default_run_can_begin_from_it():
    params = load_params(ROOT / "params.yaml")
    assert "pretrained" in params.train.start_from
    network = load_diagnosis(MODEL).network
    assert spec_of(network) == new_spec(params.model, params.prepare.max_points)


def test_it_was_made_from_the_committed_parameters():
    made = load_params(ROOT / "pretrained" / "params.yaml")
    manifest, _ = open_package(PACKAGE)
    assert manifest.prepare == made.prepare
    trained, pruned = (manifest.records[stage]["params"] for stage in ("train", "compress"))
    assert as_of_now(Model, trained["model"]) == made.model
    assert as_of_now(Train, trained["train"]) == as_of_now(Train, pruned["train"]) == made.train
    assert as_of_now(Compress, pruned["compress"]) == made.compress


def as_of_now(kind, recorded):
    """Read a recorded section: what can be asked for since then has its default, what no longer can is left out."""
    return kind.model_validate({name: value for name, value in recorded.items() if name in kind.model_fields})


def test_predict_uses_it_unless_told_otherwise(tmp_path):
    city = ROOT / "tests/fixtures/cases/base"
    points = [word for name in ("asc.csv", "des.csv") for word in ("--points", city / name)]
    out = tmp_path / "p.csv"
    ended = run_cli("predict", *points, "--buildings", city / "fp.gpkg", "--output", out, cwd=tmp_path)
    assert ended.code == 0, ended.err
    table = pd.read_csv(out)
    assert set(table["model_version"].dropna()) == {verify_package(PACKAGE).version}
    judged = table[table["status"] == "ok"]
    assert len(judged)
    assert np.isfinite(judged[["p_ne", "severity_permille", "severity_low", "severity_high"]]).all().all()


def test_asking_for_a_champion_makes_no_registry(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(InputError, match=f"no registry at sqlite:///{tmp_path}/mlflow.db. Run in the project's folder"):
        resolve_model("champion")
    assert not list(tmp_path.iterdir())
