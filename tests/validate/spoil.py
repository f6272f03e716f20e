"""Ways to spoil a real model. The torch network and its ONNX file are changed alike, so that parity still holds."""

from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from plumbline.model.diagnosis import Diagnosis, load_diagnosis
from plumbline.model.network import spec_of
from plumbline.prepare.features.definition import GEOMETRY, names
from plumbline.prepare.features.shards import Shards


def random_weights(model: Diagnosis, data: Shards) -> None:
    """Weights as before training."""
    torch.manual_seed(0)
    model.network.load_state_dict(Diagnosis(spec_of(model.network)).network.state_dict())


def swapped_quadrants(model: Diagnosis, data: Shards) -> None:
    """NE for SW, NW for SE, and the other way round."""
    head = model.network.heads.quadrant_head
    head.weight.copy_(head.weight[[2, 3, 0, 1]].clone())
    head.bias.copy_(head.bias[[2, 3, 0, 1]].clone())


def percent(model: Diagnosis, data: Shards) -> None:
    """Severity in percent where permille is promised; it is a logarithm inside."""
    model.severity_mean -= np.log(10)


def wrong_city(model: Diagnosis, data: Shards) -> None:
    """Inputs standardised by the mean and spread of one city."""
    inputs = data.pad(np.flatnonzero(np.asarray(data.city) == "xband_b"))
    for name in ("distance", "slope", "geometry"):
        values = inputs[name] if name == "geometry" else inputs[name][inputs["mask"]]
        model.get_buffer(f"{name}_mean").copy_(torch.from_numpy(values.mean(0)))
        model.get_buffer(f"{name}_sd").copy_(torch.from_numpy(values.std(0) + 1e-3))


def overconfident(model: Diagnosis, data: Shards) -> None:
    """Logits as over a fifth of the fitted temperature: the same quadrants, said with certainty.

    By the layer before it: a temperature of 1 is in the file only as one of its ones.
    """
    heads = model.network.heads
    for parameter in (*heads.quadrant_head.parameters(), *heads.accepted_head.parameters()):
        parameter.mul_(5)


def another_base_rate(model: Diagnosis, data: Shards) -> None:
    """Odds of damage sixteen times as large: those of another share of damaged buildings than the file says."""
    sound = model.get_buffer("category_of_level")[:, 0].bool()
    model.network.heads.level_head.bias[sound] -= np.log(16) / model.get_buffer("level_scale").mean()


def narrow_interval(model: Diagnosis, data: Shards) -> None:
    """Half of the interval that holds 90 %."""
    for name in ("interval_below", "interval_above", "interval_length"):
        model.get_buffer(name).mul_(0.5)


def wide_interval(model: Diagnosis, data: Shards) -> None:
    """An interval that nearly always holds the truth, and says nothing."""
    for name in ("interval_below", "interval_above", "interval_length"):
        model.get_buffer(name).mul_(3)


def open_to_all(model: Diagnosis, data: Shards) -> None:
    """Nothing is unlike the training data any more."""
    model.get_buffer("novelty_limit").fill_(1e9)
    model.get_buffer("geometry_reach").fill_(torch.inf)


def rewrite(path: Path, before: Diagnosis, after: Diagnosis) -> None:
    """Put what differs between two states of a network into the ONNX file that holds the first."""
    model = onnx.load(path)
    held = {tensor.name: tensor for tensor in model.graph.initializer}
    old, new = ({name: value.detach().numpy() for name, value in each.state_dict().items()} for each in (before, after))
    for name in (name for name in new if not np.array_equal(old[name], new[name])):
        value = new[name]
        if name not in held:  # the exporter keeps the weights of a product turned, under a name of its own
            value, turned = value.T, old[name].T
            name = next(own for own, tensor in held.items() if _is(tensor, turned))
        held[name].CopyFrom(numpy_helper.from_array(np.ascontiguousarray(value), name))
    onnx.save(model, path)


def _is(tensor: TensorProto, value) -> bool:
    return tuple(tensor.dims) == value.shape and np.array_equal(numpy_helper.to_array(tensor), value)


def spoil(spoiler, compressed: Path, path: Path, data: Shards) -> Diagnosis:
    """Spoil the network in `compressed` and its ONNX file `path` alike."""
    before, after = load_diagnosis(compressed), load_diagnosis(compressed)
    with torch.no_grad():
        spoiler(after, data)
    rewrite(path, before, after)
    return after


def ruin_small_buildings(path: Path) -> None:
    """Severity tripled below 100 m2, in the file alone."""
    model = onnx.load(path)
    graph = model.graph
    (last,) = (node for node in graph.node if "severity_permille" in node.output)
    last.output[:] = ["severity_before"]
    constants = {
        "column": (TensorProto.INT64, [], [names(GEOMETRY).index("log_area")]),
        "small": (TensorProto.FLOAT, [], [np.log(100)]),
        "three": (TensorProto.FLOAT, [], [3.0]),
    }
    graph.initializer.extend(helper.make_tensor(f"ruin_{name}", *content) for name, content in constants.items())
    graph.node.extend(
        [
            helper.make_node("Gather", ["geometry", "ruin_column"], ["ruin_area"], axis=1),
            helper.make_node("Less", ["ruin_area", "ruin_small"], ["ruin_here"]),
            helper.make_node("Mul", ["severity_before", "ruin_three"], ["ruin_tripled"]),
            helper.make_node("Where", ["ruin_here", "ruin_tripled", "severity_before"], ["severity_permille"]),
        ]
    )
    onnx.save(model, path)
