"""The stage `package`: what a gate refused is not written, and evidence belongs to what it was measured on."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest
import yaml

from plumbline.core.files import read_json, sha256_file, sha256_folder, write_json
from plumbline.export.package import PREDICTIONS, open_package, origin_of, verify_package
from plumbline.release.package import FILES
from tests.tiny import PARAMS, run_cli

INPUTS = ("prepare", "export", "validate", "gate", "approve")
RECORDED = ("train", "compress")


@pytest.fixture
def project(tiny, tmp_path, monkeypatch):
    """A project of the test's own, before the stage `package`.

    The graph of the answers, which takes seconds to export, is the tiny run's: it is made from the same.
    """

    def export(limits, category_share, path, opset):
        assert (limits, opset) == (tiny.params.prepare, tiny.params.export.opset)
        assert list(category_share) == list(verify_package(tiny.data("package")).category_share)
        shutil.copy(tiny.data("package") / PREDICTIONS, path)

    monkeypatch.setattr("plumbline.release.package.export_predictions", export)
    return tiny.copy(tmp_path / "project", *INPUTS, *RECORDED)


def test_the_package_is_what_was_validated(tiny):
    manifest = verify_package(tiny.data("package"))
    for name, source in FILES.items():
        assert manifest.files[name].sha256 == sha256_file(tiny.data("export") / source)
    assert manifest.gate == read_json(tiny.data("gate") / "gate.json")
    metrics = read_json(tiny.data("validate") / "metrics.json")["all"]
    assert manifest.metrics == metrics
    assert manifest.category_share == open_package(tiny.data("package"))[1].category_share
    assert manifest.hashes["test_data"] == sha256_folder(tiny.data("prepare") / "test")
    assert manifest.hashes["data"] == sha256_folder(tiny.data("prepare"))
    assert manifest.prepare == tiny.params.prepare


def test_the_record_of_both_runs_is_in_the_manifest(tiny):
    records = verify_package(tiny.data("package")).records
    for stage in RECORDED:
        record = records[stage]
        assert record == read_json(tiny.data(stage) / "record.json")
        assert len(record["curve"]) == getattr(tiny.params, stage).epochs
        assert record["parameters"]["total"] > 0
        assert {"params", "versions", "metrics"} <= set(record)


def test_the_origin_is_the_key_of_training_and_what_dvcs_lock_says_of_its_evidence(tiny, project, monkeypatch):
    """Neither it nor the parameters of other work give another version."""
    other = {"adapt": {"epochs": 3}, "tidy": {"days": 3.0}}
    (project / "params.yaml").write_text(yaml.safe_dump({**PARAMS, **other}))
    key = read_json(project / "data" / "train" / "record.json")["run_key"]
    outs = [
        {"path": "data/validate", "md5": f"{'a' * 32}.dir"},
        {"path": "metrics/validate/gate.json", "md5": "b" * 32},
    ]
    lock = {"schema": "2.0", "stages": {"prepare": {"cmd": "plumbline prepare"}, "validate": {"outs": outs}}}
    (project / "dvc.lock").write_text(yaml.safe_dump(lock))
    by_hand, by_dvc = {"run_key": key}, {"run_key": key, "lock_md5": f"{'a' * 32}.dir"}
    for expected in (by_hand, by_dvc):
        assert run_cli("package", cwd=project).code == 0
        manifest = verify_package(project / "data" / "package")
        assert origin_of(manifest.records) == expected
        assert manifest.version == verify_package(tiny.data("package")).version
        monkeypatch.setenv("DVC_STAGE", "package")
    card = (project / "data" / "package" / "MODEL_CARD.md").read_text().split("## Origin\n\n")[1]
    assert f"`git log --reverse -S {'a' * 32}.dir -- '*dvc.lock'`" in card


def other_labels(data):
    path = data / "prepare/test/shard-00000/severity.npy"
    np.save(path, np.load(path) + 1)


def other_figures(data):
    path = data / "validate/metrics.json"
    write_json(path, read_json(path) | {"all": {}})


REFUSED = {
    "other test data": (other_labels, 2, "gate.json: .*`plumbline validate`"),
    "other figures": (other_figures, 2, "gate.json: .*`plumbline gate`"),
    "another model": (
        lambda data: shutil.copyfile(data / "export/float32.onnx", data / "export/int8.onnx"),
        3,
        "approval.json: .*int8.onnx",
    ),
    "other weights": (
        lambda data: shutil.copyfile(data / "export/float32.onnx", data / "export/weights.safetensors"),
        3,
        "approval.json: .*weights.safetensors",
    ),
    "no verdict": (lambda data: (data / "gate/gate.json").unlink(), 2, "gate.json: "),
    "no model": (lambda data: (data / "export/int8.onnx").unlink(), 2, "int8.onnx: .*`plumbline export`"),
}


@pytest.mark.parametrize("harm", REFUSED)
def test_what_was_not_approved_as_it_is_makes_no_package(project, harm):
    """Else a model could be released on the approval of another."""
    change, code, places = REFUSED[harm]
    change(project / "data")
    ended = run_cli("package", cwd=project)
    assert ended.code == code
    assert re.search(places, ended.err)
    assert not (project / "data" / "package").exists()
