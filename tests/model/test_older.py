"""Models saved before there were plug-ins and parts are still read."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from plumbline.model.diagnosis import load_diagnosis, save_diagnosis
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
