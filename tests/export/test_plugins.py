"""Networks of every plug-in on their way out: pruned, exported, in int8, and still the network they were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from plumbline.compress.prune import channel_groups, prune, slopes
from plumbline.export.mixed_precision import quantize
from plumbline.export.onnx import export_onnx
from plumbline.export.runtime import OnnxModel
from plumbline.model.diagnosis import Diagnosis, load_diagnosis
from plumbline.model.network import spec_of
from plumbline.model.spec import new_spec
from plumbline.params import Model
from plumbline.params.plugins import ATTENTION, CONVOLUTION, POOLING, POSITION
from plumbline.prepare.features.shards import load_shards
from plumbline.train.data.splits import fit_statistics
from tests.tiny import kept

TABLES = {"attention": list(ATTENTION), "pooling": list(POOLING), "convolution": list(CONVOLUTION)}
SHARED = {"attention": Model().attention, "pooling": Model().pooling}
"""Of the shared run's network, whose files are compared with it in test_onnx.py: an export takes seconds."""
OTHERS = {kind: [name for name in names if name != SHARED.get(kind)] for kind, names in TABLES.items()}
BESIDE = [{}, {"max_attention_length": 8}, {"checkpoint_activations": True, "attention_layers": 2}, {"kernel": 5}]
"""What else networks differ by."""
KINDS = [
    {
        **{kind: names[min(i, len(names) - 1)] for kind, names in OTHERS.items()},
        # Without attention there is no position.
        **({"position": list(POSITION)[i % len(POSITION)]} if i else {}),
        **BESIDE[i % len(BESIDE)],
    }
    for i in range(max(map(len, OTHERS.values())))
]
DAILY = next(kind for kind in KINDS if len({"attention", "position", "pooling", "convolution"} & kind.keys()) == 4)
LONGEST = 40
GARBAGE = 1e4


@pytest.fixture(scope="module")
def data(tiny):
    every = load_shards(tiny.data("prepare") / "train")
    return every.take(np.flatnonzero(np.asarray(every.length) <= LONGEST))


@pytest.fixture(
    scope="module",
    # The first that has a plug-in of every table stands for the others.
    params=[pytest.param(number, marks=[] if kind is DAILY else pytest.mark.slow) for number, kind in enumerate(KINDS)],
    ids=["-".join(map(str, kind.values())) for kind in KINDS],
)
def number(request):
    """Place in `KINDS`."""
    return request.param


@pytest.fixture(scope="module")
def whole(number, data):
    """A network of random weights that knows the training data's statistics."""
    torch.manual_seed(1)
    widths = {"channels": 16, "blocks": 1, "heads": 2, "attention_layers": 1, "hidden": 24}
    model = Diagnosis(new_spec(Model.model_validate({**widths, **KINDS[number]}), LONGEST))
    fit_statistics(model, data)
    return model.eval()


@pytest.fixture(scope="module")
def half(whole, data, tiny):
    shares = dict.fromkeys(channel_groups(whole), 0.5)
    return prune(whole, shares, slopes(whole, data, tiny.params.train, batches=1, seed=0))


@pytest.fixture(scope="module")
def exported(half, number):
    """The file, kept for later sessions: an export takes seconds."""

    def make(folder):
        export_onnx(half.train(), folder / "pruned.onnx", 20)  # as it is, even in the midst of training

    return kept(f"plugins{number}", make, Path(__file__)) / "pruned.onnx"


def test_every_plugin_is_in_one_of_them(tiny):
    shared = spec_of(load_diagnosis(tiny.data("compress")).network)
    assert {kind: getattr(shared, kind) for kind in SHARED} == SHARED
    for kind, names in {**OTHERS, "position": list(POSITION)}.items():
        assert set(names) <= {network.get(kind) for network in KINDS}, kind


def test_the_pruned_channels_are_the_same_in_all_that_reads_them(whole, data, tiny):
    marked = Diagnosis(spec_of(whole.network))
    marked.load_state_dict(whole.state_dict())
    names = torch.arange(1, 33) / 32
    with torch.no_grad():
        marked.network.neck.norm.weight.copy_(names)
        for look in marked.network.pool.looks:
            for parameter in look.parameters():
                parameter.copy_(names)
    shares = dict.fromkeys(channel_groups(marked), 0.5)
    kept = prune(marked.eval(), shares, slopes(marked, data, tiny.params.train, batches=1, seed=0)).network
    assert len(kept.neck.norm.weight) == 16
    for parameter in kept.pool.parameters():
        assert torch.equal(parameter, kept.neck.norm.weight)


@pytest.mark.slow  # an export takes seconds
def test_the_pruned_network_answers_in_onnx_as_in_torch(half, exported, data):
    onnx_model, rng = OnnxModel(exported, threads=1), np.random.default_rng(2)
    for number, length in ((1, 1), (5, 7), (5, 8), (20, 9), (3, LONGEST)):
        inputs = data.pad(np.arange(number), LONGEST)
        inputs["mask"] &= np.arange(LONGEST) < np.linspace(length, 1, number).astype(int)[:, None]
        for name in ("distance", "slope", "mask"):
            inputs[name] = inputs[name][:, :length]
        for name in ("distance", "slope"):
            empty = ~inputs["mask"]
            inputs[name][empty] = GARBAGE * rng.standard_normal((empty.sum(), inputs[name].shape[-1]))
        with torch.inference_mode():
            wanted = half.eval()(*(torch.from_numpy(np.array(inputs[name])) for name in inputs))
        found = onnx_model.run(inputs)
        assert np.abs(found.quadrant_probability - wanted.quadrant_probability.numpy()).max() < 1e-4
        for left, right in zip(found[1:4], wanted[1:4], strict=True):
            assert np.abs(left - right.numpy()).max() < 1e-3


@pytest.mark.slow
def test_int8_answers_nearly_so_and_holds_the_weights(half, exported, data, tiny, tmp_path):
    section = tiny.params.export.model_copy(update={"calibration_batches": 2, "calibration_batch_size": 16})
    quantize(exported, tmp_path / "int8.onnx", data, section)
    inputs = data.pad(np.arange(20))
    plain, small = (OnnxModel(path).run(inputs) for path in (exported, tmp_path / "int8.onnx"))
    assert np.abs(plain.quadrant_probability - small.quadrant_probability).max() < 0.1
    assert np.abs(plain.severity_permille - small.severity_permille).max() < 0.3
    np.testing.assert_allclose(small.novelty, plain.novelty, rtol=1e-3)  # the whitening has 16 bits
    kinds = {
        tensor.data_type for tensor in onnx.load(tmp_path / "int8.onnx").graph.initializer if len(tensor.dims) == 3
    }
    assert kinds == {onnx.TensorProto.INT8}  # convolutions, depthwise ones too
