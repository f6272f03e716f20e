"""Gates of fields: bounds, ratios with their confidence, no figure no pass, and spoiled models that are blocked."""

import shutil

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper
from pydantic import ValidationError
from safetensors.numpy import load_file, save_file

from plumbline.core.files import read_json, sha256_folder, write_json
from plumbline.fields.model.scores import METRICS, ScoreSettings, process_figures, ratio_bound, restore_scenes
from plumbline.fields.model.spread import COMPONENTS, PLACES, read_spread
from plumbline.fields.prepare.conditions import load_scenes
from plumbline.fields.release.gates import evaluate, gate, mean_of, read_scenes
from plumbline.fields.release.validate import validate
from plumbline.params.fields import FieldGate, FieldGates
from tests.refusals import refuses
from tests.tiny import run_cli

COVERED = {"metric": "coverage", "artifact": "float32", "min": 0.8}
RATIO = {"metric": "crps_mm", "artifact": "float32", "max_ratio_to": "gaussian_process", "bound": 1.2}


def params(*rules, least=4):
    return FieldGates(rules=list(rules), min_scenes=least)


def figures(**values):
    """Rows of scenes: each value a list, of which scene n takes the n-th."""
    count = len(next(iter(values.values())))
    return [{**dict.fromkeys(METRICS, 1.0), **{name: own[n] for name, own in values.items()}} for n in range(count)]


def verdict(rule, table, fixed=None, least=4):
    asked = params(rule, least=least)
    found = evaluate(asked.rules, table, fixed or {}, asked)
    assert found["verdict"] == ("pass" if found["rules"][0]["passed"] else "fail")
    return found["verdict"], found["rules"][0]["text"]


@given(st.lists(st.floats(0, 1), min_size=4, max_size=12))
def test_a_mean_is_held_to_its_bound(coverage):
    table = {"all": {"float32": figures(coverage=coverage)}}
    mean = np.mean(coverage)
    assert verdict(COVERED, table)[0] == ("pass" if mean >= 0.8 else "fail")
    assert verdict({"metric": "coverage", "artifact": "float32", "max": 0.8}, table)[0] == (
        "pass" if mean <= 0.8 else "fail"
    )


def test_a_ratio_is_held_by_its_confidence_bound():
    rng = np.random.default_rng(0)
    other = rng.uniform(1, 5, 40)
    for factor, expected in ((0.9, "pass"), (1.19, "fail"), (1.5, "fail")):
        own = factor * other * np.exp(rng.normal(0, 0.3, 40))
        table = {"all": {"float32": figures(crps_mm=own), "gaussian_process": figures(crps_mm=other)}}
        assert verdict(RATIO, table)[0] == expected
    assert ratio_bound([1, 1, 1], [2, 2, 2], 0.95) == pytest.approx(0.5)
    assert ratio_bound(own, other, 0.99) > ratio_bound(own, other, 0.6)


def test_without_a_figure_nothing_passes():
    good = figures(crps_mm=[1.0] * 5, coverage=[0.9] * 5)
    empty = figures(crps_mm=[np.nan] * 5, coverage=[np.nan] * 5)
    few = [*good[:2], *empty[:3]]
    for table in (
        {},
        {"all": {}},
        {"all": {"float32": good[:3]}},  # fewer scenes than needed
        {"all": {"float32": empty, "gaussian_process": empty}},
        {"all": {"float32": few, "gaussian_process": few}},  # fewer with a figure
        {"all": {"float32": figures(crps_mm=[1, 1, 1, 1, np.inf], coverage=[0.9] * 4 + [np.inf])}},
    ):
        for rule in (COVERED, RATIO):
            found, text = verdict(rule, table)
            assert (found, "no figure" in text) == ("fail", True)
    assert verdict(RATIO, {"all": {"float32": good}})[0] == "fail"  # nothing to compare with
    assert verdict(RATIO, {"all": {"float32": good, "gaussian_process": good[:4]}})[0] == "fail"
    # An answer that is no number in one scene is not left out of the mean.
    spoiled = figures(crps_mm=[1, 1, 1, 1, np.inf])
    assert verdict(RATIO, {"all": {"float32": spoiled, "gaussian_process": good}})[0] == "fail"
    size = {"metric": "size_bytes", "artifact": "fp16", "max": 10}
    assert verdict(size, {}, {"fp16": {"size_bytes": 9.0}})[0] == "pass"
    assert verdict(size, {}, {"fp16": {}})[0] == "fail"
    assert evaluate([], {}, {}, params(COVERED))["verdict"] == "fail"
    assert mean_of([], "crps_mm") is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"max": 1.0}, "one of min, max, max_ratio_to"),
        ({"min": None}, "one of min, max, max_ratio_to"),
        ({"bound": 1.0}, "bound goes with max_ratio_to"),
        ({"min": None, "max_ratio_to": "champion"}, "bound goes with"),
        ({"min": None, "max_ratio_to": "champion", "bound": 1.1}, "coverage needs min or max"),
    ],
)
def test_rules_that_cannot_hold_are_refused(change, said):
    with pytest.raises(ValidationError, match=said):
        FieldGate.model_validate(COVERED | change)


class Answering:
    """A denoiser that says the same of every window."""

    def __init__(self, answer):
        self.alphas, self.answer = np.array([0.9, 0.5, 0.1]), answer

    def denoise(self, noisy, step, conditions):
        return np.full_like(noisy, self.answer)


@pytest.fixture(scope="module")
def scenes(tiny_fields):
    return load_scenes(tiny_fields.data("prepare") / "test").of_domain("plain")


def test_a_model_that_adds_nothing_scores_as_the_process(scenes, tiny_fields):
    spread = read_spread(tiny_fields.data("train") / "spread.json")
    spread.scale.weights = spread.scale.bends = [0.0] * len(PLACES)
    for component in spread.components.values():
        component.gain, component.base, component.reach = 1.0, np.log(1.6449), 1.6449
    how = ScoreSettings(2, 3, 1.0, 0, 10.0, 32)
    own, process = (
        restore_scenes(Answering(0.0), spread, scenes, how, "x"),
        process_figures(scenes, spread.farthest_m, how),
    )
    for one, other in zip(own, process, strict=True):
        for name in METRICS:
            assert one[name] == pytest.approx(other[name], rel=0.02, abs=0.02, nan_ok=True)
    no_number = restore_scenes(Answering(np.nan), spread, scenes, how, "x")
    for one, other in zip(no_number, process, strict=True):
        assert np.isnan(one["rmse_mm"]) == np.isnan(other["rmse_mm"])
        assert np.isnan(one["rmse_mm"]) or one["rmse_mm"] == np.inf
    assert mean_of(no_number, "coverage") is None


RULES = {
    "coverage": COVERED,
    "of process": {**RATIO, "metric": "rmse_mm", "bound": 1.3},
    "fp16": {"metric": "parity_mm", "artifact": "fp16", "max": 1.0},
    "adapter": {**RATIO, "slice": "adapter:noise", "max_ratio_to": "base", "bound": 2.0},
}


@pytest.fixture
def unspoiled(tiny_fields, tmp_path):
    """A project whose model is the Gaussian process's equal, and says so."""
    root = tiny_fields.copy(tmp_path / "project", "prepare", "export", "train")
    for path in (root / "data/export/spread.json", root / "data/export/adapters/noise/spread.json"):
        content = read_json(path)
        content["farthest_m"] = 100.0
        content["scale"] |= {"weights": [0.0] * len(PLACES), "bends": [0.0] * len(PLACES)}
        content["components"] = {name: {"gain": 1.0, "base": np.log(8.0), "reach": 8.0} for name in COMPONENTS}
        write_json(path, content)
    return root


def change_weights(root, artifact, name, change):
    path = root / "data" / "export" / f"{artifact}.onnx"
    model = onnx.load(path)
    (tensor,) = [one for one in model.graph.initializer if one.name.startswith(name)]
    values = numpy_helper.to_array(tensor)
    tensor.CopyFrom(numpy_helper.from_array(change(values).astype(values.dtype), tensor.name))
    onnx.save(model, path)


def narrow(root):
    path = root / "data/export/spread.json"
    content = read_json(path)
    for component in content["components"].values():
        component |= {"base": np.log(0.5), "reach": 0.5}
    write_json(path, content)


def drawn(root, artifact="float32"):
    change_weights(root, artifact, "unet.conv_out.weight", lambda w: np.random.default_rng(0).normal(0, 1, w.shape))


def no_number(root):
    change_weights(root, "fp16", "unet.conv_out.weight", lambda w: w * np.nan)


def other_adapter(root):
    """The adapter of another domain, as far as its own can be off."""
    path, rng = root / "data/export/adapters/noise/adapter_model.safetensors", np.random.default_rng(1)
    drawn = {name: values + rng.normal(0, 1.0, values.shape) for name, values in load_file(path).items()}
    save_file({name: values.astype(np.float32) for name, values in drawn.items()}, path)


@pytest.mark.parametrize(
    ("spoil", "blocked"),
    [
        (lambda root: None, set()),
        (narrow, {"coverage"}),
        (drawn, {"of process", "fp16"}),
        (no_number, {"fp16"}),
        (other_adapter, {"adapter"}),
    ],
    ids=["unspoiled", "uncalibrated spread", "weights at random", "no number", "another adapter"],
)
def test_a_spoiled_model_is_blocked_by_its_rule(unspoiled, tiny_fields, spoil, blocked, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spoil(unspoiled)
    content = tiny_fields.params.model_dump(by_alias=True)
    content["validate"] |= {"steps": 1, "samples": 2, "max_scenes": 3}
    content["gate"] |= {"rules": list(RULES.values())}
    given_params = type(tiny_fields.params).model_validate(content)
    data = unspoiled / "data"
    validate(data / "prepare", data / "export", given_params, data / "validate")
    gate(data / "validate", given_params.gate, data / "gate")
    verdict = read_json(data / "gate" / "gate.json")
    failed = {name for name, rule in zip(RULES, verdict["rules"], strict=True) if not rule["passed"]}
    assert blocked <= failed, [rule["text"] for rule in verdict["rules"]]
    if not blocked:
        assert failed == set()
    assert verdict["verdict"] == ("fail" if failed else "pass")


def test_a_figure_of_the_verdict_is_that_of_the_metrics(tiny_fields):
    figures = read_json(tiny_fields.data("validate") / "metrics.json")
    for rule in read_json(tiny_fields.data("gate") / "gate.json")["rules"]:
        assert rule["value"] == figures[rule["slice"]][rule["artifact"]][rule["metric"]]


def test_a_failed_gate_is_not_approved_and_what_was_not_approved_is_not_packaged(tiny_fields, tmp_path):
    root = tiny_fields.copy(tmp_path / "project", "prepare", "export", "train", "validate", "gate", "package")
    path, last = root / "data/gate/gate.json", sha256_folder(root / "data/package")
    passed = read_json(path)
    for change, code, words in (
        ({"verdict": "fail", "rules": [passed["rules"][0] | {"passed": False}]}, 3, "coverage of float32"),
        ({"exported": {"sha256": "0" * 64}}, 2, "measured on other models"),
    ):
        write_json(path, passed | change)
        ended = run_cli("approve", cwd=root)
        assert (ended.code, words in " ".join(ended.err.split())) == (code, True), ended.err
        assert not (root / "data" / "approve").exists()
    for key, words in (("test_data", "measured on other test data"), ("validated", "measured on other figures")):
        write_json(path, passed | {key: {"sha256": "0" * 64}})
        assert run_cli("approve", cwd=root).code == 0
        ended = run_cli("package", cwd=root)
        assert (ended.code, words in " ".join(ended.err.split())) == (2, True), ended.err
    write_json(path, passed)
    assert run_cli("package", cwd=root).code == 3  # another verdict was approved
    assert run_cli("approve", cwd=root).code == 0
    shutil.rmtree(root / "data" / "export" / "adapters")
    assert run_cli("package", cwd=root).code == 3
    assert sha256_folder(root / "data/package") == last


@pytest.mark.parametrize(
    ("content", "key"), [(None, "file.missing"), ("slice,model\nall,fp16\n", "figures.unreadable")]
)
def test_figures_that_are_missing_or_damaged_are_named(tmp_path, content, key):
    if content is not None:
        (tmp_path / "scenes.csv").write_text(content)
    with refuses(key, "scenes.csv"):
        read_scenes(tmp_path / "scenes.csv")
