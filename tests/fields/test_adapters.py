"""Adapters of fields from end to end: trained, saved, loaded and combined, by torch and by the released package."""

import numpy as np
import torch
from peft import PeftModel

from plumbline.core.files import read_json, sha256_folder
from plumbline.fields.model.denoiser import load_denoiser
from plumbline.fields.prepare.conditions import SPLITS, load_scenes
from plumbline.fields.release.package import FieldModel, adapters_in, merge_adapters, open_fields
from plumbline.fields.train.stage import train_adapter
from tests.fields.model.made import alike, answer, make_inputs
from tests.refusals import refuses
from tests.tiny import run_cli


def test_training_an_adapter_again_gives_the_same_bytes(tiny_fields, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prepared, base = tiny_fields.data("prepare"), tiny_fields.data("train")
    splits = {name: load_scenes(prepared / name) for name in SPLITS}
    train_adapter(base, "noise", splits, tiny_fields.params, data_sha256=sha256_folder(prepared), out=tmp_path)
    assert sha256_folder(tmp_path / "noise") == sha256_folder(base / "adapters" / "noise")


def test_the_adapter_of_a_released_package_acts_as_in_torch_switched_and_merged(tiny_fields, tmp_path):
    """It has unfrozen modules, too."""
    package = tiny_fields.package
    assert adapters_in(package) == ["noise"]
    network = load_denoiser(tiny_fields.data("train"))
    inputs = alike(make_inputs(network, 3, 16, 16))
    with torch.no_grad():
        base = network(*inputs).numpy()
        network.unet = PeftModel.from_pretrained(network.unet, package / "adapters" / "noise")
        expected = network(*inputs).numpy()
    assert np.abs(expected - base).max() > 1e-3
    float32 = tiny_fields.data("export") / "float32.onnx"
    np.testing.assert_allclose(
        answer(FieldModel(float32, [(package / "adapters/noise", 1.0)]), inputs), expected, atol=1e-5
    )
    np.testing.assert_allclose(answer(open_fields(package, ["noise"]).model, inputs), expected, atol=0.02)
    merge_adapters(package, ["noise=0.5"], tmp_path / "merged.onnx")
    switched = open_fields(package, ["noise=0.5"])
    assert switched.adapters == ("noise=0.5",)
    assert not np.allclose(answer(switched.model, inputs), expected, atol=1e-4)
    np.testing.assert_allclose(
        answer(FieldModel(tmp_path / "merged.onnx"), inputs), answer(switched.model, inputs), atol=1e-5
    )
    assert switched.spread.model_dump() == read_json(package / "adapters/noise/spread.json")
    assert open_fields(package).spread.model_dump() == read_json(package / "spread.json")


def test_an_adapter_is_refused_where_its_weights_are_not(tiny_fields):
    with refuses("adapter.unreadable", "adapters/noise"):
        FieldModel(tiny_fields.data("export") / "int8.onnx", [(tiny_fields.package / "adapters/noise", 1.0)])
    with refuses("adapter.missing", "--adapter sparse:", tiny_fields.package, "in it: noise"):
        open_fields(tiny_fields.package, ["sparse"])
    with refuses("adapter.weight_out_of_range", "--adapter noise=3:"):
        open_fields(tiny_fields.package, ["noise=3"])


def test_adapters_are_listed_and_merged_by_commands(tiny_fields, tmp_path):
    ended = run_cli("fields", "adapters", "--model", tiny_fields.package, cwd=tmp_path)
    assert (ended.code, "noise" in ended.out) == (0, True)
    merge = ("fields", "merge", "--model", tiny_fields.package, "--adapter")
    ended = run_cli(*merge, "noise", "--output", "merged.onnx", cwd=tmp_path)
    assert ended.code == 0, ended.err
    FieldModel(tmp_path / "merged.onnx")
    for asked, said in (
        (("noise", "--output", "merged.txt"), "ends in .onnx"),
        (("some", "--output", "b.onnx"), "no such adapter"),
    ):
        ended = run_cli(*merge, *asked, cwd=tmp_path)
        assert (ended.code, said in " ".join(ended.err.split())) == (2, True)
    assert not (tmp_path / "b.onnx").exists()
