"""Fine-tuning that sees int8: the rounding is that of export's file, nothing of it stays, and int8 loses less by it."""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

from plumbline.compress.qat import (
    BATCH_SIZE,
    BATCHES,
    PRODUCT_CODES,
    AwareOptimisation,
    Rounding,
    product_layers,
    round_weight,
    worth,
)
from plumbline.compress.quantize import OPERATORS, Calibration, layer_names, quantiser
from plumbline.compress.stage import compress
from plumbline.core.errors import InputError
from plumbline.core.files import read_json, write_json
from plumbline.export.onnx import export_onnx
from plumbline.export.runtime import OnnxModel
from plumbline.model.diagnosis import Diagnosis, load_diagnosis, save_diagnosis
from plumbline.model.spec import new_spec
from plumbline.params import parse_params
from plumbline.prepare.features.shards import save_shards
from plumbline.train.data.splits import fit_statistics
from plumbline.train.fit import trainer as fit_module
from plumbline.train.fit.module import Optimisation
from plumbline.train.fit.short_run import quick_fit
from tests.tiny import kept
from tests.train import made
from tests.train.made import make_params, make_sequences, save_prepared, settings

CPU = torch.device("cpu")
VARIANTS = [
    {"convolution": "separable", "attention": "math", "position": "sinusoidal", "pooling": "attention"},
    {"attention": "none", "pooling": "mean_deviation", "checkpoint_activations": True},
]


class Killed(BaseException):
    """Stands for the end of the process."""


def network(data, **model):
    torch.manual_seed(1)
    diagnosis = Diagnosis(new_spec(make_params(model).model, 24))
    fit_statistics(diagnosis, data)
    return diagnosis.eval()


def spoil(model):
    """Make int8 hurt: in each group, one column of weights is far larger than the others, which share a few codes then.

    It does nothing in float: what it is multiplied with is smaller by as much, or always 0.
    """
    layer, joined = model.network.neck.layers[0], model.network.heads.join_geometry
    readers = {
        layer.norm_attention: [layer.attention.query, layer.attention.key, layer.attention.value],
        layer.norm_feedforward: [layer.widen],
        **{
            block.norm: [block.first]
            for stream in (model.network.encoder.distance, model.network.encoder.slope)
            for block in stream.blocks
        },
    }
    with torch.no_grad():
        for norm, layers in readers.items():
            norm.weight[0] /= 100
            norm.bias[0] /= 100
            for reader in layers:
                reader.weight[:, 0] *= 100
        model.network.geometry[0].weight[0] = 0
        model.network.geometry[0].bias[0] = 0
        before = answers(model, make_sequences(20))
        joined.weight[:, 0] = 100
    torch.testing.assert_close(answers(model, make_sequences(20)), before)


def answers(model, data):
    inputs = data.pad(np.arange(len(data)))
    with torch.inference_mode():
        return model(*(torch.from_numpy(np.array(inputs[name])) for name in ("distance", "slope", "geometry", "mask")))


def measured(model, data):
    """The rounding of `model`, with ranges from `data`."""
    calibration = Calibration(data, BATCHES, BATCH_SIZE, seed=0)
    given = [
        [torch.from_numpy(np.array(inputs[name])) for name in ("distance", "slope", "geometry", "mask")]
        for inputs in iter(calibration.get_next, None)
    ]
    rounding = Rounding(model.network, CPU)
    with torch.no_grad():
        rounding.measure(lambda: [model.raw(*inputs) for inputs in given])
    return rounding


@pytest.fixture(scope="module")
def data():
    return make_sequences(700, 3)


def in_int8(model, data, folder):
    """Write `float.onnx` and `int8.onnx`; the name of each product's layer."""
    export_onnx(model, folder / "float.onnx", 20)
    with quantiser(folder / "float.onnx", Calibration(data, BATCHES, BATCH_SIZE, seed=0)) as ways:
        onnx.save(ways.static(), folder / "int8.onnx")
        return layer_names(ways._model)


@pytest.fixture(scope="module")
def spoiled(data):
    """A trained network that int8 hurts, its files, and the layers of their products: kept, as an export takes long."""

    def make(folder):
        model = network(data)
        quick_fit(model, data, make_params(epochs=15, learning_rate=0.01, batch_size=64, schedule="cosine").train)
        spoil(model)
        save_diagnosis(model, folder)
        write_json(folder / "layers.json", in_int8(model, data, folder))

    folder = kept("spoiled", make, Path(__file__), Path(made.__file__))
    return load_diagnosis(folder), folder, read_json(folder / "layers.json")


def in_file(path, names):
    """Layer -> codes, their scales, and the scale of the input, of every int8 product of a file."""
    model = onnx.load(path)
    maker = {name: node for node in model.graph.node for name in node.output}
    value = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    halves = halved(model, value)
    found = {}
    for node in model.graph.node:
        parts = [maker.get(name) for name in node.input[:2]]
        if node.op_type in OPERATORS and all(part and part.op_type == "DequantizeLinear" for part in parts):
            inputs, weights = parts
            codes = value[weights.input[0]]
            scales = {**value, **halves}[weights.input[1]]
            turned = codes.T if node.op_type == "MatMul" else codes
            found[names[node.name]] = (turned, scales, float(value[inputs.input[1]]))
    return found


def halved(model, value):
    """Vectors that the file holds in one initialiser of 16 bits."""
    (split,) = [node for node in model.graph.node if node.name == "parts"]
    ends = np.cumsum(value["half_sizes"].astype(int))
    return dict(zip(split.output, np.split(value["half"].astype(np.float32), ends[:-1]), strict=True))


def test_codes_and_ranges_are_those_of_the_int8_file(data, spoiled):
    model, folder, names = spoiled
    rounding = measured(model, data)
    found = in_file(folder / "int8.onnx", names)
    assert set(found) == set(product_layers(model.network))
    inputs = rounding.input_scales()
    for name, (codes, scales, input_scale) in found.items():
        weight = model.network.get_submodule(name).weight.detach()
        own_scale = worth(weight.flatten(1).abs().amax(1), PRODUCT_CODES)
        scale = own_scale.reshape(-1, *[1] * (weight.ndim - 1))
        own, exact = round_weight(weight, PRODUCT_CODES) / scale, (weight / scale).numpy()
        tie = np.abs(np.abs(exact - np.floor(exact)) - 0.5) < 1e-4
        assert tie.mean() < 0.01
        assert np.array_equal(np.rint(own.numpy())[~tie], codes[~tie]), name
        assert np.abs(codes).max() == PRODUCT_CODES
        assert own_scale.numpy() == pytest.approx(scales, rel=1e-3)  # may be held in 16 bits
        assert inputs[name] == pytest.approx(input_scale, rel=1e-4), name
    rounding.remove()


def test_the_rounded_network_answers_as_the_int8_file_and_not_as_float(data, spoiled):
    model, folder, _ = spoiled
    some = data.take(np.arange(200))
    plain = answers(model, some).severity_permille.numpy()
    rounding = measured(model, data)
    seen = answers(model, some).severity_permille.numpy()
    rounding.remove()
    file = OnnxModel(folder / "int8.onnx").answer(some).severity_permille
    assert np.abs(seen - file).mean() < 0.25 * np.abs(plain - file).mean()


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_nothing_is_left_of_the_rounding(data, settings):
    model = network(data, **settings)
    some = data.take(np.arange(12))
    state = {name: value.clone() for name, value in model.state_dict().items()}
    before = answers(model, some)
    rounding = measured(model, data)
    assert list(model.state_dict()) == list(state)
    again = network(data, **settings)
    assert [name for name, _ in model.named_parameters()] == [name for name, _ in again.named_parameters()]
    model.train()
    inputs = some.pad(np.arange(12))
    raw = model.raw(*(torch.from_numpy(np.array(inputs[name])) for name in ("distance", "slope", "geometry", "mask")))
    sum(part.sum() for part in raw).backward()
    slopes = {name: part.grad for name, part in model.network.named_parameters() if part.requires_grad}
    assert all(slope is not None and torch.isfinite(slope).all() for slope in slopes.values())
    assert all(
        slopes[f"{name}.weight"].abs().max() > 0
        for name in product_layers(model.network)
        if "query" not in name and "key" not in name
    )
    model.eval()
    assert not torch.equal(answers(model, some).severity_permille, before.severity_permille)
    rounding.remove()
    assert all(torch.equal(one, other) for one, other in zip(answers(model, some), before, strict=True))
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    for part in model.modules():
        assert not part._forward_pre_hooks
        assert not part._forward_hooks
        assert "weight" not in vars(part)


def test_what_the_padding_holds_changes_no_range(data):
    """Only the fill of the padding differs; how far it is padded is as in export."""
    model = network(data)
    inputs = {name: torch.from_numpy(np.array(value)) for name, value in data.pad(np.arange(64)).items()}
    assert not inputs["mask"].all()
    scales = []
    for fill in (0.0, 1e30):
        outside = ~inputs["mask"][..., None]
        given = [inputs[name].masked_fill(outside, fill) for name in ("distance", "slope")]
        rounding = Rounding(model.network, CPU)
        with torch.no_grad():
            rounding.measure(lambda given=given: model.raw(*given, inputs["geometry"], inputs["mask"]))
        scales.append(rounding.input_scales())
        rounding.remove()
    assert scales[0] == scales[1]


@pytest.fixture
def work(tmp_path, monkeypatch, spoiled, data):
    """A project folder with prepared buildings and a trained network that int8 hurts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "file:nowhere")
    save_prepared(Path("data/prepare"))
    save_shards([data], Path("data/prepare/train"))
    save_diagnosis(spoiled[0], Path("data/train"))
    return tmp_path


ASKED = {
    "pruning_ratio": 0.0,
    "sensitivity": 0,
    "importance_batches": 1,
    "epochs": 3,
    "patience": 1,
    "learning_rate": 0.003,
    "batch_size": 64,
    "schedule": "cosine",
}


def run(out, dies_before=None, train=None, **changed):
    """The stage, on a network that loses no channel; `dies_before` an epoch, counted from 0."""

    def on_train_epoch_start(self):
        if self.current_epoch == dies_before:
            raise Killed

    content = settings(accelerator="cpu", **(train or {}))
    content["compress"] = {**ASKED, **changed}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Optimisation, "on_train_epoch_start", on_train_epoch_start)
        compress(Path("data/prepare"), Path("data/train"), parse_params(content), Path(out))


def weights(out):
    return (Path(out) / "model.safetensors").read_bytes()


@pytest.mark.parametrize("settings", [{}, *VARIANTS], ids=str)
def test_the_rounding_reads_no_value_back_from_its_device(data, settings):
    """A GPU would be waited for: once with what was rounded by torch's observers in each of some hundred places."""
    model = network(data, **settings).train()
    rounding = measured(model, data)
    inputs = [
        torch.from_numpy(np.array(data.pad(np.arange(12))[name])) for name in ("distance", "slope", "geometry", "mask")
    ]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        raw = model.raw(*inputs)
        sum(part.sum() for part in raw).backward()
    rounding.remove()
    done = {event.name for event in profile.events()}
    assert "aten::fake_quantize_per_channel_affine_cachemask" in done
    assert "aten::_local_scalar_dense" not in done


@pytest.mark.slow
def test_steps_that_torch_has_compiled_are_rounded_too(work, monkeypatch):
    """What is compiled before the rounding begins goes on without it, and validation, which is not, shows nothing."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))  # traced, and not built
    rounded, each = [], []

    def counted(*given):
        rounded.append(given)
        return round_weight(*given)

    def training_step(self, *given):
        before = len(rounded)
        loss = step(self, *given)
        each.append((self.current_epoch, len(rounded) - before))
        return loss

    step = AwareOptimisation.training_step
    monkeypatch.setattr("plumbline.compress.qat.round_weight", counted)
    monkeypatch.setattr(AwareOptimisation, "training_step", training_step)
    run("out", epochs=2, quantisation_aware=1, train={"compile": True})
    layers = len(product_layers(load_diagnosis(Path("out")).network))
    assert {count for epoch, count in each if epoch == 0} == {0}
    assert all(count >= layers for epoch, count in each if epoch == 1)
    assert each[-1][0] == 1


@pytest.mark.slow
def test_int8_of_a_badly_scaled_network_loses_less(work, data):
    """Against what int8 adds to the error of a network tuned without it; both are rounded as a file is, see above."""
    changed = {"epochs": 12, "patience": 12, "learning_rate": 0.01}

    def error(severity):
        return np.abs(np.asarray(severity) - np.asarray(data.severity)).mean()

    def rounded(model):
        rounding = measured(model, data)
        found = error(answers(model, data).severity_permille)
        rounding.remove()
        return found

    # Severity alone is looked at, as twelve epochs of 700 buildings are few for five losses.
    train = {f"{name}_weight": 0 for name in ("accepted", "level", "mechanism")}
    run("plain", train=train, **changed)
    run("aware", quantisation_aware=12, train=train, **changed)
    plain = load_diagnosis(Path("plain"))
    before = error(answers(plain, data).severity_permille)
    without, aware = rounded(plain), rounded(load_diagnosis(Path("aware")))
    assert without > 1.3 * before
    assert aware - before < 0.5 * (without - before)


def test_a_cut_run_ends_as_if_it_had_not_been(work, data):
    """Cut before the rounding begins, and between two of its epochs; with the mean of the weights."""
    save_shards([data.take(np.arange(200))], Path("data/prepare/train"))
    changed = {"quantisation_aware": 2, "ema_decay": 0.9}
    run("whole", **changed)
    for dies_before in (1, 2):
        cut = f"cut_{dies_before}"
        with pytest.raises(Killed):
            run(cut, dies_before=dies_before, **changed)
        run(cut, **changed)
        assert weights(cut) == weights("whole"), dies_before
        assert Path(cut, "history.csv").read_text() == Path("whole/history.csv").read_text(), dies_before
        assert not list(Path(".plumbline/checkpoints").iterdir())


def test_only_the_last_epochs_see_it_and_one_of_them_is_kept(work, monkeypatch):
    """The first epoch is that of a run without it; patience of 1 does not end the run before its last epochs."""
    seen = []
    monkeypatch.setattr(fit_module, "log_record", lambda records, record: seen.append(record))
    run("plain", learning_rate=0.0001)
    run("aware", learning_rate=0.0001, quantisation_aware=2)
    rows = []
    for out in ("plain", "aware"):
        with Path(out, "history.csv").open() as stream:
            rows.append(list(csv.DictReader(stream)))
    assert rows[0][0] == rows[1][0]
    assert rows[0][1] != rows[1][1]
    assert seen[1]["best_epoch"] >= 2
    kept = rows[1][seen[1]["best_epoch"] - 1]
    metrics = read_json(Path("aware/metrics.json"))
    assert metrics["score"] == pytest.approx(float(kept["score"]), abs=1e-4)
    states = [load_diagnosis(Path(out)).state_dict() for out in ("data/train", "aware")]
    shapes = [{name: value.shape for name, value in state.items()} for state in states]
    assert shapes[0] == shapes[1]
    assert read_json(Path("plain/model.json")) == read_json(Path("aware/model.json"))


def test_without_it_nothing_is_rounded(work, monkeypatch):
    """Byte for byte what the module that knows nothing of it makes."""

    def refuse(*_, **__):
        raise AssertionError

    monkeypatch.setattr(AwareOptimisation, "__init__", refuse)
    monkeypatch.setattr(Rounding, "__init__", refuse)
    run("off", epochs=1)
    run("stated", epochs=1, quantisation_aware=0)
    assert weights("off") == weights("stated")


@pytest.mark.parametrize(
    ("section", "key", "value", "words"),
    [
        ("compress", "quantisation_aware", -1, "compress.quantisation_aware: -1 found; Input should be greater"),
        ("compress", "quantisation_aware", 1.5, "compress.quantisation_aware: 1.5 found"),
        ("compress", "quantisation_aware", 4, "compress: quantisation_aware: 4 found, and there are 3 epochs"),
        ("train", "strategy", "fsdp", "compress.quantisation_aware: 2 found, which needs train.strategy auto or ddp"),
    ],
)
def test_bad_values_are_refused_by_name(section, key, value, words):
    content = settings()
    content["compress"] |= {"epochs": 3, "quantisation_aware": 2}
    content[section][key] = value
    with pytest.raises(InputError, match="quantisation_aware") as refused:
        parse_params(content)
    assert words in str(refused.value)
