"""int8: which layers, from which data, and how near to the float model."""

import csv
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from onnx import TensorProto

from plumbline import pretrained
from plumbline.compress.quantize import OPERATORS, SMALLEST_MATRIX, Calibration, quantiser, round_weights
from plumbline.export import mixed_precision
from plumbline.export.mixed_precision import quantize
from plumbline.export.onnx import export_onnx, finish, read_metadata
from plumbline.export.runtime import OnnxModel
from plumbline.export.weights import load_network
from plumbline.model.diagnosis import load_diagnosis
from plumbline.params import Export
from plumbline.params.compress import Change
from plumbline.prepare.features.shards import load_shards
from tests.refusals import refuses, warned


def graph(path):
    return onnx.load(path).graph


HEADS = ("quadrant_head", "severity_head", "accepted_head", "level_head", "mechanism_head")
KEPT = ("whitening", "network.geometry", *HEADS)
"""The whitening, which tells the unlike from the like, the layer that reads the same numbers, and all heads."""


def products(nodes, initialisers):
    """Weight's name -> node, of all products that read a weight."""
    named = [node for node in nodes if node.op_type in OPERATORS]
    return {node.input[1]: node for node in named if node.input[1] in initialisers}


def test_every_weight_is_in_int8_and_few_activations_are_not(tiny):
    plain, quantised = graph(tiny.data("export") / "pruned.onnx"), graph(tiny.data("export") / "int8.onnx")
    before = products(plain.node, {tensor.name: tensor for tensor in plain.initializer})
    held = {tensor.name: tensor for tensor in quantised.initializer}
    maker = {name: node for node in quantised.node for name in node.output}
    codes, in_int8, in_float = set(), set(), set()
    for node in quantised.node:
        if node.op_type not in OPERATORS or maker.get(node.input[1], node).op_type != "DequantizeLinear":
            continue
        code = maker[node.input[1]].input[0]
        if code not in held:
            continue  # both inputs are activations
        codes.add(code)
        rounded = node.input[0] in maker and maker[node.input[0]].op_type == "DequantizeLinear"
        (in_int8 if rounded else in_float).add(code.removesuffix("_quantized"))
    assert all(held[code].data_type == TensorProto.INT8 for code in codes)
    assert in_int8.isdisjoint(in_float)
    assert in_int8 == {name for name in before if not any(part in name for part in KEPT)}
    assert all(any(part in name for part in KEPT) for name in in_float)
    assert len(in_int8) > 10
    # What has no 8 bits is so small that the operator to widen it would take more, or tells the unlike.
    rest = [name for name in before if f"{name}_quantized" not in codes]
    assert all("whitening" in name or size(plain, name) < SMALLEST_MATRIX for name in rest)


def size(held, name):
    (found,) = (tensor for tensor in held.initializer if tensor.name == name)
    return int(np.prod(found.dims))


def test_attention_scores_stay_in_float(tiny):
    quantised = graph(tiny.data("export") / "int8.onnx")
    fixed = {tensor.name for tensor in quantised.initializer}
    maker = {name: node for node in quantised.node for name in node.output}
    readers = {name: node.op_type for node in quantised.node for name in node.input}
    scores = []
    for node in quantised.node:
        if node.op_type == "MatMul":
            source = maker[node.input[1]]
            if source.op_type not in ("DequantizeLinear", "Cast") or source.input[0] not in fixed:
                scores.append(node)
    assert len(scores) == 2  # queries with keys, scores with values
    for node in scores:
        assert "DequantizeLinear" not in {maker[name].op_type for name in node.input}
        assert readers[node.output[0]] != "QuantizeLinear"


def test_a_building_unlike_all_others_seems_so_to_both(tiny):
    """Activations are clipped to the range of the calibration data; what tells of the unlike must not be."""
    test = load_shards(tiny.data("prepare") / "test")
    inputs = test.pad(np.arange(4))
    inputs["geometry"] = np.asarray(inputs["geometry"]) * np.float32(100)
    plain, quantised = (OnnxModel(tiny.data("export") / f"{name}.onnx").run(inputs) for name in ("pruned", "int8"))
    assert (plain.novelty > 2).all()
    assert quantised.novelty == pytest.approx(plain.novelty, rel=1e-3)


@pytest.mark.parametrize(("buildings", "sizes"), [(40, [8] * 4), (3, [1] * 3)])
def test_a_calibration_uses_each_building_once(data, buildings, sizes):
    calibration = Calibration(data.take(np.arange(buildings)), batches=4, batch_size=8, seed=0)
    batches = list(iter(calibration.get_next, None))
    assert [len(batch["geometry"]) for batch in batches] == sizes
    rows = np.concatenate([batch["geometry"] for batch in batches])
    assert len(np.unique(rows, axis=0)) == sum(sizes)


def test_a_city_that_is_there_twice_is_refused_and_leaves_no_file(tiny, data, tmp_path):
    same = data.take(np.zeros(32, dtype=int))
    section = tiny.params.export.model_copy(update={"calibration_batches": 4, "calibration_batch_size": 8})
    with refuses("calibration.repeated_batch", "export.calibration_batches"):
        quantize(tiny.data("export") / "pruned.onnx", tmp_path / "int8.onnx", same, section)
    assert list(tmp_path.iterdir()) == []


def test_layers_go_back_to_float_until_the_bound_is_kept(tiny, data, tmp_path):
    """The bound is less than all layers in int8 do, as the stage has found it."""
    exported, section = tiny.data("export"), tiny.params.export
    with (exported / "quantisation.csv").open() as stream:
        (every,) = csv.DictReader(stream)
    assert (every["chosen"], every["in_float"]) == ("True", "")
    assert 0 < float(every["probability"]) <= section.max_change.probability
    bound = 0.8 * float(every["probability"])
    largest = section.max_change.model_copy(update={"probability": bound, "permille": 1e6})
    changed = {"max_change": largest, "calibration_batches": 2, "calibration_batch_size": 8}
    rows = quantize(exported / "pruned.onnx", tmp_path / "int8.onnx", data, section.model_copy(update=changed))
    chosen = rows[-1]
    assert [row["chosen"] for row in rows] == [False] * (len(rows) - 1) + [True]
    assert chosen["probability"] <= bound
    assert chosen["in_float"]
    # The group that alone bought most went first.
    alone = [row for row in rows[1:] if " " not in row["in_float"]]
    best = min(alone, key=lambda row: row["probability"])
    assert chosen["in_float"].split(" ")[0] == best["in_float"]
    assert (tmp_path / "int8.onnx").read_bytes() != (exported / "int8.onnx").read_bytes()


@pytest.mark.parametrize(("bound", "kept"), [(9.0, ""), (4.5, "b"), (2.5, "b a"), (0.5, "b a c")])
def test_as_few_groups_go_back_as_keep_the_bound_the_worst_first(monkeypatch, caplog, bound, kept):
    """Of three groups whose products change answers by 3, 2 and 1, and weights that change them by 1."""
    by_layer = {"b": 3.0, "a": 2.0, "c": 1.0}

    def answers(in_float, _):
        change = 1.0 + sum(by_layer.values()) - sum(by_layer[name] for name in in_float)
        return [np.full(2, change), np.zeros(2)]

    monkeypatch.setattr(mixed_precision, "_answers", answers)
    ways = SimpleNamespace(layers=lambda: ["a", "b", "c"], quantise=list)
    _, rows = mixed_precision._least_in_float(ways, [np.zeros(2)] * 2, [], Change(probability=bound, permille=1.0))
    assert (rows[-1]["in_float"], rows[-1]["chosen"]) == (kept, True)
    assert not any(row["chosen"] for row in rows[:-1])
    assert len(warned(caplog, "int8.beyond_bound")) == (bound < 1)


@given(arrays(np.float32, (3, 5), elements=st.floats(-1e6, 1e6, width=32)), st.sampled_from([0, 1]))
@example(np.full((3, 5), 1e-45, np.float32), 0)
def test_a_weight_is_off_by_half_of_a_step_at_most(value, axis):
    code, scale = round_weights(value, axis)
    step = scale.reshape([-1, 1] if axis == 0 else [1, -1])
    assert (np.abs(code * step - value) <= step * 0.5001).all()
    assert np.abs(code.astype(int)).max() <= 127
    assert (code[value == 0] == 0).all()


def test_weights_in_int8_take_half_and_the_shipped_file_a_fifth(tiny):
    """Of the tiny network many matrices are too small for 8 bits."""
    plain, quantised = (
        sum(onnx.numpy_helper.to_array(tensor).nbytes for tensor in graph(tiny.data("export") / name).initializer)
        for name in ("pruned.onnx", "int8.onnx")
    )
    assert quantised < 0.55 * plain
    before = pretrained.MODEL / "model.safetensors"
    assert (pretrained.PACKAGE / "model.int8.onnx").stat().st_size < 0.2 * before.stat().st_size


def test_no_two_nodes_have_one_name(tiny):
    """ONNX Runtime 1.18 gives what it fuses a node's name, and refuses a graph in which two are equal."""
    names = [node.name for node in graph(tiny.data("export") / "int8.onnx").node]
    assert "" not in names
    assert len(set(names)) == len(names)


@pytest.mark.slow
def test_the_shipped_network_in_int8_is_a_sixth_of_the_one_before_pruning(data, tmp_path):
    models = {"float32": load_diagnosis(pretrained.MODEL), "pruned": load_network(pretrained.PACKAGE)}
    for name, model in models.items():
        export_onnx(model, tmp_path / f"{name}.onnx", Export().opset)
    with quantiser(tmp_path / "pruned.onnx", Calibration(data, 2, 8, seed=0)) as ways:
        onnx.save(ways.quantise(), tmp_path / "int8.onnx")
    finish(tmp_path / "int8.onnx", read_metadata(tmp_path / "pruned.onnx"))
    assert (tmp_path / "int8.onnx").stat().st_size < 0.17 * (tmp_path / "float32.onnx").stat().st_size
