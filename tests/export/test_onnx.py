"""The exported files against torch: the same answers in every shape; what they say of themselves, and nothing more."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import yaml

from plumbline.core.errors import PlumblineError
from plumbline.core.strain import category_of_levels
from plumbline.export.interface import interface
from plumbline.export.onnx import INPUTS, OUTPUTS, in_half
from plumbline.export.runtime import OnnxModel
from plumbline.export.stage import ARTIFACTS
from plumbline.model.diagnosis import load_diagnosis
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, PREPARATION, SLOPE
from tests.refusals import refuses

COLUMNS = {"distance": len(DISTANCE), "slope": len(SLOPE), "geometry": len(GEOMETRY)}
GARBAGE = 1e4
ROOT = Path(__file__).parents[2]
BATCHES, LENGTHS = (1, 7, 256), (1, 2, 3, 17, 64, 128)
"""The longest is `prepare.max_points`."""


def whole(path):
    """The file on one thread: with several, a batch would be cut, and its padding never reach the file."""
    return OnnxModel(path, threads=1)


@pytest.fixture(scope="module")
def exported(tiny):
    """The pruned network, and its file as it is released."""
    return load_diagnosis(tiny.data("compress")), whole(tiny.data("export") / "pruned.onnx")


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


@cache
def bound(metric, artifact):
    """What the gates of `params.yaml` allow: the one place where these bounds are written."""
    gates = yaml.safe_load((ROOT / "params.yaml").read_text())["gate"]["rules"]
    (found,) = (gate["max"] for gate in gates if (gate["metric"], gate["artifact"]) == (metric, artifact))
    return found


def compare(model, onnx_model, inputs, artifact="pruned"):
    expected, found = by_torch(model, inputs), onnx_model.run(inputs)
    probability, permille = (bound(f"parity_{name}", artifact) for name in ("probability", "severity_permille"))
    assert np.abs(expected.quadrant_probability.numpy() - found.quadrant_probability).max() < probability
    for name in OUTPUTS[1:4]:
        assert np.abs(getattr(expected, name).numpy() - getattr(found, name)).max() < permille, name
    # In the int8 file the whitening has 16 bits.
    np.testing.assert_allclose(found.novelty, expected.novelty.numpy(), rtol=1e-3 if artifact == "int8" else 1e-4)
    assert all(np.isfinite(part).all() for part in found)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("batch", BATCHES)
def test_it_answers_as_torch_does(exported, batch, length):
    model, onnx_model = exported
    rng = np.random.default_rng(batch * 1000 + length)
    valid = rng.integers(1, length + 1, batch)
    valid[0], valid[-1] = length, 1
    compare(model, onnx_model, batch_of(model, rng, batch, length, valid))


@pytest.mark.parametrize("artifact", ["fp16", "int8"])
def test_fewer_bits_answer_nearly_so_in_every_shape(tiny, exported, data, artifact):
    model, onnx_model, rng = exported[0], whole(tiny.data("export") / f"{artifact}.onnx"), np.random.default_rng(3)
    # Of the large batch not every length: the time goes there, and the shapes before it hold all that could differ.
    shapes = [(b, n) for b in BATCHES[:2] for n in LENGTHS] + [(BATCHES[-1], n) for n in (1, 17, 128)]
    for batch, length in shapes:
        inputs = data.pad(rng.integers(0, len(data), batch), LENGTHS[-1])
        for name in ("distance", "slope", "mask"):
            inputs[name] = inputs[name][:, :length]
        compare(model, onnx_model, inputs, artifact)


@pytest.mark.parametrize("artifact", ARTIFACTS)
def test_names_and_shapes_are_the_contract(tiny, artifact):
    session = onnxruntime.InferenceSession(str(tiny.data("export") / f"{artifact}.onnx"))
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
        "accepted_probability": ["batch", 4],
        "category_probability": ["batch", 5],
        "level_probability": ["batch", 16],
        "mechanism_probability": ["batch", 6],
    }
    types = {value.name: value.type for value in (*session.get_inputs(), *session.get_outputs())}
    assert types.pop("mask") == "tensor(bool)"
    assert set(types.values()) == {"tensor(float)"}


def test_probabilities_sum_to_one_and_the_interval_holds_the_middle(tiny):
    model = load_diagnosis(tiny.data("compress"))
    for artifact in ARTIFACTS:
        inputs = batch_of(model, np.random.default_rng(6), 64, 17, np.full(64, 17))
        answer = whole(tiny.data("export") / f"{artifact}.onnx").run(inputs)
        for name in ("quadrant", "category", "level", "mechanism"):
            np.testing.assert_allclose(getattr(answer, f"{name}_probability").sum(1), 1, atol=1e-5)
        levels = answer.level_probability @ (category_of_levels()[:, None] == np.arange(5))
        np.testing.assert_allclose(answer.category_probability, levels, atol=1e-5)
        assert ((answer.accepted_probability >= 0) & (answer.accepted_probability <= 1)).all()
        assert (answer.severity_low >= 0).all()
        assert (answer.severity_low <= answer.severity_permille).all()
        assert (answer.severity_permille <= answer.severity_high).all()


@pytest.mark.parametrize("artifact", ARTIFACTS)
def test_the_file_tells_nothing_of_the_machine_it_was_made_on(tiny, artifact):
    """The exporter notes the source line of every operation, with its path; and another path, other bytes."""
    content = (tiny.data("export") / f"{artifact}.onnx").read_bytes()
    for path in (str(Path(__file__).parents[2]), str(Path(torch.__file__).parents[1]), '.py", line', "stack_trace"):
        assert path.encode() not in content, path


@pytest.mark.parametrize("artifact", ARTIFACTS)
def test_any_runtime_can_read_it(tiny, artifact):
    """The operators of ONNX alone, of the version that the parameters state, and nothing that the checker minds."""
    path = tiny.data("export") / f"{artifact}.onnx"
    onnx.checker.check_model(str(path), full_check=True)
    model = onnx.load(path)
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", tiny.params.export.opset)]
    assert {node.domain for node in model.graph.node} == {""}
    assert not model.functions
    assert not any(tensor.external_data for tensor in model.graph.initializer)


@pytest.mark.parametrize("artifact", ["float32", "pruned"])
def test_runtimes_find_what_they_are_fast_at(tiny, artifact):
    """A product of weights has its bias with it, and no sum stands before a normalisation as `Add`."""
    graph = onnx.load(tiny.data("export") / f"{artifact}.onnx").graph
    weights = {tensor.name for tensor in graph.initializer}
    bare = [node for node in graph.node if node.op_type == "MatMul" and weights & set(node.input)]
    assert [name for node in bare for name in node.input if name in weights] == ["novelty_whitening"]
    normalised = {node.input[0] for node in graph.node if node.op_type == "LayerNormalization"}
    made_by = {name: node.op_type for node in graph.node for name in node.output}
    kinds = {made_by[name] for name in normalised}
    assert "Sum" in kinds
    assert "Add" not in kinds


@pytest.mark.parametrize("value", [3e38, -3e38, np.inf])
@pytest.mark.parametrize("artifact", ["float32", "pruned", "fp16"])
def test_the_padding_may_hold_what_the_manifest_says(tiny, data, artifact, value):
    """Any finite number; infinity too, but nobody is told to rely on it."""
    model = whole(tiny.data("export") / f"{artifact}.onnx")
    inputs = data.pad(np.arange(8), LENGTHS[-1])
    wanted = model.run(inputs)
    for name in ("distance", "slope"):
        inputs[name][~inputs["mask"]] = value
    with np.errstate(over="ignore"):
        found = model._session.run(None, inputs)
    for left, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("artifact", ARTIFACTS)
def test_it_says_what_it_is(tiny, artifact):
    about = whole(tiny.data("export") / f"{artifact}.onnx").about
    assert (about.name, about.preparation, about.max_length) == ("plumbline", PREPARATION, LENGTHS[-1])
    assert about.version
    model = load_diagnosis(tiny.data("train" if artifact == "float32" else "compress"))
    np.testing.assert_allclose(about.category_share, model.get_buffer("category_share"), atol=1e-6)
    assert sum(about.category_share) == pytest.approx(1, abs=1e-5)
    assert OnnxModel(tiny.data("export") / f"{artifact}.onnx").category_share == about.category_share
    for key, value in interface().items():
        assert getattr(about, key) == value
    assert [column["unit"] for column in about.inputs[0]["columns"]] == [column.unit for column in DISTANCE]


def test_most_weights_are_in_half_precision_and_what_decides_is_not(tiny):
    kinds = {}
    for tensor in onnx.load(tiny.data("export") / "fp16.onnx").graph.initializer:
        kinds.setdefault(tensor.data_type, set()).add(tensor.name)
    halves, floats = kinds[onnx.TensorProto.FLOAT16], kinds[onnx.TensorProto.FLOAT]
    assert sum(1 for name in halves if "encoder" in name or "join" in name) > 4
    heads = ("quadrant_head", "severity_head", "accepted_head", "level_head", "mechanism_head")
    for part in (*heads, "distance_mean", "slope_sd", "whitening"):
        assert any(part in name for name in floats), part
        assert not any(part in name for name in halves), part


def test_a_weight_that_half_precision_cannot_hold_is_an_error(tiny):
    model = load_diagnosis(tiny.data("compress"))
    with torch.no_grad():
        model.network.encoder.slope.stem.weight.view(-1)[0] = 1e5
    with refuses("fp16.weight_too_large", "stem.weight", error=PlumblineError):
        in_half(model)
