"""Fewer bytes, the same answers."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from onnx import TensorProto, helper, numpy_helper

from plumbline.compress.pack import SMALLEST_TRIANGLE, is_triangle, pack, rounded_weights

RNG = np.random.default_rng(0)


def model(tensors, nodes, width=16, output="y", columns=16):
    initialisers = [numpy_helper.from_array(value, name) for name, value in tensors.items()]
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", width])]
    out = [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["b", columns])]
    graph = helper.make_graph(nodes, "g", ends, out, initialisers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def run(made, x):
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def held(made):
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in made.graph.initializer}


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


@given(arrays(np.float32, (3, 5), elements=st.floats(-1e6, 1e6, width=32)), st.sampled_from([0, 1]))
@example(np.full((3, 5), 1e-45, np.float32), 0)
def test_a_weight_is_off_by_half_of_a_step_at_most(value, axis):
    code, scale = rounded_weights(value, axis)
    wide = code * scale.reshape([-1, 1] if axis == 0 else [1, -1])
    step = scale.reshape([-1, 1] if axis == 0 else [1, -1])
    assert (np.abs(wide - value) <= step * 0.5001).all()
    assert np.abs(code.astype(int)).max() <= 127
    assert (wide[value == 0] == 0).all()


@pytest.mark.parametrize(("kind", "axis"), [("MatMul", 1), ("Gemm", 0)])
def test_a_float_matrix_takes_a_quarter_and_answers_nearly_alike(kind, axis):
    weight = normal(16, 16) * np.geomspace(1e-2, 1e3, 16, dtype=np.float32).reshape([1, 16] if axis else [16, 1])
    options = {"transB": 1} if kind == "Gemm" else {}
    plain = model({"network.a.weight": weight}, [helper.make_node(kind, ["x", "network.a.weight"], ["y"], **options)])
    packed = pack(plain)
    parts = held(packed)
    assert {name: (part.dtype, part.shape) for name, part in parts.items()} == {
        "network.a.weight_quantized": (np.int8, (16, 16)),
        "half": (np.float16, (16,)),
        "half_sizes": (np.uint8, (1,)),
    }
    x = normal(32, 16)
    before, after = run(plain, x), run(packed, x)
    # A scale for each channel out: the small channels are as exact as the large ones.
    assert (np.abs(after - before).max(0) < 0.02 * np.abs(before).max(0)).all()


def test_biases_are_halved_and_statistics_are_not():
    tensors = {"network.a.bias": normal(64), "distance_mean": normal(64)}
    nodes = [
        helper.make_node("Add", ["x", "network.a.bias"], ["z"]),
        helper.make_node("Add", ["z", "distance_mean"], ["y"]),
    ]
    plain = model(tensors, nodes, width=64, columns=64)
    packed = pack(plain)
    parts = held(packed)
    assert parts["half"].dtype == np.float16
    assert parts["half"].shape == (64,)
    assert "network.a.bias" not in parts
    assert np.array_equal(parts["distance_mean"], tensors["distance_mean"])
    x = normal(4, 64)
    assert np.abs(run(plain, x) - run(packed, x)).max() < 4 * 2**-11


def test_vectors_and_matrices_are_halved_together_and_keep_their_shapes():
    tensors = {"network.a.bias": normal(16), "novelty_whitening": normal(16, 16), "network.b.bias": normal(16)}
    nodes = [
        helper.make_node("Add", ["x", "network.a.bias"], ["z"]),
        helper.make_node("MatMul", ["z", "novelty_whitening"], ["u"]),
        helper.make_node("Add", ["u", "network.b.bias"], ["y"]),
    ]
    plain = model(tensors, nodes)
    packed = pack(plain)
    assert held(packed)["half"].shape == (16 + 256 + 16,)
    x = normal(4, 16)
    assert run(packed, x) == pytest.approx(run(plain, x), abs=0.02)
    assert not np.array_equal(run(packed, x), run(plain, x))


def test_a_scale_that_16_bits_would_spoil_stays():
    weight = normal(16, 16) * np.float32(1e-7)
    packed = pack(model({"network.a.weight": weight}, [helper.make_node("MatMul", ["x", "network.a.weight"], ["y"])]))
    assert held(packed)["network.a.weight_scale"].dtype == np.float32


@pytest.mark.parametrize("side", [SMALLEST_TRIANGLE, 13, 38])
def test_of_a_triangular_matrix_one_half_is_held(side):
    matrix = np.triu(normal(side, side))
    nodes = [helper.make_node("MatMul", ["x", "novelty_whitening"], ["y"])]
    packed = pack(model({"novelty_whitening": matrix}, nodes, width=side, columns=side))
    assert held(packed)["half"].shape == (side * (side + 1) // 2,)
    assert sum(value.nbytes for value in held(packed).values()) < matrix.astype(np.float16).nbytes
    unfolded = run(packed, np.eye(side, dtype=np.float32))
    assert np.array_equal(unfolded, matrix.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("matrix", [np.tril(normal(16, 16)), normal(16, 16), np.triu(normal(16, 17)), np.eye(4)])
def test_other_matrices_are_no_triangles(matrix):
    assert not is_triangle(matrix)


@pytest.mark.parametrize("value", [1e5, np.inf])
def test_what_16_bits_cannot_hold_stays(value):
    plain = model(
        {"network.a.bias": np.full(64, value, np.float32)},
        [helper.make_node("Add", ["x", "network.a.bias"], ["y"])],
        width=64,
        columns=64,
    )
    assert held(pack(plain))["network.a.bias"].dtype == np.float32


def test_equal_values_are_held_once_and_unread_ones_not_at_all():
    tensors = {"a": np.zeros(3, np.float32), "b": np.zeros(3, np.float32), "c": np.zeros(3, np.int32), "d": normal(3)}
    nodes = [helper.make_node("Add", ["x", "a"], ["z"]), helper.make_node("Add", ["z", "b"], ["y"])]
    plain = model(tensors, nodes, width=3, columns=3)
    packed = pack(plain)
    assert list(held(packed)) == ["a"]
    x = normal(2, 3)
    assert np.array_equal(run(packed, x), run(plain, x))
    assert len(plain.graph.initializer) == 4  # the original is left as it was


def test_the_released_model_holds_nothing_twice_and_less_than_in_float(tiny):
    plain, packed = (onnx.load(tiny.data("export") / f"{name}.onnx") for name in ("pruned", "int8"))
    sizes = [sum(value.nbytes for value in held(one).values()) for one in (plain, packed)]
    assert sizes[1] < 0.6 * sizes[0]  # so few weights that scales count for much
    contents = [(value.dtype, value.shape, value.tobytes()) for value in held(packed).values()]
    assert len(contents) == len(set(contents))
