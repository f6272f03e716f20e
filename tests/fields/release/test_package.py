"""Packages of fields: what the pipeline leaves, and the comparison with the champion."""

import shutil

import pytest

from plumbline.core.errors import GateRefused, InputError
from plumbline.core.files import read_json, write_json
from plumbline.export.package import write_folder
from plumbline.fields.model.adapter_rules import read_rules
from plumbline.fields.prepare.evidence import Evidence
from plumbline.fields.release.onnx import copy_adapters
from plumbline.fields.release.package import FieldManifest, adapters_in, open_chosen, open_fields, verify_fields
from plumbline.fields.release.validate import compare_fields, package_files
from plumbline.params.fields import RestorationParams
from tests.tiny import run_cli
from tests.tiny_fields import with_rules

ALWAYS = {"figure": "noise", "threshold": 0.0, "gain": 0.1, "scenes": 9}


def test_every_stage_leaves_what_the_next_takes(tiny_fields):
    data = tiny_fields.data
    assert len(list((data("simulate") / "scenes").iterdir())) == 37
    assert sorted(path.name for path in (data("ingest") / "noise-00000").iterdir()) == [
        *("points.parquet", "scene.json", "truth.npz")
    ]
    counts = {name: len(read_json(data("prepare") / name / "scenes.json")) for name in ("train", "tune", "test")}
    assert counts == {"train": 10, "tune": 6, "test": 12}
    adapters = read_json(data("train") / "adapters.json")
    assert set(adapters) == {"noise"}
    assert adapters["noise"]["bytes"] == (data("train") / "adapters/noise.safetensors").stat().st_size
    assert 0 < adapters["noise"]["trained_share"] < 1
    assert adapters["noise"]["shipped"]
    assert adapters["noise"]["ratio_bound"] < tiny_fields.params.adapt.max_ratio
    assert adapters["noise"]["crps_mm_without"] > 0
    assert "rule" in adapters["noise"]
    assert set(read_json(data("export") / "adapters.json")["noise"]) == {"shipped", "reason", "rule"}
    for scene in read_json(data("prepare") / "tune" / "scenes.json"):
        assert all(value >= 0 for value in scene["evidence"].values())
    assert read_json(data("compress") / "metrics.json")["fewest_steps"] in (1, 3)
    assert not (tiny_fields.root / ".plumbline" / "restoration").exists() or not list(
        (tiny_fields.root / ".plumbline" / "restoration").iterdir()
    )


def test_a_package_says_what_it_is(tiny_fields):
    manifest = verify_fields(tiny_fields.package)
    assert manifest.fields == ["up", "east"]
    assert manifest.gate["verdict"] == "pass"
    assert manifest.restore == tiny_fields.params.restore
    assert manifest.prepare == tiny_fields.params.prepare
    assert {"float32", "fp16", "int8", "gaussian_process"} <= set(manifest.metrics)
    assert manifest.records["train"]["metrics"]
    card = (tiny_fields.package / "MODEL_CARD.md").read_text()
    assert "| adapter:noise | base |" in card
    assert "Gates: pass." in card


def test_an_adapter_that_does_not_help_is_left_out_and_its_rules_are_not_asked(tiny_fields, tmp_path):
    root = tiny_fields.copy(tmp_path / "project", "prepare", "train")
    choices = read_json(root / "data/train/adapters.json")
    write_json(root / "data/train/adapters.json", {"noise": choices["noise"] | {"shipped": False, "reason": "no gain"}})
    for stage in ("export", "validate", "gate", "approve", "package"):
        ended = run_cli(stage, cwd=root)
        assert ended.code == 0, ended.err
    for folder in ("export", "package"):
        assert adapters_in(root / "data" / folder) == []
    gate = read_json(root / "data/gate/gate.json")
    left, auto = gate["not_shipped"]
    assert (left["adapter"], left["reason"]) == ("noise", "no gain")
    assert [rule["slice"] for rule in left["rules"]] == ["adapter:noise"]
    assert (auto["adapter"], [rule["slice"] for rule in auto["rules"]]) == ("auto", ["adapter:auto"])
    assert gate["verdict"] == "pass"
    assert not any(rule["slice"].startswith("adapter:") for rule in gate["rules"])
    assert "- not shipped: adapter noise: no gain" in (root / "data/package/MODEL_CARD.md").read_text()
    assert open_fields(root / "data/package").adapters == ()
    with pytest.raises(InputError, match=r"noise: no such adapter in .*; in it: none"):
        open_fields(root / "data/package", ["noise"])

    # Fail closed: the rule is asked where nothing says that training left the adapter out.
    write_json(root / "data/export/adapters.json", {})
    for stage in ("validate", "gate"):
        assert run_cli(stage, cwd=root).code == 0
    gate = read_json(root / "data/gate/gate.json")
    failed = [rule["slice"] for rule in gate["rules"] if not rule["passed"]]
    assert (gate["verdict"], failed, gate["not_shipped"]) == ("fail", ["adapter:noise", "adapter:auto"], [])
    assert run_cli("approve", cwd=root).code == 3


@pytest.mark.parametrize("shipped", [True, False])
def test_rules_of_shipped_adapters_are_exported_and_packaged(tiny_fields, tmp_path, shipped):
    root = tiny_fields.copy(tmp_path / "project", "train", "export")
    path = root / "data/train/adapters.json"
    write_json(path, {"noise": read_json(path)["noise"] | {"shipped": shipped, "rule": ALWAYS}})
    shutil.rmtree(root / "data/export/adapters")
    copy_adapters(root / "data/train", root / "data/export")
    rules = read_rules(root / "data/export/adapters").rules
    assert {name: rule.model_dump() for name, rule in rules.items()} == ({"noise": ALWAYS} if shipped else {})
    assert ("adapters/auto.json" in package_files(root / "data/export")) == shipped


def test_the_evidence_decides_which_adapter_a_package_opens_with(tiny_fields, tmp_path):
    package = with_rules(tiny_fields.package, {"noise": ALWAYS | {"threshold": 0.5}}, tmp_path / "package")
    assert "adapters/auto.json" in verify_fields(package).files
    own = read_json(package / "adapters" / "noise.json")
    for noise, adapters in ((0.4, ()), (0.6, ("noise",))):
        found = open_chosen(package, Evidence(0.0, noise, 1000.0, 0.0))
        assert found.adapters == adapters
        assert (found.spread.model_dump() == own) == bool(adapters)
    write_json(package / "adapters" / "auto.json", {"rules": {}})
    with pytest.raises(InputError, match=r"auto\.json: changed since it was released"):
        open_chosen(package, Evidence(0.0, 1.0, 1000.0, 0.0))


def test_a_candidate_is_compared_with_the_champion(tiny_fields, tmp_path):
    package, prepared = tiny_fields.package, tiny_fields.data("prepare")
    compare_fields(package, package, prepared, tiny_fields.params, tmp_path / "same")
    assert read_json(tmp_path / "same" / "gate.json")["verdict"] == "pass"
    content = tiny_fields.params.model_dump(by_alias=True)
    content["gate"]["rules"][-1] |= {"bound": 0.5}
    strict = RestorationParams.model_validate(content)
    with pytest.raises(GateRefused, match="crps_mm of fp16 on all"):
        compare_fields(package, package, prepared, strict, tmp_path / "worse")
    assert read_json(tmp_path / "worse" / "gate.json")["verdict"] == "fail"
    other = shutil.copytree(prepared, tmp_path / "prepare")
    (other / "test" / "more").write_text("")
    with pytest.raises(InputError, match="not the test data"):
        compare_fields(package, package, other, tiny_fields.params, tmp_path / "none")


def test_a_champion_that_this_version_cannot_run_is_replaced_without_a_comparison(tiny_fields, tmp_path, caplog):
    package, prepared = tiny_fields.package, tiny_fields.data("prepare")
    manifest = read_json(package / "manifest.json")
    content = {key: value for key, value in manifest.items() if key not in ("format", "files", "version", "evidence")}
    files = {name: package / name for name in manifest["files"] if name != "MODEL_CARD.md"}
    spread = read_json(package / "spread.json")
    spread["scale"]["places"] = spread["scale"]["places"][:-1]
    write_json(tmp_path / "spread.json", spread)
    files["spread.json"] = tmp_path / "spread.json"
    write_folder(files, content, "", FieldManifest, tmp_path / "former")
    compare_fields(package, tmp_path / "former", prepared, tiny_fields.params, tmp_path / "out")
    assert read_json(tmp_path / "out" / "gate.json")["verdict"] == "not compared"
    assert "made for other figures of a place" in caplog.text
    (tmp_path / "former" / "model.onnx").write_bytes(b"")
    with pytest.raises(InputError, match=r"model\.onnx"):
        compare_fields(package, tmp_path / "former", prepared, tiny_fields.params, tmp_path / "none")
