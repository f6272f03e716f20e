"""The exported files against torch: the same answers in every shape, and nothing of the machine in them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from plumbline.export.onnx import INPUTS, OUTPUTS, export_onnx
from plumbline.export.runtime import OnnxModel
from plumbline.model.diagnosis import load_diagnosis
from plumbline.prepare.features import DISTANCE, GEOMETRY, SLOPE

COLUMNS = {"distance": len(DISTANCE), "slope": len(SLOPE), "geometry": len(GEOMETRY)}
GARBAGE = 1e4


@pytest.fixture(scope="module")
def exported(tiny):
    """The pruned network, and its file as it is released."""
    return load_diagnosis(tiny.data("compress")), OnnxModel(tiny.data("export") / "pruned.onnx")


def features(model, rng, batch, length):
    """Raw features as scattered as the training data were, three times over."""
    inputs = {}
    for name, columns in COLUMNS.items():
        shape = (batch, columns) if name == "geometry" else (batch, length, columns)
        mean, sd = (model.get_buffer(f"{name}_{part}").numpy() for part in ("mean", "sd"))
        inputs[name] = (mean + 3 * sd * rng.standard_normal(shape)).astype(np.float32)
    return inputs


def batch_of(model, rng, batch, length, valid):
    """Inputs whose padding holds garbage; `valid` (B,) scatterers of each building are real."""
    inputs = features(model, rng, batch, length)
    inputs["mask"] = np.arange(length) < np.asarray(valid)[:, None]
    for name in ("distance", "slope"):
        padding = ~inputs["mask"][..., None] & np.ones_like(inputs[name], dtype=bool)
        inputs[name][padding] = GARBAGE * rng.standard_normal(padding.sum())
    return inputs


def by_torch(model, inputs):
    with torch.inference_mode():
        return model(*(torch.from_numpy(inputs[name]) for name in INPUTS))


def compare(model, onnx_model, inputs):
    expected, found = by_torch(model, inputs), onnx_model.run(inputs)
    assert np.abs(expected.quadrant_probability.numpy() - found.quadrant_probability).max() < 1e-4
    for name in OUTPUTS[1:4]:
        assert np.abs(getattr(expected, name).numpy() - getattr(found, name)).max() < 1e-3, name
    np.testing.assert_allclose(found.novelty, expected.novelty.numpy(), rtol=1e-4)
    assert all(np.isfinite(part).all() for part in found)


@pytest.mark.parametrize("length", [1, 2, 3, 17, "longest"])
@pytest.mark.parametrize("batch", [1, 7, 64])
def test_it_answers_as_torch_does(exported, batch, length):
    model, onnx_model = exported
    length = model.network.spec.max_length if length == "longest" else length
    rng = np.random.default_rng(batch * 1000 + length)
    valid = rng.integers(1, length + 1, batch)
    valid[0], valid[-1] = length, 1
    compare(model, onnx_model, batch_of(model, rng, batch, length, valid))


def test_it_answers_as_torch_does_where_only_one_scatterer_is_real(exported):
    model, onnx_model = exported
    compare(model, onnx_model, batch_of(model, np.random.default_rng(1), 7, 17, np.ones(7, dtype=int)))


@pytest.mark.parametrize("artifact", ["float32", "pruned", "int8"])
def test_a_building_is_judged_alike_alone_and_in_any_company(tiny, artifact):
    model = load_diagnosis(tiny.data("compress"))
    onnx_model = OnnxModel(tiny.data("export") / f"{artifact}.onnx")
    rng = np.random.default_rng(5)
    valid = np.array([1, 2, 5, 17, 40, 60])
    together = batch_of(model, rng, len(valid), 60, valid)
    wide = onnx_model.run(together)
    for i, own in enumerate(valid):
        alone = {name: values[i : i + 1] for name, values in together.items()}
        for name in ("distance", "slope", "mask"):
            alone[name] = np.ascontiguousarray(alone[name][:, :own])
        for left, right in zip(wide, onnx_model.run(alone), strict=True):
            np.testing.assert_allclose(left[i : i + 1], right, rtol=1e-5, atol=1e-5)


def test_names_and_shapes_are_the_contract(tiny):
    session = onnxruntime.InferenceSession(str(tiny.data("export") / "pruned.onnx"))
    shapes = {value.name: value.shape for value in (*session.get_inputs(), *session.get_outputs())}
    assert shapes == {
        "distance": ["batch", "length", len(DISTANCE)],
        "slope": ["batch", "length", len(SLOPE)],
        "geometry": ["batch", len(GEOMETRY)],
        "mask": ["batch", "length"],
        "quadrant_probability": ["batch", 4],
        "severity_permille": ["batch"],
        "severity_low": ["batch"],
        "severity_high": ["batch"],
        "novelty": ["batch"],
    }
    types = {value.name: value.type for value in (*session.get_inputs(), *session.get_outputs())}
    assert types.pop("mask") == "tensor(bool)"
    assert set(types.values()) == {"tensor(float)"}


def test_probabilities_sum_to_one_and_the_interval_holds_the_middle(tiny):
    model = load_diagnosis(tiny.data("compress"))
    for artifact in ("pruned", "int8"):
        inputs = batch_of(model, np.random.default_rng(6), 64, 17, np.full(64, 17))
        answer = OnnxModel(tiny.data("export") / f"{artifact}.onnx").run(inputs)
        np.testing.assert_allclose(answer.quadrant_probability.sum(1), 1, atol=1e-5)
        assert (answer.severity_low >= 0).all()
        assert (answer.severity_low <= answer.severity_permille).all()
        assert (answer.severity_permille <= answer.severity_high).all()


def test_pruned_matrices_are_smaller_in_the_file_too(tiny):
    whole, half = (onnx.load(tiny.data("export") / f"{name}.onnx").graph for name in ("float32", "pruned"))
    sizes = [[int(np.prod(t.dims)) for t in graph.initializer if len(t.dims) > 1] for graph in (whole, half)]
    assert len(sizes[0]) == len(sizes[1])
    whitening = len(GEOMETRY) ** 2
    assert sum(sizes[1]) - whitening < 0.45 * (sum(sizes[0]) - whitening)


@pytest.mark.parametrize("artifact", ["float32", "pruned", "int8"])
def test_the_file_tells_nothing_of_the_machine_it_was_made_on(tiny, artifact):
    """The exporter notes the source line of every operation, with its path; and another path, other bytes."""
    content = (tiny.data("export") / f"{artifact}.onnx").read_bytes()
    for path in (str(Path(__file__).parents[2]), str(Path(torch.__file__).parents[1]), '.py", line', "stack_trace"):
        assert path.encode() not in content, path


def test_the_same_network_gives_the_same_file(tiny, tmp_path):
    export_onnx(load_diagnosis(tiny.data("compress")), tmp_path / "again.onnx", tiny.params.export.opset)
    assert (tmp_path / "again.onnx").read_bytes() == (tiny.data("export") / "pruned.onnx").read_bytes()
