"""Models saved before there were plug-ins and parts are still read."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from plumbline.errors import InputError
from plumbline.model.diagnosis import load_diagnosis, save_diagnosis
from plumbline.model.interval import narrowness, passed_bounds
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


@pytest.mark.parametrize("stretch", [torch.tensor(0.4), torch.tensor([0.1, -0.2, 0.3, 0.0, 0.5])], ids=["one", "each"])
def test_intervals_of_then_were_lengths_alone(tmp_path, stretch):
    model, batch = small_model(), inputs([4, 9, 1])
    for name, value in {"stretch": stretch, "scale": 1.0, "steps": 0.0, "length": 0.0}.items():
        model.get_buffer(f"interval_{name}").copy_(torch.as_tensor(value))
    save_diagnosis(model, tmp_path)
    then = load_file(tmp_path / "model.safetensors")
    del then["interval_scale"], then["interval_steps"], then["interval_length"]
    save_file({**then, "interval_stretch": stretch}, tmp_path / "model.safetensors")
    again = load_diagnosis(tmp_path)
    with torch.inference_mode():
        for left, right in zip(model(*batch), again(*batch), strict=True):
            assert torch.equal(left, right)
    if not stretch.ndim:
        low, _, high = again.raw(*batch).severity_B3.T
        torch.testing.assert_close(again(*batch).severity_low, again.permille(low - 0.4))
        torch.testing.assert_close(again(*batch).severity_high, again.permille(high + 0.4))


def test_intervals_of_then_were_scaled_alike_however_narrow(tmp_path):
    model, batch = small_model(), inputs([4, 9, 1])
    model.get_buffer("interval_length").zero_()
    save_diagnosis(model, tmp_path)
    then = load_file(tmp_path / "model.safetensors")
    del then["interval_length"]
    save_file(then, tmp_path / "model.safetensors")
    again = load_diagnosis(tmp_path)
    passed = passed_bounds(batch[2])
    scale = again.get_buffer("interval_scale") + (passed * again.get_buffer("interval_steps")).sum(-1, keepdim=True)
    with torch.inference_mode():
        assert torch.equal(again.interval_scale_of(passed, narrowness(again.raw(*batch).severity_B3)), scale)
        for left, right in zip(model(*batch), again(*batch), strict=True):
            assert torch.equal(left, right)


def test_weights_that_lack_an_interval_are_refused(tmp_path):
    save_diagnosis(small_model(), tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    save_file(
        {name: value for name, value in weights.items() if "interval" not in name}, tmp_path / "model.safetensors"
    )
    with pytest.raises(InputError, match="interval_scale"):
        load_diagnosis(tmp_path)
