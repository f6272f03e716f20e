"""int8: which layers, from which data, and how near to the float model."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from plumbline.compress.quantize import OPERATORS, Calibration, quantize
from plumbline.errors import PlumblineError
from plumbline.export.onnx import finish, said_by
from plumbline.export.runtime import OnnxModel
from plumbline.prepare.shards import load_shards


@pytest.fixture
def data(tiny):
    return load_shards(tiny.data("prepare") / "train")


def graph(path):
    return onnx.load(path).graph


def weights_of(nodes, initialisers):
    """Names of the initialisers that are the second input of these nodes."""
    return {node.input[1] for node in nodes if node.op_type in OPERATORS and node.input[1] in initialisers}


def test_every_layer_with_weights_is_in_int8_and_nothing_else_is(tiny):
    plain, quantised = graph(tiny.data("export") / "pruned.onnx"), graph(tiny.data("export") / "int8.onnx")
    weights = weights_of(plain.node, {tensor.name: tensor for tensor in plain.initializer})
    # The whitening, which tells the unlike from the like, the layer that reads the same numbers, and both heads.
    kept = ("whitening", "network.geometry", "quadrant_head", "severity_head")
    untouched = {name for name in weights if any(part in name for part in kept)}
    assert len(untouched) == len(kept)
    held = {tensor.name: tensor for tensor in quantised.initializer}
    small = {name for name, tensor in held.items() if tensor.data_type == TensorProto.INT8 and len(tensor.dims) > 1}
    assert len(small) == len(weights) - len(kept) > 10
    sizes = {tensor.name: len(tensor.raw_data) for tensor in (*plain.initializer, *quantised.initializer)}
    assert 4 * sum(sizes[name] for name in small) == sum(sizes[name] for name in weights - untouched)

    maker = {name: node for node in quantised.node for name in node.output}
    readers = [node for node in quantised.node for name in node.input if name in maker]
    fed = {
        (node.op_type, maker[name].input[0])
        for node in readers
        for name in node.input
        if name in maker and maker[name].op_type == "DequantizeLinear" and maker[name].input[0] in small
    }
    assert {kind for kind, _ in fed} <= set(OPERATORS)
    assert {name for _, name in fed} == small
    assert weights_of(quantised.node, held) == untouched


def test_attention_scores_stay_in_float(tiny):
    plain, quantised = graph(tiny.data("export") / "pruned.onnx"), graph(tiny.data("export") / "int8.onnx")
    fixed = {tensor.name for tensor in plain.initializer}
    scores = {node.name for node in plain.node if node.op_type == "MatMul" and node.input[1] not in fixed}
    maker = {name: node.op_type for node in quantised.node for name in node.output}
    readers = {name: node.op_type for node in quantised.node for name in node.input}
    assert len(scores) == 2  # queries with keys, scores with values
    for node in quantised.node:
        if node.name in scores:
            assert "DequantizeLinear" not in {maker[name] for name in node.input}
            assert readers[node.output[0]] != "QuantizeLinear"


def test_it_answers_nearly_like_the_float_model(tiny):
    test = load_shards(tiny.data("prepare") / "test")
    plain, quantised = (OnnxModel(tiny.data("export") / f"{name}.onnx").answer(test) for name in ("pruned", "int8"))
    assert np.abs(plain.quadrant_probability - quantised.quadrant_probability).max() < 0.1
    assert np.abs(plain.severity_permille - quantised.severity_permille).max() < 0.3
    assert np.array_equal(plain.novelty, quantised.novelty)  # abstaining is not to be a matter of rounding
    assert not np.array_equal(plain.severity_permille, quantised.severity_permille)


def test_a_building_unlike_all_others_seems_so_to_both(tiny):
    """Activations are clipped to the range of the calibration data; what tells of the unlike must not be."""
    test = load_shards(tiny.data("prepare") / "test")
    inputs = test.pad(np.arange(4))
    inputs["geometry"] = np.asarray(inputs["geometry"]) * np.float32(100)
    plain, quantised = (OnnxModel(tiny.data("export") / f"{name}.onnx").run(inputs) for name in ("pruned", "int8"))
    assert (plain.novelty > 2).all()
    assert np.array_equal(plain.novelty, quantised.novelty)


def test_calibration_batches_differ(data):
    calibration = Calibration(data, batches=4, batch_size=8, seed=0)
    batches = []
    while (batch := calibration.get_next()) is not None:
        batches.append(batch)
    assert [len(batch["geometry"]) for batch in batches] == [8] * 4
    rows = np.concatenate([batch["geometry"] for batch in batches])
    assert len(np.unique(rows, axis=0)) == 32


def test_calibration_on_fewer_buildings_than_asked_for_uses_each_once(data):
    few = data.take(np.arange(3))
    calibration = Calibration(few, batches=8, batch_size=64, seed=0)
    sizes = []
    while (batch := calibration.get_next()) is not None:
        sizes.append(len(batch["mask"]))
    assert sizes == [1, 1, 1]


def test_the_same_batch_twice_is_an_error_and_leaves_no_file(tiny, data, tmp_path):
    same = data.take(np.zeros(32, dtype=int))
    with pytest.raises(PlumblineError, match="two batches are the same"):
        quantize(tiny.data("export") / "pruned.onnx", tmp_path / "int8.onnx", Calibration(same, 4, 8, seed=0))
    assert list(tmp_path.iterdir()) == []


def test_the_same_model_and_data_give_the_same_file(tiny, data, tmp_path):
    for name in ("a.onnx", "b.onnx"):
        quantize(tiny.data("export") / "pruned.onnx", tmp_path / name, Calibration(data, 3, 16, seed=0))
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    finish(tmp_path / "a.onnx", said_by(tiny.data("export") / "pruned.onnx"))
    assert (tmp_path / "a.onnx").read_bytes() == (tiny.data("export") / "int8.onnx").read_bytes()
