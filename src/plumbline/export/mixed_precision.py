"""Choose the layers that stay in float in int8 models, by the gain in answers on training
buildings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from plumbline.compress.quantize import Calibration, Quantiser, quantiser
from plumbline.core.console import log, track, warn
from plumbline.core.files import atomic_file
from plumbline.params import Export
from plumbline.params.compress import Change
from plumbline.prepare.features.shards import SequenceSet

Row = dict[str, Any]
Inputs = list[dict[str, NDArray[Any]]]
COMPARED = ("quadrant_probability", "severity_permille")
"""Outputs whose changes by int8 are measured."""
WORDS = 3
"""Words of a layer's name that make its group: `encoder.slope.blocks`, `neck.attention.0`."""


class Changed(NamedTuple):
    """Mean differences of answers from those in float."""

    probability: float
    permille: float

    def over(self, bound: Change) -> float:
        """Return the larger ratio of the two changes to their bounds; above 1, a bound is
        exceeded."""
        return max(self.probability / bound.probability, self.permille / bound.permille)


def quantize(
    source: Path, target: Path, data: SequenceSet, section: Export, seed: int = 0
) -> list[Row]:
    """Write `source`, a float32 ONNX file, as an int8 model.

    Args:
        source: file to read. target: file to write.
        data: training buildings; some give the ranges of activations, others show the changes of
            answers by int8.
        section: how.
        seed: of their choice.

    Returns:
        Rows of `in_float, probability, permille, chosen`: the models that were tried, by
        the layers whose products stayed in float, and how far each is from float on
        average.

    Raises:
        PlumblineError: the buildings that give the ranges are the same over and over.
    """
    calibration = Calibration(
        data, section.calibration_batches, section.calibration_batch_size, seed
    )
    used = section.calibration_batches * section.calibration_batch_size
    with quantiser(source, calibration) as ways, atomic_file(target) as temporary:
        batches = _inputs(data, used, section, seed)
        plain = _answers(onnx.load(source), batches)
        model, rows = _least_in_float(ways, plain, batches, section.max_change)
        onnx.save(model, temporary)
    return rows


def _least_in_float(
    ways: Quantiser, plain: list[NDArray[Any]], batches: Inputs, bound: Change
) -> tuple[onnx.ModelProto, list[Row]]:
    """Return the model with the fewest groups of layers in float that keeps to `bound`, the
    worst group added first."""

    def try_groups(groups: Sequence[str]) -> tuple[onnx.ModelProto, Changed]:
        model = ways.quantise([layer for layer in layers if _group(layer) in groups])
        changed = _changed(plain, _answers(model, batches))
        rows.append({"in_float": " ".join(groups), **changed._asdict()})
        return model, changed

    rows: list[Row] = []
    layers = ways.layers()
    model, changed = try_groups(())
    groups_in_float: tuple[str, ...] = ()
    if changed.over(bound) > 1:
        groups = list(dict.fromkeys(map(_group, layers)))
        excess = {
            group: try_groups([group])[1].over(bound)
            for group in track(groups, len(groups), "int8 layers")
        }
        for group in sorted(groups, key=lambda name: (excess[name], name)):
            groups_in_float = (*groups_in_float, group)
            model, changed = try_groups(groups_in_float)
            if changed.over(bound) <= 1:
                break
        else:
            warn(
                "int8: beyond export.max_change even with float products; the weights in 8 bits "
                "do that.",
                key="int8.beyond_bound",
            )
    log.info(
        "int8: answers change by %.4f in probability and %.4f permille on average; in float: %s",
        *changed,
        ", ".join(groups_in_float) or "none but the heads and the novelty",
    )
    return model, [{**row, "chosen": place == len(rows) - 1} for place, row in enumerate(rows)]


def _group(layer: str) -> str:
    return ".".join(layer.split(".")[:WORDS])


def _inputs(data: SequenceSet, used: int, section: Export, seed: int) -> Inputs:
    """Draw as many batches as for the ranges, from other buildings if there are any."""
    order = np.random.default_rng(seed).permutation(len(data))
    unused = order[used:] if len(order) > used else order
    batches = np.array_split(unused[:used], section.calibration_batches)
    return [data.pad(np.sort(index)) for index in batches if len(index)]


def _answers(model: onnx.ModelProto, batches: Inputs) -> list[NDArray[Any]]:
    """Return quadrant probabilities (B, 4) and severities (B,) of all batches together."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    parts = [session.run(COMPARED, inputs) for inputs in batches]
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


def _changed(plain: list[NDArray[Any]], rounded: list[NDArray[Any]]) -> Changed:
    return Changed(*(float(np.abs(a - b).mean()) for a, b in zip(plain, rounded, strict=True)))
