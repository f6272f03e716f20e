"""The stage `gate`: a verdict on what was measured, whatever it is, without a model."""

import pytest
import yaml

from plumbline.core.files import read_json, sha256_folder
from plumbline.prepare.features.shards import load_shards
from tests.tiny import PARAMS, run_cli


@pytest.fixture
def project(tiny, tmp_path):
    """A project of the test's own, which has nothing but what the stage `validate` wrote."""
    return tiny.copy(tmp_path / "project", "validate")


def judge(project, *rules):
    """Run the stage with these rules only."""
    (project / "params.yaml").write_text(yaml.safe_dump({**PARAMS, "gate": {"rules": list(rules)}}))
    return run_cli("gate", cwd=project)


def rule(**changed):
    return {"metric": "severity_mae", "artifact": "int8", **changed}


def test_the_verdict_of_a_pass(tiny):
    gate = read_json(tiny.data("gate") / "gate.json")
    assert gate["verdict"] == "pass"
    assert len(gate["rules"]) == 7
    assert [left["metric"] for left in gate["left_for_promotion"]] == ["severity_mae", "quadrant_accuracy"]
    assert all(result["passed"] and result["value"] is not None for result in gate["rules"])
    assert gate["test_data"]["sha256"] == sha256_folder(tiny.data("prepare") / "test")
    assert gate["test_data"]["buildings"] == len(load_shards(tiny.data("prepare") / "test"))
    assert gate["exported"]["sha256"] == sha256_folder(tiny.data("export"))
    assert gate["validated"]["sha256"] == sha256_folder(tiny.data("validate"))


def test_the_evidence_of_validate_is_all_that_a_verdict_needs(tiny, project):
    assert run_cli("gate", cwd=project).code == 0
    assert sha256_folder(project / "data" / "gate") == sha256_folder(tiny.data("gate"))


def test_a_comparison_says_reference_bound_and_margin(tiny):
    (result,) = (result for result in read_json(tiny.data("gate") / "gate.json")["rules"] if "margin" in result)
    figures = read_json(tiny.data("validate") / "metrics.json")["all"]
    assert result["reference"] == pytest.approx(figures["baseline"]["severity_mae"])
    assert result["difference"] == pytest.approx(result["value"] - result["reference"])
    assert result["difference"] < result["drop_bound"] < result["difference"] + 1
    assert (result["margin"], result["confidence"]) == (100.0, 0.95)


def test_a_failed_gate_is_a_result_and_ends_with_0(project):
    ended = judge(project, rule(max=-1.0), rule(metric="quadrant_accuracy", min=1.5), rule(max=1000.0))
    assert ended.code == 0
    gate = read_json(project / "data" / "gate" / "gate.json")
    assert gate["verdict"] == "fail"
    assert [result["passed"] for result in gate["rules"]] == [False, False, True]
    assert "gate: fail, 1 of 3 rules met" in ended.err
    assert "not met: severity_mae of int8 on all" in ended.err
    assert "at least 1.5" in ended.err
    assert judge(project, rule(max_drop_vs="champion", margin=100.0)).code == 0  # left for the promotion
    assert read_json(project / "data" / "gate" / "gate.json")["verdict"] == "fail"


def test_a_misspelt_city_is_refused_before_any_work(project):
    (project / "data" / "raw" / "c_band").mkdir(parents=True)
    (project / "params.yaml").write_text(
        yaml.safe_dump({**PARAMS, "gate": {"rules": [rule(slice="city:c_bond", max=100.0)]}})
    )
    for stage in ("ingest", "gate"):
        ended = run_cli(stage, cwd=project)
        assert ended.code == 2
        assert "params.yaml: gate.rules.0.slice: 'city:c_bond'" in ended.err
        assert "city:c_band" in ended.err
        assert not (project / "data" / stage).exists()


@pytest.mark.parametrize("missing", ["answers.npz", "figures.json"])
def test_missing_evidence_is_named(project, missing):
    (project / "data" / "validate" / missing).unlink()
    ended = run_cli("gate", cwd=project)
    assert ended.code == 2
    assert f"{missing}: " in ended.err
    assert not (project / "data" / "gate").exists()
