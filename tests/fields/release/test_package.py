"""Packages of fields: what the pipeline leaves, and the comparison with the champion."""

import shutil

import pytest

from plumbline.core.errors import GateRefused, InputError
from plumbline.core.files import read_json, write_json
from plumbline.export.package import write_folder
from plumbline.fields.release.package import FieldManifest, verify_fields
from plumbline.fields.release.validate import compare_fields, package_files
from plumbline.params.fields import RestorationParams
from tests.refusals import refuses, warned


def test_every_stage_leaves_what_the_next_takes(tiny_fields):
    data = tiny_fields.data
    assert len(list((data("simulate") / "scenes").iterdir())) == 23
    assert sorted(path.name for path in (data("ingest") / "noise-00000").iterdir()) == [
        *("points.parquet", "scene.json", "truth.npz")
    ]
    counts = {name: len(read_json(data("prepare") / name / "scenes.json")) for name in ("train", "tune", "test")}
    assert counts == {"train": 6, "tune": 3, "test": 8}
    adapters = read_json(data("train") / "adapters.json")
    assert set(adapters) == {"noise"}
    assert 0 < adapters["noise"]["trained_share"] < 1
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


def test_an_adapter_that_no_rule_judges_is_not_shipped(tiny_fields, caplog):
    gate, exported = read_json(tiny_fields.data("gate") / "gate.json"), tiny_fields.data("export")
    shipped = "adapters/noise/adapter_config.json"
    assert shipped in package_files(exported, gate)
    others = [rule for rule in gate["rules"] if rule["slice"] != "adapter:noise"]
    size = {"metric": "size_bytes", "slice": "adapter:noise"}  # says nothing of the adapter
    assert shipped not in package_files(exported, {"rules": [*others, size]})
    assert warned(caplog, "adapter.not_judged", "gate.rules", "adapter:noise")


def test_a_candidate_is_compared_with_the_champion(tiny_fields, tmp_path):
    package, prepared = tiny_fields.package, tiny_fields.data("prepare")
    compare_fields(package, package, prepared, tiny_fields.params, tmp_path / "same")
    assert read_json(tmp_path / "same" / "gate.json")["verdict"] == "pass"
    content = tiny_fields.params.model_dump(by_alias=True)
    content["gate"]["rules"][-1] |= {"bound": 0.5}
    strict = RestorationParams.model_validate(content)
    with refuses("champion.rule_failed", package, "crps_mm of fp16 on all", error=GateRefused):
        compare_fields(package, package, prepared, strict, tmp_path / "worse")
    assert read_json(tmp_path / "worse" / "gate.json")["verdict"] == "fail"
    other = shutil.copytree(prepared, tmp_path / "prepare")
    (other / "test" / "more").write_text("")
    with refuses("package.other_test_data", other / "test", package):
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
    assert warned(caplog, "champion.other_version", "spread.json")
    (tmp_path / "former" / "model.onnx").write_bytes(b"")
    with pytest.raises(InputError, match=r"model\.onnx"):
        compare_fields(package, tmp_path / "former", prepared, tiny_fields.params, tmp_path / "none")
