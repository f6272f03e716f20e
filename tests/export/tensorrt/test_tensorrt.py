"""TensorRT as far as a machine without a GPU can tell: what an engine is kept by, who is refused, what is asked for.

Only the last test, on a GPU, builds and runs engines.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st

from plumbline.core.errors import InputError
from plumbline.export.interface import NAMES
from plumbline.export.onnx import finish, in_half, read_metadata
from plumbline.export.runtime import OnnxModel
from plumbline.export.tensorrt import build as building
from plumbline.export.tensorrt import from_torch
from plumbline.export.tensorrt.device import Device, this_device
from plumbline.export.tensorrt.from_torch import trace
from plumbline.export.tensorrt.runtime import (
    ABOUT,
    MAX_BATCH,
    PLAN,
    Key,
    TensorRTModel,
    engine_folder,
    profile,
    read_engine,
    refuse_other,
    write_engine,
)
from plumbline.export.weights import network_files
from plumbline.model.diagnosis import load_diagnosis
from plumbline.prepare.features.shards import load_shards
from plumbline.pretrained import PACKAGE
from tests.refusals import refuses
from tests.tiny import PARAMS, run_cli

HERE = importlib.util.find_spec("tensorrt") is not None and torch.cuda.is_available()
without = pytest.mark.skipif(HERE, reason="TensorRT and a GPU are here")
DEVICE = Device(gpu="NVIDIA H200", compute_capability="9.0", tensorrt="11.0.0.114")
COLUMNS = {"distance": 6, "slope": 16, "geometry": 76}
KEY = Key(artifact="fp16", through="onnx", onnx_sha256="0" * 64, device=DEVICE, profile=profile(128))


@given(st.integers(1, 5000))
def test_a_profile_takes_any_batch_and_length_up_to_the_largest(length):
    shapes = profile(length).shapes(COLUMNS)
    assert tuple(shapes) == NAMES
    for least, best, most in shapes.values():
        assert all(a <= b <= c for a, b, c in zip(least, best, most, strict=True))
    assert shapes["slope"][0] == (1, 1, 16)
    assert shapes["slope"][2] == (MAX_BATCH, length, 16)
    assert shapes["geometry"][2] == (MAX_BATCH, 76)
    assert shapes["mask"][2] == (MAX_BATCH, length)


@pytest.mark.parametrize(
    "other",
    [
        *({"device": DEVICE.model_copy(update={name: "1.2"})} for name in Device.model_fields),
        {"artifact": "pruned"},
        {"through": "torch"},
        {"onnx_sha256": "1" * 64},
        {"profile": profile(64)},
    ],
    ids=lambda other: "-".join(other),
)
def test_whatever_decides_an_engine_gives_it_a_folder_of_its_own(other, tmp_path):
    changed = KEY.model_copy(update=other)
    assert engine_folder(tmp_path, changed) != engine_folder(tmp_path, KEY)
    assert engine_folder(tmp_path, changed) == engine_folder(tmp_path, Key.model_validate(changed.model_dump()))


@pytest.fixture
def engine(tiny, tmp_path):
    """An engine's folder as one from another machine would lie there; its plan is none, which only a GPU could tell."""
    about = OnnxModel(tiny.data("export") / "fp16.onnx").about
    write_engine(tmp_path / "engine", b"a plan", {"key": KEY, "columns": COLUMNS, "said": about})
    return tmp_path / "engine"


def test_an_engine_is_read_as_it_was_written_and_a_damaged_one_refused_by_name(engine):
    about, plan = read_engine(engine)
    assert (plan, about.key, about.columns, about.said.max_length) == (b"a plan", KEY, COLUMNS, 128)
    (engine / PLAN).write_bytes(b"a plam")
    with refuses("engine.changed", engine / PLAN):
        read_engine(engine)
    (engine / PLAN).unlink()
    with refuses("engine.unreadable", engine / PLAN):
        read_engine(engine)
    (engine / ABOUT).write_text("{}")
    with refuses("engine.bad_value", engine / ABOUT, "key"):
        read_engine(engine)
    with pytest.raises(InputError, match=ABOUT):
        read_engine(engine.parent)


@pytest.mark.parametrize("name", Device.model_fields)
def test_another_gpu_or_version_is_refused_with_both_named(name, tmp_path):
    here = DEVICE.model_copy(update={name: "something else"})
    place = f"{name.replace('_', ' ')} {getattr(DEVICE, name)} (here something else)"
    with refuses("engine.other_device", tmp_path, place, "`plumbline tensorrt PACKAGE --output FOLDER`"):
        refuse_other(DEVICE, here, tmp_path)


def test_torch_tensorrt_is_told_that_padding_is_no_causal_mask(tmp_path, monkeypatch):
    """Its own default replaces the mask of padding by a causal one, where the attention is torch's efficient one."""
    asked = {}

    def convert(program, **options):
        asked.update(options)
        return b"a plan"

    made = ModuleType("torch_tensorrt")
    made.Input = lambda **about: SimpleNamespace(**about)
    made.dynamo = SimpleNamespace(convert_exported_program_to_serialized_trt_engine=convert)
    monkeypatch.setitem(sys.modules, "torch_tensorrt", made)
    monkeypatch.setattr(from_torch, "trace", lambda model, device: "a program")  # a real one is below
    weights = network_files(PACKAGE)
    plan = from_torch.plan_from_torch(
        *weights, artifact="pruned", shapes=profile(128), columns=COLUMNS, timings=tmp_path / "timings"
    )
    assert plan == b"a plan"
    assert asked["attn_bias_is_causal"] is False
    assert [given.name for given in asked["arg_inputs"]] == list(NAMES)


@without
def test_a_machine_without_is_told_all_that_it_needs(engine):
    advice = '`make install EXTRAS=trt PIP_ARGS="--extra-index-url NVIDIAS_INDEX"`'
    with refuses("tensorrt.missing", "`trt`", "tensorrt and torch_tensorrt", advice) as refusal:
        this_device()
    message = str(refusal.value)
    assert torch.cuda.is_available() or "built without CUDA" in message or "sees no GPU" in message
    with refuses("tensorrt.missing"):
        TensorRTModel(engine)


@without
def test_the_stage_builds_engines_only_where_they_are_named_and_can_be_built(tiny, tmp_path):
    assert not (tiny.data("export") / "engines").exists()
    project = tiny.copy(tmp_path / "project", "prepare", "train", "compress")
    asked = {**PARAMS, "export": {**PARAMS["export"], "engines": ["fp16"]}}
    (project / "params.yaml").write_text(yaml.safe_dump(asked))
    ended = run_cli("export", cwd=project)
    assert (ended.code, (project / "data" / "export").exists()) == (2, False)
    assert "extra `trt`" in ended.err


def test_a_model_that_is_not_in_the_package_or_says_nothing_is_refused(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(building, "this_device", lambda: DEVICE)
    with refuses("engine.int8_through_torch", "onnx"):
        building.build_from_package(tiny.data("package"), tmp_path / "engines", "int8", "torch")
    bare = tmp_path / "bare.onnx"
    bare.write_bytes((tiny.data("export") / "pruned.onnx").read_bytes())
    finish(bare, {})
    assert read_metadata(bare) == {}
    with refuses("onnx.foreign_metadata", bare):
        building.build(bare, (bare, bare), tmp_path / "engines", artifact="pruned", device=DEVICE, through="onnx")
    assert not (tmp_path / "engines").exists()


@pytest.mark.slow
def test_what_torch_tensorrt_is_given_takes_every_shape(tiny):
    """The program that torch makes of the network is real here; what TensorRT makes of it is not seen."""
    model = in_half(load_diagnosis(tiny.data("compress")))
    program = trace(model, "cpu").module()
    data = load_shards(tiny.data("prepare") / "test")
    for batch, length in ((1, 1), (2, 9), (3, 128)):
        inputs = data.pad(np.arange(batch), 128)
        for name in ("distance", "slope", "mask"):
            inputs[name] = inputs[name][:, :length]
        given = [torch.from_numpy(inputs[name]) for name in NAMES]
        with torch.no_grad():
            for left, right in zip(program(*given), model(*given), strict=True):
                torch.testing.assert_close(left, right, atol=1e-2, rtol=1e-3)


@pytest.mark.gpu
@pytest.mark.skipif(not HERE, reason="no TensorRT, or no GPU")
@pytest.mark.parametrize(
    ("artifact", "through"),
    [("pruned", "onnx"), ("fp16", "onnx"), ("int8", "onnx"), ("pruned", "torch"), ("fp16", "torch")],
)
def test_an_engine_answers_as_its_onnx_file(tiny, tmp_path, artifact, through):
    """The one test that builds and runs engines."""
    folder = building.build_from_package(tiny.data("package"), tmp_path, artifact, through)
    plan = (folder / PLAN).stat()
    assert building.build_from_package(tiny.data("package"), tmp_path, artifact, through) == folder
    assert (folder / PLAN).stat() == plan  # one that TensorRT opens is not built anew
    model = TensorRTModel(folder)
    onnx_model, data = OnnxModel(tiny.data("export") / f"{artifact}.onnx"), load_shards(tiny.data("prepare") / "test")
    found, expected = model.answer(data), onnx_model.answer(data)
    probability, permille = {"pruned": (1e-4, 1e-3), "fp16": (5e-3, 2e-2), "int8": (0.2, 2.0)}[artifact]
    assert np.abs(found.quadrant_probability - expected.quadrant_probability).max() < probability
    assert np.abs(found.severity_permille - expected.severity_permille).max() < permille
    with refuses("inputs.too_large_batch", 256):
        model.run(data.pad(np.zeros(257, dtype=int)))
