"""The stage `validate`: evidence of every artifact, and none of it invented."""

import csv
import json

import numpy as np
import onnx
import pytest
import torch
import yaml

from plumbline.core.files import read_json
from plumbline.export.stage import ARTIFACTS
from plumbline.model.diagnosis import load_diagnosis, save_diagnosis
from plumbline.prepare.features.shards import load_shards
from plumbline.validate.evidence import GateEvidence, read_answers, write_answers
from plumbline.validate.metrics import JudgedAnswers, accuracy_figures
from plumbline.validate.report.content import write_evidence
from plumbline.validate.stage import as_judged, coverage_gap
from tests.refusals import refuses
from tests.tiny import PARAMS, run_cli

INPUTS = ("prepare", "train", "compress", "export")


@pytest.fixture
def project(tiny, tmp_path):
    """A project of the test's own, before the stage `validate`."""
    return tiny.copy(tmp_path / "project", *INPUTS)


def test_every_artifact_and_the_baseline_have_their_figures(tiny):
    table = read_json(tiny.data("validate") / "metrics.json")
    assert set(table["all"]) == {*ARTIFACTS, "baseline"}
    for name in ARTIFACTS:
        assert table["all"][name]["novelty_change"] < 0.01
        assert table["all"][name]["judged_share"] > 0.4
        assert (
            table["all"][name]["size_ratio"] == table["all"][name]["size_bytes"] / table["all"]["float32"]["size_bytes"]
        )
        for figure in ("parity_probability", "size_bytes", "quadrant_macro_f1", "interval_coverage"):
            assert figure in table["all"][name], (name, figure)
        for figure in ("missed_share", "damage_calibration_2", "damage_calibration_10", "damage_calibration_50"):
            assert 0 <= table["all"][name][figure] <= 1, (name, figure)
    assert "severity_mae" in table["all"]["baseline"]
    assert "size_bytes" not in table["all"]["baseline"]


def test_figures_are_those_of_the_files_that_are_released(tiny):
    from plumbline.export.runtime import OnnxModel

    table = read_json(tiny.data("validate") / "metrics.json")
    test = load_shards(tiny.data("prepare") / "test")
    for name in ARTIFACTS:
        model = OnnxModel(tiny.data("export") / f"{name}.onnx")
        answers = as_judged(model.answer(test), model.category_share, test)
        expected = accuracy_figures(answers, np.asarray(test.quadrant), np.asarray(test.severity))
        assert {key: table["all"][name][key] for key in expected} == pytest.approx(expected, abs=1e-6)


def test_small_slices_have_a_count_and_no_figures(tiny):
    table = read_json(tiny.data("validate") / "metrics.json")
    least = tiny.params.validate_.min_slice
    for part, row in table.items():
        for name, figures in row.items():
            assert ("severity_mae" in figures) == (figures["buildings"] >= least), (part, name)
    assert any(row["int8"]["buildings"] < least for row in table.values())


def test_plot_tables_count_every_building_once(tiny):
    test = load_shards(tiny.data("prepare") / "test")

    def rows(name):
        with (tiny.data("validate") / name).open() as stream:
            return list(csv.DictReader(stream))

    assert len(rows("severity.csv")) == len(rows("category_confusion.csv")) == len(test)
    assert len(rows("quadrant_confusion.csv")) == int((test.quadrant >= 0).sum())
    assert sum(float(row["share"]) for row in rows("reliability.csv")) == pytest.approx(1)


@pytest.mark.parametrize("broken", [3, None], ids=["a few", "all"])
def test_what_is_no_number_counts_as_no_answer(tiny, tmp_path, broken):
    test = load_shards(tiny.data("prepare") / "test")
    severity, probability = np.full(len(test), 1.0), np.full((len(test), 4), 0.25)
    severity[:broken] = np.nan
    probability[np.flatnonzero(test.quadrant >= 0)[:broken]] = np.nan
    everyone = {"int8": JudgedAnswers(probability, severity, severity, severity)}
    evidence = GateEvidence(everyone, np.asarray(test.quadrant), np.asarray(test.severity), {})
    write_evidence(tmp_path, evidence, {}, "int8")
    lines = {path.stem: path.read_text().splitlines()[1:] for path in tmp_path.glob("*.csv")}
    assert len(lines["category_confusion"]) == np.isfinite(severity).sum()
    assert not any(line.endswith(",4") for line in lines["category_confusion"])
    assert len(lines["quadrant_confusion"]) == (test.quadrant >= 0).sum() - (broken or (test.quadrant >= 0).sum())
    assert len(lines["severity"]) == len(test)


def test_every_slice_with_figures_says_what_its_interval_holds(tiny):
    table = read_json(tiny.data("validate") / "metrics.json")
    with (tiny.data("validate") / "intervals.csv").open() as stream:
        rows = {row["slice"]: row for row in csv.DictReader(stream)}
    assert set(rows) == {part for part, row in table.items() if "interval_coverage" in row["int8"]}
    for part, row in rows.items():
        held, count = table[part]["int8"]["interval_coverage"], int(row["buildings"])
        assert float(row["coverage"]) == pytest.approx(held, abs=1e-4)
        assert float(row["standard_error"]) == pytest.approx((held * (1 - held) / count) ** 0.5, abs=1e-4)


def test_the_gap_is_that_of_the_large_slice_that_is_farthest_off():
    def row(buildings, held):
        return {"int8": {"buildings": buildings, "interval_coverage": held}}

    table = {"all": row(900, 0.91), "a": row(200, 0.86), "b": row(199, 0.1), "c": {"int8": {"buildings": 199}}}
    assert coverage_gap(table, "int8", 200) == {"interval_coverage_gap": pytest.approx(0.04)}
    assert coverage_gap(table, "int8", 1000) == {}
    # One answer that is no number takes the figure of its slices away: those may be the farthest.
    assert coverage_gap(table | {"broken": {"int8": {"buildings": 300}}}, "int8", 200) == {}


def test_a_network_that_answers_nan_has_no_figures_and_passes_no_rule(project):
    """Training that diverged is what gates are for: the evidence is written, and nothing of it passes."""
    broken = load_diagnosis(project / "data" / "compress")
    with torch.no_grad():
        broken.network.neck.norm.weight.fill_(float("nan"))
    save_diagnosis(broken, project / "data" / "compress")
    exported = project / "data" / "export"
    model = onnx.load(exported / "pruned.onnx")
    (norm,) = (tensor for tensor in model.graph.initializer if tensor.name.endswith("network.neck.norm.weight"))
    norm.CopyFrom(onnx.numpy_helper.from_array(np.full(norm.dims, np.nan, np.float32), norm.name))
    for name in ("pruned", "int8"):
        onnx.save(model, exported / f"{name}.onnx")
    rules = [
        {"metric": "severity_mae", "artifact": "int8", "max": 1e9},
        {"metric": "parity_probability", "artifact": "pruned", "max": 1e9},
        {"metric": "quadrant_accuracy", "artifact": "int8", "min": 0.0},
        {"metric": "interval_width", "artifact": "int8", "max": 1e9},
    ]
    (project / "params.yaml").write_text(yaml.safe_dump({**PARAMS, "gate": {"rules": rules}}))
    for stage in ("validate", "gate"):
        assert run_cli(stage, cwd=project).code == 0
    gate = read_json(project / "data" / "gate" / "gate.json")
    assert [result["passed"] for result in gate["rules"]] == [False] * 4
    figures = read_json(project / "data" / "validate" / "metrics.json")["all"]
    assert "severity_mae" not in figures["int8"]
    assert "severity_mae" in figures["float32"]


def test_buildings_without_labels_are_refused(project):
    path = project / "data" / "prepare" / "test" / "shard-00000" / "severity.npy"
    severity = np.load(path)
    severity[3] = np.nan
    np.save(path, severity)
    ended = run_cli("validate", cwd=project)
    assert ended.code == 2
    assert "a test building has no label" in ended.err


@pytest.mark.parametrize("missing", ["export/int8.onnx", "prepare/test/shard-00000/slope.npy"])
def test_a_missing_input_is_named(project, missing):
    path = project / "data" / missing
    path.unlink()
    ended = run_cli("validate", cwd=project)
    assert ended.code == 2
    assert str(path.parent.name) in ended.err
    assert "Traceback" not in ended.err
    assert not (project / "data" / "validate").exists()


def test_the_evidence_is_strict_json(tiny):
    for path in (*tiny.data("validate").glob("*.json"), *tiny.data("gate").glob("*.json")):
        text = path.read_text()
        json.loads(text, parse_constant=pytest.fail)  # NaN and Infinity are constants of Python's JSON alone


NOTHING = np.full(3, np.nan)
EVIDENCE = GateEvidence(
    {
        "int8": JudgedAnswers(
            np.full((3, 4), 0.25), np.array([0.1, 2.0, 3.0]), NOTHING, NOTHING, NOTHING, NOTHING, 0.4
        ),
        "baseline": JudgedAnswers(np.eye(4)[:3], np.zeros(3), NOTHING, NOTHING),
    },
    np.array([-1, 2, 3]),
    np.array([0.2, 2.2, 3.1]),
    {"all": np.ones(3, bool), "city:Zürich/a.b": np.array([True, False, True])},
)


def test_all_of_it_is_read_again(tmp_path):
    write_answers(EVIDENCE, tmp_path / "answers.npz")
    evidence = read_answers(tmp_path / "answers.npz")
    np.testing.assert_equal(evidence._asdict(), EVIDENCE._asdict())
    assert isinstance(evidence.everyone["int8"], JudgedAnswers)
    assert evidence.everyone["baseline"].confidence is None


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 and no more"])
def test_what_is_missing_or_damaged_is_named(tmp_path, content):
    path = tmp_path / "answers.npz"
    if content is not None:
        path.write_bytes(content)
    with refuses("file.missing" if content is None else "evidence.unreadable", path, "`plumbline validate`"):
        read_answers(path)
