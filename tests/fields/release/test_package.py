"""Packages of fields: what the pipeline leaves, and the comparison with the champion."""

import shutil

import pytest

from plumbline.core.errors import GateRefused, InputError
from plumbline.core.files import read_json, write_json
from plumbline.fields.release.package import adapters_in, open_fields, verify_fields
from plumbline.fields.release.validate import compare_fields
from plumbline.params.fields import RestorationParams
from tests.tiny import run_cli


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
    assert set(read_json(data("export") / "adapters.json")["noise"]) == {"shipped", "reason"}
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
    for stage in ("export", "validate", "package"):
        ended = run_cli(stage, cwd=root)
        assert ended.code == 0, ended.err
    for folder in ("export", "package"):
        assert adapters_in(root / "data" / folder) == []
    gate = read_json(root / "data/validate/gate.json")
    (left,) = gate["not_shipped"]
    assert (left["adapter"], left["reason"]) == ("noise", "no gain")
    assert [rule["slice"] for rule in left["rules"]] == ["adapter:noise"]
    assert gate["verdict"] == "pass"
    assert not any(rule["slice"].startswith("adapter:") for rule in gate["rules"])
    assert "- not shipped: adapter noise: no gain" in (root / "data/package/MODEL_CARD.md").read_text()
    assert open_fields(root / "data/package").adapters == ()
    with pytest.raises(InputError, match=r"noise: no such adapter in .*; in it: none"):
        open_fields(root / "data/package", ["noise"])

    # Fail closed: the rule is asked where nothing says that training left the adapter out.
    write_json(root / "data/export/adapters.json", {})
    assert run_cli("validate", cwd=root).code == 0
    gate = read_json(root / "data/validate/gate.json")
    failed = [rule["slice"] for rule in gate["rules"] if not rule["passed"]]
    assert (gate["verdict"], failed, gate["not_shipped"]) == ("fail", ["adapter:noise"], [])
    assert run_cli("package", cwd=root).code == 3


def test_a_candidate_is_compared_with_the_champion(tiny_fields, tmp_path):
    package, prepared = tiny_fields.package, tiny_fields.data("prepare")
    compare_fields(package, package, prepared, tiny_fields.params, tmp_path / "same")
    assert read_json(tmp_path / "same" / "gate.json")["verdict"] == "pass"
    content = tiny_fields.params.model_dump(by_alias=True)
    content["validate"]["gates"][-1] |= {"bound": 0.5}
    strict = RestorationParams.model_validate(content)
    with pytest.raises(GateRefused, match="crps_mm of fp16 on all"):
        compare_fields(package, package, prepared, strict, tmp_path / "worse")
    assert read_json(tmp_path / "worse" / "gate.json")["verdict"] == "fail"
    other = shutil.copytree(prepared, tmp_path / "prepare")
    (other / "test" / "more").write_text("")
    with pytest.raises(InputError, match="not the test data"):
        compare_fields(package, package, other, tiny_fields.params, tmp_path / "none")
