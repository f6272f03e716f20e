"""Candidate against champion: the same test buildings, the same ruler."""

from __future__ import annotations

import itertools
import logging
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from plumbline.core.errors import GateRefused
from plumbline.core.files import read_json
from plumbline.export.package import MANIFEST, open_package, verify_package, write_package
from plumbline.export.stage import ARTIFACTS
from plumbline.params import parse_params
from plumbline.prepare.features.shards import load_shards
from plumbline.release import compare
from plumbline.release.promotion import promote
from plumbline.release.registry import EVIDENCE
from plumbline.validate.metrics import accuracy_figures
from plumbline.validate.stage import as_judged
from tests.refusals import refuses, warning_keys
from tests.tiny import PARAMS

OUT = Path("release")
ABOUT = ("name", "default_model", "category_share", "prepare", "hashes", "metrics", "gate")
HEAD = "network.heads.quadrant_head."


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """Where the evidence is written."""
    monkeypatch.chdir(tmp_path)


def compare_with_champion(candidate, champion, prepared, params):
    return compare.compare_with_champion(candidate, champion, prepared, params, OUT)


@pytest.fixture(scope="module")
def held_out(tiny):
    return load_shards(tiny.data("prepare") / "test")


def with_quadrants_named(tiny, out, order):
    """The tiny run's package whose pruned model says quadrant `order[i]` where it said i."""

    def moved(head):
        result = np.empty_like(head)
        result[list(order)] = head
        return result

    return with_head(tiny, out, HEAD, moved)


def with_head(tiny, out, name, changed_to):
    """The tiny run's package, the weights of one head of its pruned model changed."""
    source, changed = tiny.data("package"), out.with_suffix(".onnx")
    model = onnx.load(source / "model.onnx")
    for tensor in model.graph.initializer:
        if tensor.name.startswith(name):
            tensor.CopyFrom(numpy_helper.from_array(changed_to(numpy_helper.to_array(tensor)), tensor.name))
    onnx.save(model, changed)
    manifest = read_json(source / MANIFEST)
    files = {name: source / name for name in manifest["files"] if name != "MODEL_CARD.md"}
    about = {key: manifest[key] for key in ABOUT}
    write_package({**files, "model.onnx": changed}, about, "A card.", out)
    return out


def accuracy(package, held_out):
    model = open_package(package)[1]
    answers = as_judged(model.answer(held_out), model.category_share, held_out)
    return accuracy_figures(answers, np.asarray(held_out.quadrant), np.asarray(held_out.severity))["quadrant_accuracy"]


@pytest.fixture(scope="module")
def good_and_spoiled(tiny, held_out, tmp_path_factory):
    """Two packages with one network: one names its quadrants as well as can be, the other as badly."""
    said = open_package(tiny.data("package"))[1].answer(held_out).quadrant_probability.argmax(1)
    true = np.asarray(held_out.quadrant)
    orders = sorted(
        itertools.permutations(range(4)), key=lambda order: (np.array(order)[said] == true)[true >= 0].mean()
    )
    return tuple(
        with_quadrants_named(tiny, tmp_path_factory.mktemp(name) / "package", order)
        for name, order in (("good", orders[-1]), ("spoiled", orders[0]))
    )


def with_room(params):
    """The same rules, with room for what chance makes of seventeen test buildings between two networks."""
    gates = [
        gate.model_copy(update={"margin": 0.4}) if gate.max_drop_vs == "champion" else gate
        for gate in params.gate.rules
    ]
    return params.model_copy(update={"gate": params.gate.model_copy(update={"rules": gates})})


def test_a_spoiled_candidate_is_refused_by_name(tiny, good_and_spoiled, held_out):
    good, spoiled = good_and_spoiled
    better, worse = accuracy(good, held_out), accuracy(spoiled, held_out)
    assert better > worse + 0.1
    champion = read_json(good / MANIFEST)["version"]
    figures = [f"{number:.4g}" for number in (worse, better, better - worse)]
    places = (spoiled, champion, "quadrant_accuracy of pruned on all", *figures, "0.05", OUT / "report.html")
    with refuses("champion.rule_failed", *places, error=GateRefused) as refusal:
        compare_with_champion(spoiled, good, tiny.data("prepare"), tiny.params)
    assert "severity_mae" not in str(refusal.value)
    content = read_json(OUT / "report.json")
    assert (content["verdict"], content["champion"]) == ("fail", champion)
    assert not content["rules"][0]["passed"]


def test_a_champion_that_says_no_numbers_is_no_reason_to_pass_and_the_evidence_is_written(tiny, tmp_path):
    broken = with_head(tiny, tmp_path / "broken", "network.heads.severity_head.", lambda head: head * np.float32("nan"))
    with refuses("champion.rule_failed", "no figure", error=GateRefused):
        compare_with_champion(tiny.data("package"), broken, tiny.data("prepare"), tiny.params)
    content = read_json(OUT / "report.json")
    assert content["verdict"] == "fail"
    assert "champion" not in content["metrics"]["severity_mae"]


def test_the_report_of_a_promotion_has_the_champion_beside_the_candidate(tiny, good_and_spoiled, held_out, registry):
    """A real champion, from the registry's own copy; and its evidence goes on record there."""
    good, spoiled = good_and_spoiled
    promote(spoiled, None)
    former = registry.champion()
    params = with_room(tiny.params)
    done = promote(good, lambda *both: compare_with_champion(*both, tiny.data("prepare"), params))
    assert done.former == former
    content = read_json(OUT / "report.json")
    assert content["champion"] == former.version == verify_package(spoiled).version
    assert content["contenders"] == [*ARTIFACTS, "baseline", "champion"]
    metrics = content["metrics"]
    for name, package in (("champion", spoiled), ("pruned", good)):
        one = metrics["quadrant_accuracy"][name]
        assert one["value"] == pytest.approx(accuracy(package, held_out))
        assert one["low"] <= one["value"] <= one["high"]
    assert "low" not in metrics["severity_mae"]["float32"]  # it is in no package: its figure is the manifest's
    manifest = verify_package(good)
    assert metrics["severity_mae"]["float32"]["value"] == manifest.metrics["float32"]["severity_mae"]
    assert content["costs"]["champion"]["size_bytes"] == (spoiled / "model.onnx").stat().st_size
    (compared,) = (
        rule
        for rule in content["rules"]
        if rule["kind"] == "max_drop_vs champion" and rule["metric"] == "quadrant_accuracy"
    )
    assert compared["drop_bound"] == -content["from_reference"]["pruned"]["quadrant_accuracy"][0]
    assert [rule["text"] for rule in manifest.gate["rules"]] == [
        rule["text"] for rule in content["rules"] if rule["kind"] != "max_drop_vs champion"
    ]
    gate = read_json(OUT / "gate.json")
    assert (gate["verdict"], gate["candidate"], gate["champion"]) == ("pass", manifest.version, former.version)
    for name in ("report.html", "MODEL_CARD.md"):
        text = (OUT / name).read_text(encoding="utf-8")
        assert f"champion is version {former.version}" in text
        assert "Less champion" in text or "Less `champion`" in text
    client = registry.server.client
    run = client.get_model_version("plumbline", str(done.champion.number)).run_id
    names = {Path(item.path).name for item in client.list_artifacts(run, EVIDENCE)}
    assert names == {"gate.json", "report.json", "report.html", "MODEL_CARD.md"}


def test_other_test_data_are_refused(tiny, tmp_path):
    shutil.copytree(tiny.data("prepare") / "tune", tmp_path / "prepare" / "test")
    with refuses("package.other_test_data", tmp_path / "prepare" / "test"):
        compare_with_champion(tiny.data("package"), tiny.data("package"), tmp_path / "prepare", tiny.params)


def repacked(tiny, out, **changed):
    """The tiny run's package with another manifest."""
    source = tiny.data("package")
    manifest = read_json(source / MANIFEST) | changed
    files = {name: source / name for name in manifest["files"] if name != "MODEL_CARD.md"}
    write_package(files, {key: manifest[key] for key in ABOUT}, "A card.", out)
    return out


def test_a_champion_of_other_test_data_is_run_on_those_of_the_candidate(tiny, tmp_path, caplog):
    hashes = read_json(tiny.data("package") / MANIFEST)["hashes"]
    champion = repacked(tiny, tmp_path / "champion", hashes={**hashes, "test_data": "0" * 64})
    with caplog.at_level(logging.INFO, "plumbline"):
        compare_with_champion(tiny.data("package"), champion, tiny.data("prepare"), tiny.params)
    assert warning_keys(caplog) == ["champion.other_test_data"]
    assert sum("met champion" in line and "drop 0 and" in line for line in caplog.messages) == 1  # of the same network


def test_a_champion_that_takes_fewer_scatterers_is_named(tiny, tmp_path):
    prepare = read_json(tiny.data("package") / MANIFEST)["prepare"]
    champion = repacked(tiny, tmp_path / "champion", prepare={**prepare, "max_points": 8})
    with refuses("champion.too_many_scatterers", "prepare.max_points 8"):
        compare_with_champion(tiny.data("package"), champion, tiny.data("prepare"), tiny.params)


def test_without_a_rule_the_champion_is_replaced_with_a_warning(tiny, good_and_spoiled, caplog):
    good, spoiled = good_and_spoiled
    rule = {"metric": "severity_mae", "artifact": "int8", "max": 1.0}
    with caplog.at_level(logging.WARNING, "plumbline"):
        params = parse_params({**PARAMS, "gate": {"rules": [rule]}})
        compare_with_champion(spoiled, good, tiny.data("prepare"), params)
    assert warning_keys(caplog) == ["champion.not_compared"]
