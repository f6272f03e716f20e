import json
import subprocess
from pathlib import Path

import pytest

from plumbline.core.files import sha256_folder
from plumbline.model.diagnosis import load_diagnosis
from plumbline.params.prepare import SEQUENCES
from plumbline.train.monitor.record import git_commit, hardware
from tests.train.fit.test_trainer import history, run
from tests.train.made import make_params


def git(*arguments):
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    return subprocess.run(["git", *identity, *arguments], check=True, capture_output=True, text=True).stdout.strip()


def test_the_record_says_what_went_in_and_what_came_out(work):
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "first")
    run(epochs=2, freeze=["geometry.*"])
    record = json.loads(Path("out/record.json").read_text())
    params = make_params(epochs=2, freeze=["geometry.*"])
    network = load_diagnosis(Path("out")).network
    # Of attention the key's bias is never trained.
    still = [name for name, _ in network.named_parameters() if name.startswith("geometry.") or "key.bias" in name]
    frozen = sum(network.get_parameter(name).numel() for name in still)
    assert record["data_sha256"] == sha256_folder(Path("data/prepare"))
    prepare = params.prepare.model_dump(include=set(SEQUENCES))
    assert record["params"] == json.loads(
        json.dumps({"model": params.model.model_dump(), "train": params.train.model_dump(), "prepare": prepare})
    )
    assert record["parameters"]["total"] == sum(p.numel() for p in network.parameters())
    assert record["parameters"]["trained"] == record["parameters"]["total"] - frozen
    assert record["curve"] == history()
    best = max(record["curve"], key=lambda row: row["score"])
    assert record["best_epoch"] == best["epoch"]
    assert record["metrics"]["score"] == pytest.approx(best["score"], abs=1e-5)
    (path,) = Path(".plumbline/runs").glob("train-*/record.json")
    place = json.loads(path.read_text())
    assert record.items() <= place.items()
    assert place["git"] == {"commit": git("rev-parse", "HEAD"), "changed": False}
    assert place["hardware"] == hardware()
    assert set(place) - set(record) == {"git", "hardware", "started"}


def test_changed_files_are_told_but_for_those_that_the_pipeline_itself_writes(tmp_path, monkeypatch):
    """Stages before this one have renewed the lock by then."""
    monkeypatch.chdir(tmp_path)
    assert git_commit(tmp_path) is None  # no repository
    git("init", "-q")
    names = ("dvc.lock", "metrics/train.json", "restoration/dvc.lock", "restoration/metrics/train.json")
    for name in ("restoration/params.yaml", *names):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("1")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    for name in names:
        Path(name).write_text("2")
    assert git_commit(Path("restoration"))["changed"] is False
    Path("restoration/params.yaml").write_text("2")
    assert git_commit(tmp_path)["changed"] is True
