"""The stage `approve`: what a gate refused goes no further, and what was packaged last stays."""

from __future__ import annotations

import shutil

import pytest
import yaml

from plumbline.core.errors import GateRefused
from plumbline.core.files import read_json, sha256_file, sha256_folder, write_json
from plumbline.release.approval import approve, approved_gate
from plumbline.validate.gates.verdict import require_pass
from tests.refusals import refuses
from tests.tiny import PARAMS, run_cli


@pytest.fixture
def project(tiny, tmp_path):
    """A project of the test's own, before the stage `approve`."""
    return tiny.copy(tmp_path / "project", "export", "validate", "gate")


def test_a_refusal_ends_with_3_names_each_rule_and_leaves_the_last_package(tiny, project):
    rules = [
        {"metric": "severity_mae", "artifact": "int8", "max": -1.0},
        {"metric": "quadrant_accuracy", "artifact": "pruned", "max_drop_vs": "baseline", "margin": -9.0},
        {"metric": "size_bytes", "artifact": "pruned", "max": 1e9},
    ]
    (project / "params.yaml").write_text(yaml.safe_dump({**PARAMS, "gate": {"rules": rules}}))
    assert run_cli("gate", cwd=project).code == 0
    refused = run_cli("approve", cwd=project)
    assert refused.code == 3
    figures = read_json(project / "data" / "validate" / "metrics.json")["all"]
    assert f"severity_mae of int8 on all: {figures['int8']['severity_mae']:.4g} found, at most -1 (max)" in refused.err
    assert "quadrant_accuracy of pruned on all" in refused.err
    assert f"baseline {figures['baseline']['quadrant_accuracy']:.4g}, drop" in refused.err
    assert "at most -9 (margin) allowed" in refused.err
    assert "size_bytes" not in refused.err
    assert "data/package" not in refused.err
    assert not (project / "data" / "approve").exists()
    assert not list((project / "data").glob(".*"))

    shutil.copytree(tiny.data("package"), project / "data" / "package")
    assert "The last good package stays in data/package." in run_cli("approve", cwd=project).err
    assert sha256_folder(project / "data" / "package") == sha256_folder(tiny.data("package"))


@pytest.mark.parametrize(
    "gate", [{}, [], None, "pass", {"verdict": "PASS"}, {"verdict": True}, {"verdict": "fail", "rules": []}], ids=str
)
def test_only_the_word_pass_is_a_pass(gate, tmp_path):
    with refuses("gate.not_passed", "gate.json: ", error=GateRefused):
        require_pass(gate, tmp_path / "gate.json")


def test_a_pass_in_words_that_are_not_known_is_none(tmp_path):
    with refuses("gate.other_format", "gate.json: ", 3):
        require_pass({"format": 3, "verdict": "pass", "rules": []}, tmp_path / "gate.json")


@pytest.mark.parametrize("change", [{"exported": {"sha256": "0" * 64}}, {"exported": {}}], ids=str)
def test_a_verdict_on_other_models_is_refused(project, change):
    path = project / "data" / "gate" / "gate.json"
    write_json(path, read_json(path) | change)
    with refuses("gate.other_evidence", path, "models", "`plumbline validate`"):
        approve(project / "data" / "export", path.parent, project / "data" / "approve")


def test_another_verdict_than_was_approved_is_refused(tiny, project):
    """Also if it is a pass, and an approval written by hand makes no pass of a refusal."""
    path, exported = project / "data" / "gate" / "gate.json", project / "data" / "export"
    approval = shutil.copytree(tiny.data("approve"), project / "data" / "approve") / "approval.json"
    assert approved_gate(approval, path, exported)["verdict"] == "pass"
    write_json(path, read_json(path) | {"rules": []})
    with refuses("approval.changed_since", approval, "gate.json", error=GateRefused):
        approved_gate(approval, path, exported)
    write_json(path, read_json(path) | {"verdict": "fail"})
    write_json(approval, read_json(approval) | {"gate": sha256_file(path)})
    with refuses("gate.not_passed", error=GateRefused):
        approved_gate(approval, path, exported)
    for content in ([], "x", {"gate": "x", "files": None}):
        write_json(approval, content)
        with refuses("approval.unreadable", approval):
            approved_gate(approval, path, exported)


@pytest.mark.parametrize("more", [True, False])
def test_files_that_came_or_went_since_are_refused(tiny, project, more):
    exported = project / "data" / "export"
    (exported / "more").write_text("") if more else (exported / "int8.onnx").unlink()
    with refuses("approval.changed_since", "more" if more else "int8.onnx", error=GateRefused):
        approved_gate(tiny.data("approve") / "approval.json", project / "data" / "gate" / "gate.json", exported)
