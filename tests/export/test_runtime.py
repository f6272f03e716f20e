"""Answering through ONNX Runtime: order, memory, and files that are no models of this project."""

from __future__ import annotations

import os

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from plumbline.export import answers
from plumbline.export.onnx import finish, read_metadata
from plumbline.export.runtime import CPU, OnnxModel
from tests.refusals import refuses


def test_answers_come_in_the_order_of_the_buildings(model, data):
    shuffled = np.random.default_rng(0).permutation(len(data))
    straight, mixed = model.answer(data), model.answer(data.take(shuffled))
    for left, right in zip(straight, mixed, strict=True):
        np.testing.assert_allclose(left[shuffled], right, atol=1e-5)
    assert len(np.unique(straight.severity_permille)) > len(data) / 2  # else any order would pass


def test_many_small_batches_answer_like_one(model, data, monkeypatch):
    whole = model.answer(data)
    monkeypatch.setattr(answers, "CELLS", 40)
    for left, right in zip(whole, model.answer(data), strict=True):
        np.testing.assert_allclose(left, right, atol=1e-5)


@pytest.mark.parametrize(
    "damage",
    [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b"not a model", lambda b: b[1000:]],
    ids=["cut", "empty", "text", "beginning lost"],
)
def test_a_damaged_file_is_refused_by_name(tiny, tmp_path, damage):
    path = tmp_path / "model.onnx"
    path.write_bytes(damage((tiny.data("export") / "pruned.onnx").read_bytes()))
    with refuses("onnx.not_opened", path) as refused:
        OnnxModel(path)
    assert "\n" not in str(refused.value).strip()


def test_somebody_elses_model_is_refused(tmp_path):
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "other", value[:1], value[1:])
    opset = [helper.make_opsetid("", 20)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), tmp_path / "other.onnx")
    with refuses("onnx.other_tensors", "other.onnx", "outputs y", "quadrant_probability, "):
        OnnxModel(tmp_path / "other.onnx")


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"max_length": "many"}, "no JSON"),
        ({"max_length": "0"}, "max_length"),
        ({"quadrants": "7"}, "quadrants"),
        ({"inputs": '[{"type": "bool"}]'}, "inputs.0.name"),
        ({"inputs": '[{"name": "slope", "columns": [{"name": "height"}]}]'}, "inputs.0.columns.0.unit"),
    ],
)
def test_a_file_that_says_something_else_of_itself_is_refused(tiny, tmp_path, changed, place):
    path = tmp_path / "model.onnx"
    path.write_bytes((tiny.data("export") / "pruned.onnx").read_bytes())
    finish(path, {**read_metadata(path), **changed})
    with refuses("onnx.foreign_metadata", path, f"({place})"):
        OnnxModel(path)


@pytest.mark.parametrize(
    ("asked", "threads", "used"),
    [("1", 0, 1), ("7,2", 0, 7), (" 5", 0, 5), ("3", 2, 2), ("", 0, None), ("none", 0, None), (None, 0, None)],
)
def test_the_number_of_threads_is_what_was_asked_for(tiny, monkeypatch, asked, threads, used):
    """One of several processes on a machine is told by OMP_NUM_THREADS to take one; without a number: all cores."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if asked is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
    model = OnnxModel(tiny.data("export") / "pruned.onnx", threads=threads)
    assert model._threads == (used or len(os.sched_getaffinity(0)))
    # Each works on a part of its own: within an operator there is one.
    assert model._session.get_session_options().intra_op_num_threads == 1


def test_a_batch_in_parts_has_the_answers_of_the_whole_in_its_order(tiny, data, monkeypatch):
    monkeypatch.setattr(answers, "MIN_CELLS", 30)
    inputs = data.pad(np.random.default_rng(1).permutation(len(data)))
    alone, shared = (OnnxModel(tiny.data("export") / "pruned.onnx", threads=count) for count in (1, 3))
    assert len(answers.split_by_length(inputs["mask"], 3)) > 3
    for left, right in zip(alone.run(inputs), shared.run(inputs), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=2e-6)  # 32-bit sums in another order


@pytest.mark.filterwarnings("ignore:Specified provider")
@pytest.mark.parametrize("provider", ["CUDAExecutionProvider", "TensorrtExecutionProvider"])
def test_a_device_that_is_not_there_is_an_error(tiny, monkeypatch, provider):
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: None)
    with refuses("onnx.provider_not_started", "pruned.onnx", provider):
        OnnxModel(tiny.data("export") / "pruned.onnx", provider)


@pytest.mark.filterwarnings("ignore:Specified provider")
@pytest.mark.parametrize(("provider", "loaded"), [(CPU, 0), ("CUDAExecutionProvider", 1)])
def test_libraries_of_a_gpu_are_loaded_where_one_is_asked_for(tmp_path, monkeypatch, capsys, provider, loaded):
    """What is said of those that are not found is no output of a command."""
    calls = []
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: calls.append(print("Failed to load libcudart")))
    with refuses("onnx.not_opened", "none.onnx"):
        OnnxModel(tmp_path / "none.onnx", provider)
    assert len(calls) == loaded
    assert capsys.readouterr().out == ""
