"""Measure size, latency and parity, the baseline, and slices."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from numpy.typing import NDArray

from plumbline.core.compass import of_likeliest
from plumbline.core.strain import DIFFICULTIES, MECHANISMS, category
from plumbline.export.answers import Answers
from plumbline.export.runtime import OnnxModel
from plumbline.params import Prepare
from plumbline.prepare.abstention import is_judged, strain_error
from plumbline.prepare.features.definition import GEOMETRY, names
from plumbline.prepare.features.shards import SequenceSet
from plumbline.validate.metrics import Figures, JudgedAnswers

if TYPE_CHECKING:
    from plumbline.model.diagnosis import Diagnosis

REPEATS, WARM_UPS = 30, 3
Inputs = dict[str, NDArray[Any]]


def size_figures(path: Path) -> Figures:
    """Return the bytes of the file, and of its weights alone (the initialisers)."""
    model = onnx.load(path)
    weights = sum(onnx.numpy_helper.to_array(tensor).nbytes for tensor in model.graph.initializer)
    return {"size_bytes": float(path.stat().st_size), "weight_bytes": float(weights)}


def parity_figures(model: Diagnosis, sequences: SequenceSet, answers: Answers) -> Figures:
    """Return the largest difference between torch and the artifact over all buildings, in
    probability and permille.

    Buildings unlike the training data are left out if there are others: int8 has no steps
    so far out, and `predict` abstains there.
    """
    reference = torch_answers(model, sequences)
    is_known = ~(reference.novelty > 1)  # where that is no number, the building counts
    rows = is_known if is_known.any() else ~is_known
    return difference_figures(
        *(Answers(*(values[rows] for values in part)) for part in (reference, answers))
    )


def novelty_figures(model: Diagnosis, sequences: SequenceSet, answers: Answers) -> Figures:
    """Return the largest change of novelty against `model` before pruning: in limits,
    relative beyond one.

    Pruning and int8 are no reason to know other buildings; and a building at 1,000 limits
    is as unknown at 1,001.
    """
    import torch

    with torch.inference_mode():
        novelty = model.novelty(torch.from_numpy(np.array(sequences.geometry, np.float32))).numpy()
    return {
        "novelty_change": float((np.abs(answers.novelty - novelty) / np.maximum(1, novelty)).max())
    }


def judged_figures(sequences: SequenceSet, answers: Answers, limits: Prepare) -> Figures:
    """Return the share of buildings that `predict` would judge, and the accuracy on these.

    A figure of none is left out. Buildings that were not prepared, for want of points, are
    no part of the share.
    """
    inside = is_judged(sequences, answers, limits)
    figures = {"judged_share": float(inside.mean())}
    error = np.abs(answers.severity_permille - np.asarray(sequences.severity))
    if inside.any():
        figures["judged_severity_mae"] = float(error[inside].mean())
    damaged = inside & (np.asarray(sequences.quadrant) >= 0)
    if damaged.any():
        right = of_likeliest(answers.quadrant_probability, sequences.accepted)
        figures["judged_quadrant_accuracy"] = float(right[damaged].mean())
    return figures


def difference_figures(reference: Answers, answers: Answers) -> Figures:
    """Return the largest difference between two answers for the same buildings, in
    probability and permille."""
    names = (
        "quadrant_probability",
        "accepted_probability",
        "category_probability",
        "mechanism_probability",
    )
    probability = np.concatenate(
        [np.abs(getattr(reference, name) - getattr(answers, name)) for name in names], axis=1
    )
    permille = np.abs(reference.severity_permille - answers.severity_permille)
    # numpy's maximum of anything with a NaN is NaN; Python's depends on the order.
    return {
        "parity_probability": float(probability.max()),
        "parity_severity_permille": float(permille.max()),
    }


def torch_answers(model: Diagnosis, sequences: SequenceSet) -> Answers:
    """Return the network's own answers for all buildings, in their order."""
    batches = np.array_split(np.arange(len(sequences)), max(1, len(sequences) // 256))
    parts = [run_torch(model, sequences.pad(index)) for index in batches]
    return Answers(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def run_torch(model: Diagnosis, inputs: Inputs) -> Answers:
    """Answer one padded batch, as `Sequences.pad` makes it, by torch eager."""
    import torch

    ordered = [inputs[name] for name in ("distance", "slope", "geometry", "mask")]
    with torch.inference_mode():
        outputs = model(*(torch.from_numpy(np.ascontiguousarray(part)) for part in ordered))
    return Answers(*(value.numpy() for value in outputs))


def middle_building(sequences: SequenceSet) -> Inputs:
    """Return the inputs of the one building of median length."""
    order = np.argsort(np.asarray(sequences.length), kind="stable")
    return sequences.pad(order[len(order) // 2 : len(order) // 2 + 1])


def run_seconds(
    model: OnnxModel,
    batches: Sequence[Inputs],
    repeats: int = REPEATS,
    most_seconds: float = np.inf,
) -> NDArray[np.floating]:
    """Measure the seconds of each run, after warming up; at least two runs.

    Args:
        model: what runs. batches: padded, one after another and again from the first.
        repeats: runs that are timed, at most. most_seconds: after which no further run begins.
    """
    times: list[float] = []
    warm, start = 0, time.perf_counter()
    while warm < max(WARM_UPS, len(batches)) and time.perf_counter() - start < most_seconds:
        model.run(batches[warm % len(batches)])
        warm += 1
    while len(times) < 2 or (len(times) < repeats and sum(times) < most_seconds):
        inputs = batches[len(times) % len(batches)]
        start = time.perf_counter()
        model.run(inputs)
        times.append(time.perf_counter() - start)
    return np.array(times)


_QUADRANTS = ("ne", "nw", "sw", "se")


def least_squares(sequences: SequenceSet) -> JudgedAnswers:
    """Judge buildings without any training.

    The fits are those of `prepare.response.shape_fits`: they are made for every building,
    because the network is told of them, too. The quadrant that the likeliest shape strains
    most is the answer, its share of the likelihood the confidence. An engineer gives no
    interval.
    """
    column = names(GEOMETRY).index
    geometry = np.asarray(sequences.geometry, float)
    gain = geometry[:, [column(f"best_gain_{q}") for q in _QUADRANTS]]
    severity = geometry[:, [column(f"best_severity_{q}") for q in _QUADRANTS]]
    likelihood = np.exp(gain - gain.max(1, keepdims=True))
    best = gain.argmax(1)
    unknown = np.full(len(best), np.nan)
    judged = JudgedAnswers(
        likelihood / likelihood.sum(1, keepdims=True),
        severity[np.arange(len(best)), best],
        unknown,
        unknown,
    )
    return judged._replace(accepted=np.asarray(sequences.accepted))


POINT_BOUNDS = (10, 20, 50)
AREA_BOUNDS_M2 = (100, 250, 600)
"""Bounds between slices, by scatterers and by area of the footprint: what says most about a
sensor."""
_LOG_AREA = names(GEOMETRY).index("log_area")


def slices(
    sequences: SequenceSet, max_strain_error_permille: float
) -> dict[str, NDArray[np.bool_]]:
    """Return name -> (B,) buildings: `all`, each city (it has one sensor), by points, by
    size in m2, by category, by difficulty, by mechanism, and by the number of right
    quadrants.

    `resolved:yes` are those whose points are not too noisy to be judged; `predict` asks for more
    (`prepare.abstention`).
    """
    area_m2 = np.exp(np.asarray(sequences.geometry[:, _LOG_AREA], float))
    error, right = strain_error(sequences), np.asarray(sequences.accepted).sum(1)
    of_codes = (
        ("city", sequences.city, {str(city): city for city in np.unique(sequences.city)}),
        ("category", category(sequences.severity), {str(number): number for number in range(5)}),
        (
            "difficulty",
            sequences.difficulty,
            {name: code for code, name in enumerate(DIFFICULTIES)},
        ),
        ("mechanism", sequences.mechanism, {name: code for code, name in enumerate(MECHANISMS)}),
    )
    by_code = {
        kind: {f"{kind}:{name}": np.asarray(values == code) for name, code in codes.items()}
        for kind, values, codes in of_codes
    }
    return {
        "all": np.ones(len(sequences), bool),
        **by_code["city"],
        **_between("points", np.asarray(sequences.length), POINT_BOUNDS, 1),
        **_between("area", area_m2, AREA_BOUNDS_M2, 0),
        **by_code["category"],
        "resolved:yes": error <= max_strain_error_permille,
        "resolved:no": ~(error <= max_strain_error_permille),
        **by_code["difficulty"],
        **by_code["mechanism"],
        "accepted:1": right == 1,
        "accepted:2+": right > 1,
    }


def _between(
    kind: str, values: NDArray[Any], bounds: Sequence[int], step: int
) -> dict[str, NDArray[np.bool_]]:
    """Return the buildings (B,) between two bounds each, the lower one included, named
    `KIND:LOW-HIGH`.

    `step`: from the largest value between two bounds to the upper one, of whole numbers.
    """
    parts = {
        f"{kind}:{low}-{high - step}": (values >= low) & (values < high)
        for low, high in itertools.pairwise((0, *bounds))
    }
    return {**parts, f"{kind}:{bounds[-1]}+": values >= bounds[-1]}
