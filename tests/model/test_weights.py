"""Models saved before there were plug-ins and parts are still read."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from plumbline.core.errors import InputError
from plumbline.model.diagnosis import Answer, load_diagnosis, save_diagnosis
from plumbline.model.interval import KINDS
from plumbline.model.older import RENAMED
from tests.model.made import inputs, small_model

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
    parts = {name.split(".")[1] for name in then if name.startswith("network.")}
    assert not parts & {"encoder", "neck", "heads"}
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
