"""Files of weights: damaged or changed ones are refused."""

import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from plumbline import pretrained
from plumbline.core.errors import InputError
from plumbline.core.files import sha256_file, write_json
from plumbline.export.stage import export_model
from plumbline.export.weights import load_network
from plumbline.model.diagnosis import load_diagnosis, save_diagnosis
from plumbline.params import Export
from plumbline.prepare.features.definition import PREPARATION
from plumbline.train.fit.initial_weights import load_pretrained
from tests.model.made import small_model

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
