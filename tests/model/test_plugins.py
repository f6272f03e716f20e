"""A line in a table is all that a plug-in needs, and a name without a line is refused everywhere."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.onnx import OnnxExporterError

from plumbline.compress.prune import channel_groups, prune, slopes
from plumbline.core.errors import InputError
from plumbline.core.files import read_json, write_json
from plumbline.export.onnx import export_onnx
from plumbline.export.runtime import OnnxModel
from plumbline.model.diagnosis import Diagnosis, load_diagnosis, save_diagnosis
from plumbline.model.losses import build_losses
from plumbline.model.pooling import Look, Mean, masked_mean
from plumbline.model.spec import new_spec
from plumbline.params import parse_params, plugins
from plumbline.params.plugins import Plugins
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, PREPARATION, SLOPE
from plumbline.train.data.splits import fit_statistics
from tests.model.made import FORMULA
from tests.refusals import refuses
from tests.train.made import make_batch, make_sequences, settings

TABLES = {name: table for name, table in vars(plugins).items() if isinstance(table, Plugins)}
KEYS = {
    "ATTENTION": ("model", "attention"),
    "CONVOLUTION": ("model", "convolution"),
    "POSITION": ("model", "position"),
    "POOLING": ("model", "pooling"),
    "QUADRANT_LOSS": ("train", "quadrant_loss"),
    "SEVERITY_LOSS": ("train", "severity_loss"),
    "PADDING": ("train", "padding"),
    "IMPORTANCE": ("compress", "importance"),
}
"""Table -> section and key of the parameters."""
LONGEST = 24


class Root(Look):
    """Root of the mean square."""

    def forward(self, x_BLD: Tensor, mask_BL1: Tensor) -> Tensor:
        return (masked_mean(x_BLD.square(), mask_BL1) + 1e-5).sqrt()

    def share(self, x_BLD: Tensor, mask_BL1: Tensor) -> Tensor:
        return Mean(x_BLD.shape[-1]).share(x_BLD, mask_BL1)


class Counted(nn.Module):
    """How far along a scatterer is."""

    def __init__(self, channels: int, max_length: int) -> None:
        super().__init__()
        self.longest, self.project = max_length, nn.Linear(1, channels)

    def forward(self, x_BLD: Tensor) -> Tensor:
        place_L = torch.arange(x_BLD.shape[1], device=x_BLD.device).to(x_BLD.dtype)
        return self.project(place_L[:, None] / self.longest)


class Unexportable(Mean):
    """Asks for values, of which there are none in a graph."""

    def forward(self, x_BLD: Tensor, mask_BL1: Tensor) -> Tensor:
        return super().forward(x_BLD, mask_BL1) * (1 if x_BLD.sum().item() > 0 else 2)


def of_torch(channels_in: int, channels_out: int, kernel: int) -> nn.Module:
    """As torch has it."""
    return nn.Conv1d(channels_in, channels_out, kernel, padding=kernel // 2)


def squared_doubt(cross_entropy_B: Tensor) -> Tensor:
    return cross_entropy_B.square()


def fourth_power(error_B: Tensor) -> Tensor:
    return error_B.pow(4)


def first(values_BLF: np.ndarray, mask_BL: np.ndarray) -> np.ndarray:
    return values_BLF[:, :1]


PLAIN_KERNEL = FORMULA
ADDED = {
    "ATTENTION": "PLAIN_KERNEL",
    "CONVOLUTION": "of_torch",
    "POSITION": "Counted",
    "POOLING": "Root",
    "QUADRANT_LOSS": "squared_doubt",
    "SEVERITY_LOSS": "fourth_power",
    "PADDING": "first",
}
"""Table -> what is added to it here."""


OF_THE_NETWORK = ("ATTENTION", "CONVOLUTION", "POSITION", "POOLING")


def changed(table: str, value: Any, *others: str) -> dict[str, Any]:
    content = settings()
    for section, key in (KEYS[name] for name in (table, *others)):
        content[section] = {**content[section], key: value}
    return content


def built(content: dict[str, Any]) -> Diagnosis:
    """A network with random weights and the statistics of made-up buildings."""
    params = parse_params(content)
    torch.manual_seed(0)
    model = Diagnosis(new_spec(params.model, LONGEST))
    fit_statistics(model, make_sequences(40))
    return model.eval()


@pytest.mark.parametrize(("table", "name"), [(table, name) for table in TABLES for name in TABLES[table]])
def test_every_line_leads_to_something(table, name):
    place = TABLES[table].places[name]
    if place is None:
        assert TABLES[table][name] is None
        return
    assert TABLES[table][name] is not None
    # Of other folders a stage would not know that it depends on them (`dvc.yaml`).
    assert re.match(r"plumbline\.(model|prepare|compress)\.|torch[:_]", place)
    parse_params(changed(table, name))


@pytest.mark.parametrize("table", list(TABLES))
@pytest.mark.parametrize("found", ["os:system", "Mean", None, ["mean"]])
def test_a_name_without_a_line_is_refused_with_those_that_have_one(table, found):
    section, key = KEYS[table]
    with pytest.raises(InputError) as caught:
        parse_params(changed(table, found), "my.yaml")
    names = ", ".join([*TABLES[table], *(["auto"] if table == "POSITION" else [])])
    given = "" if isinstance(found, list) else f"{found!r} found; "
    assert str(caught.value) == f"my.yaml: {section}.{key}: {given}one of {names} needed."


@pytest.mark.parametrize(
    ("key", "found"),
    [("attention", "os:system"), ("convolution", "os:system"), ("position", "os:system"), ("pooling", {"a": 1})],
)
def test_a_model_of_unknown_origin_can_name_nothing_else(key, found, tmp_path):
    save_diagnosis(built(settings()), tmp_path)
    write_json(tmp_path / "model.json", {**read_json(tmp_path / "model.json"), key: found})
    with refuses("model.unreadable", tmp_path, f"\n{key}\n"):
        load_diagnosis(tmp_path)


def test_attention_layers_without_attention_are_refused(tmp_path):
    save_diagnosis(built(settings()), tmp_path)
    write_json(tmp_path / "model.json", {**read_json(tmp_path / "model.json"), "attention": "none"})
    with refuses("model.unreadable", "attention: none", "1 attention layers"):
        load_diagnosis(tmp_path)


def test_parameters_are_checked_without_torch_or_any_plugin():
    root = Path(__file__).parents[2]
    code = (
        "import sys; from plumbline.params import load_params; load_params(); "
        "print([n for n in sys.modules if n.split('.')[0] == 'torch' or n.startswith('plumbline.model')])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True)
    assert ended.stdout == "[]\n"


@pytest.fixture
def add(monkeypatch):
    """Add a line to a table for the time of a test."""

    def line(table: str, attribute: str) -> None:
        monkeypatch.setitem(TABLES[table].places, "added", f"{__name__}:{attribute}")

    return line


@pytest.mark.parametrize("table", list(ADDED))
def test_one_line_is_enough(table, add):
    """From the parameters to gradients."""
    with pytest.raises(InputError, match="'added'"):
        parse_params(changed(table, "added"))
    add(table, ADDED[table])
    params, model = parse_params(changed(table, "added")), built(changed(table, "added"))
    inputs = make_sequences(9, 1).pad(np.arange(9), LONGEST, params.train.padding)
    batch, losses = make_batch(9, 1), build_losses(params.train)
    raw = model.raw(*(torch.from_numpy(np.array(inputs[name])) for name in inputs))
    standard_B = model.standard_severity(batch.severity_B)
    (losses.over_damaged(raw, batch) + losses.over_all(raw, batch, standard_B)).backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


@pytest.mark.slow
def test_a_network_of_added_lines_is_saved_pruned_and_exported(add, tmp_path):
    for table in OF_THE_NETWORK:
        add(table, ADDED[table])
    content = changed(OF_THE_NETWORK[0], "added", *OF_THE_NETWORK[1:])
    params, model = parse_params(content), built(content)
    sequences = make_sequences(9, 1)
    inputs = sequences.pad(np.arange(9), LONGEST, params.train.padding)
    save_diagnosis(model, tmp_path)
    whole = load_diagnosis(tmp_path)
    half = prune(
        whole, dict.fromkeys(channel_groups(whole), 0.5), slopes(model, sequences, params.train, batches=1, seed=0)
    )
    half.preparation = PREPARATION - 1  # of an earlier version
    export_onnx(half, tmp_path / "model.onnx", 20)
    with torch.inference_mode():
        wanted = half(*(torch.from_numpy(np.array(inputs[name])) for name in inputs))
    exported = OnnxModel(tmp_path / "model.onnx", threads=1)
    assert exported.about is not None
    assert exported.about.preparation == half.preparation
    for found, value in zip(exported.run(inputs), wanted, strict=True):
        np.testing.assert_allclose(found, value.numpy(), atol=1e-3)
    assert [inputs[name].shape[-1] for name in ("distance", "slope", "geometry")] == [
        len(columns) for columns in (DISTANCE, SLOPE, GEOMETRY)
    ]


@pytest.mark.parametrize("found_by", ["nobody", pytest.param("torch", marks=pytest.mark.slow)])
def test_a_plugin_that_cannot_be_exported_is_refused_by_name(add, tmp_path, monkeypatch, found_by):
    add("POOLING", "Unexportable")
    if found_by == "nobody":  # torch looks for seconds
        monkeypatch.setattr(torch.onnx, "export", mock.Mock(side_effect=OnnxExporterError("of values")))
    path = tmp_path / "model.onnx"
    with refuses("onnx.not_exportable", "model.onnx", "pooling added", "section model"):
        export_onnx(built(changed("POOLING", "added")), path, 20)
    assert not list(tmp_path.iterdir())
