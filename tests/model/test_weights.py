"""Files of weights: damaged or changed ones are refused, those of older models are still read."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from plumbline import pretrained
from plumbline.core.errors import InputError
from plumbline.core.files import sha256_file, write_json
from plumbline.export.stage import export_model
from plumbline.export.weights import load_network
from plumbline.model.diagnosis import KINDS, Answer, load_diagnosis, save_diagnosis
from plumbline.model.weights import RENAMED
from plumbline.params import Export
from plumbline.prepare.features.definition import PREPARATION
from plumbline.train.fit.initial_weights import load_pretrained
from tests.model.made import inputs, small_model

READERS = {
    "compress": load_diagnosis,
    "start_from": lambda folder: load_pretrained(small_model(seed=1), folder),
    "export": lambda folder: export_model(folder, Export(), folder.parent / "out"),
}


@pytest.fixture
def folder(tmp_path):
    save_diagnosis(small_model(), tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", ["network.heads.quadrant_head.weight", "geometry_middle"])
def test_values_that_are_no_numbers_are_refused_by_name(folder, reader, name):
    path = folder / "model.safetensors"
    state = load_file(path)
    state[name].view(-1)[0] = torch.nan
    save_file(state, path, {"preparation": str(PREPARATION)})
    with pytest.raises(InputError, match=rf"model\.safetensors: {name} holds values that are no numbers"):
        READERS[reader](folder)


@pytest.mark.parametrize("reader", READERS)
def test_weights_are_those_of_the_manifest_beside_them(folder, reader):
    path = folder / "model.safetensors"
    write_json(folder / "manifest.json", {"files": {path.name: {"sha256": sha256_file(path)}}})
    if reader != "export":  # which reads as `compress` does, and then exports for ten seconds
        READERS[reader](folder)
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"model\.safetensors: changed since it was released"):
        READERS[reader](folder)


def test_the_weights_of_a_package_are_looked_at_as_well(tmp_path):
    shutil.copytree(pretrained.PACKAGE, tmp_path / "package")
    load_network(tmp_path / "package")
    path = tmp_path / "package" / "weights.safetensors"
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"weights\.safetensors: changed since it was released"):
        load_network(tmp_path / "package")


LATER = ("convolution", "pooling", "checkpoint_activations")


@pytest.mark.parametrize("kind", [{}, {"attention": "none"}, {"position": "sinusoidal"}], ids=str)
def test_names_and_description_of_then(tmp_path, kind):
    model, batch = small_model(**kind), inputs([4, 9, 1])
    save_diagnosis(model, tmp_path)
    then = {}
    for name, value in load_file(tmp_path / "model.safetensors").items():
        for old, new in RENAMED.items():
            if name.startswith(f"network.{new}"):
                name = f"network.{old}" + name.removeprefix(f"network.{new}")
                break
        then[name] = value
    moved = [name for name in then if name.startswith(("network.encoder", "network.neck", "network.heads"))]
    assert {name.split(".")[2] for name in moved} == {"accepted_head", "level_head", "mechanism_head"}  # of later
    save_file(then, tmp_path / "model.safetensors")
    path = tmp_path / "model.json"
    path.write_text(
        json.dumps({name: value for name, value in json.loads(path.read_text()).items() if name not in LATER})
    )
    again = load_diagnosis(tmp_path)
    assert again.network.spec == model.network.spec
    with torch.inference_mode():
        for left, right in zip(model(*batch), again(*batch), strict=True):
            assert torch.equal(left, right)


LENGTHS = {"stretch": torch.tensor(0.4)}
STRETCHES = {"stretch": torch.zeros(5)}
SCALES = {**STRETCHES, "scale": torch.tensor([0.5, 0.6, 0.7, 0.8, 0.9]), "steps": torch.ones(6)}


@pytest.mark.parametrize("interval", [LENGTHS, STRETCHES, SCALES, {**SCALES, "length": torch.ones(5)}], ids=len)
def test_intervals_of_then_had_one_scale_of_a_category(tmp_path, interval):
    """All else of such a model is as it was."""
    model, batch = small_model(), inputs([4, 9, 1])
    model.get_buffer("least_years").zero_()
    save_diagnosis(model, tmp_path)
    then = load_file(tmp_path / "model.safetensors")
    for name in [name for name in then if "interval" in name or name == "least_years"]:
        del then[name]
    if "length" in interval:
        then["least_years"] = torch.zeros(())
    save_file(then | {f"interval_{name}": value for name, value in interval.items()}, tmp_path / "model.safetensors")
    again = load_diagnosis(tmp_path)
    with torch.inference_mode():
        for name, left, right in zip(Answer._fields, model(*batch), again(*batch), strict=True):
            assert name in ("severity_low", "severity_high") or torch.equal(left, right)
    wanted = interval.get("scale", torch.ones(5)).expand(KINDS, 5)
    assert torch.equal(again.get_buffer("interval_below"), wanted)
    assert torch.equal(again.get_buffer("interval_above"), wanted)
    assert torch.equal(again.get_buffer("interval_length"), interval.get("length", torch.zeros(5)))


def test_an_adapter_of_then_brings_its_scale_for_both_sides():
    """It is put into the state of its base, which has sides by now."""
    model, again = small_model(), small_model(seed=1)
    again.load_state_dict(model.state_dict() | {"interval_scale": SCALES["scale"], "interval_stretch": torch.zeros(5)})
    for side in ("below", "above"):
        assert torch.equal(again.get_buffer(f"interval_{side}"), SCALES["scale"].expand(KINDS, 5))
    assert torch.equal(again.get_buffer("interval_length"), model.get_buffer("interval_length"))


def test_weights_that_lack_an_interval_are_refused(tmp_path):
    save_diagnosis(small_model(), tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    save_file(
        {name: value for name, value in weights.items() if "interval" not in name}, tmp_path / "model.safetensors"
    )
    with pytest.raises(InputError, match="interval_below"):
        load_diagnosis(tmp_path)
