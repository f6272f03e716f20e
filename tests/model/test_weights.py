"""Files of weights: damaged or changed ones are refused."""

import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from plumbline import pretrained
from plumbline.core.files import sha256_file, write_json
from plumbline.export.weights import load_network
from plumbline.model.diagnosis import load_diagnosis, save_diagnosis
from tests.model.made import small_model
from tests.refusals import refuses


def change_a_bit(path):
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["network.heads.quadrant_head.weight", "geometry_middle"])
def test_values_that_are_no_numbers_are_refused_by_name(tmp_path, name):
    save_diagnosis(small_model(), tmp_path)
    path = tmp_path / "model.safetensors"
    state = load_file(path)
    state[name].view(-1)[0] = torch.nan
    save_file(state, path)
    with refuses("weights.not_a_number", path, name):
        load_diagnosis(tmp_path)


def test_weights_are_those_of_the_manifest_beside_them(tmp_path):
    save_diagnosis(small_model(), tmp_path)
    path = tmp_path / "model.safetensors"
    write_json(tmp_path / "manifest.json", {"files": {path.name: {"sha256": sha256_file(path)}}})
    load_diagnosis(tmp_path)
    change_a_bit(path)
    with refuses("package.changed_file", path):
        load_diagnosis(tmp_path)


def test_the_weights_of_a_package_are_looked_at_as_well(tmp_path):
    shutil.copytree(pretrained.PACKAGE, tmp_path / "package")
    load_network(tmp_path / "package")
    change_a_bit(tmp_path / "package" / "weights.safetensors")
    with refuses("package.changed_file", "weights.safetensors"):
        load_network(tmp_path / "package")
