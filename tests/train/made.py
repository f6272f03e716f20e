"""Prepared buildings made up for training: small, ragged, and with a signal that a small network learns in seconds."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE, MECHANISMS
from plumbline.model.diagnosis import Diagnosis
from plumbline.model.spec import new_spec
from plumbline.params import Params, Prepare, parse_params
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE, names
from plumbline.prepare.features.sequences import UNDEFINED, Sequences, only
from plumbline.prepare.features.shards import save_shards
from plumbline.train.data.batches import Batch, BuildingSet
from plumbline.train.data.sampler import SYMMETRIES, Symmetry, turn

SIGNS = np.array([(1, 1), (-1, 1), (-1, -1), (1, -1)])
SPLITS = {"train": 160, "tune": 60, "calibrate": 60, "test": 60}


def apply_symmetry(batch: Batch, which: Symmetry) -> Batch:
    """The same buildings in one other frame."""
    return turn(batch, torch.full_like(batch.quadrant_B, SYMMETRIES.index(which)))


def column(columns: Any, name: str) -> int:
    """Place of a column."""
    return names(columns).index(name)


def make_sequences(count: int, seed: int = 0, shortest: int = 5, longest: int = 24) -> Sequences:
    """Buildings whose worst quadrant drops by their severity; all other columns are noise."""
    rng = np.random.default_rng(seed)
    length = rng.integers(shortest, longest + 1, count)
    offsets = np.r_[0, np.cumsum(length)].astype(np.int64)
    building = np.repeat(np.arange(count), length)
    distance = rng.normal(size=(offsets[-1], len(DISTANCE))).astype(np.float32)
    slope = rng.normal(size=(offsets[-1], len(SLOPE))).astype(np.float32)
    geometry = rng.normal(size=(count, len(GEOMETRY))).astype(np.float32)
    side = rng.uniform(8, 30, (count, 2)).astype(np.float32)
    geometry[:, [column(GEOMETRY, "side_x"), column(GEOMETRY, "side_y")]] = side
    geometry[:, column(GEOMETRY, "years")] = 2.5
    severity = np.exp(rng.uniform(np.log(0.1), np.log(6), count)).astype(np.float32)
    quadrant = rng.integers(0, 4, count)
    relative = rng.uniform(-1, 1, (offsets[-1], 2)).astype(np.float32)
    distance[:, [column(DISTANCE, "x_relative"), column(DISTANCE, "y_relative")]] = relative
    broken = ((relative * SIGNS[quadrant[building]]) > 0).all(1)
    slope[:, column(SLOPE, "differential_displacement")] = -5 * severity[building] * broken
    geometry[:, column(GEOMETRY, "corner_drop_ne") : column(GEOMETRY, "corner_drop_ne") + 4] = (
        -5 * severity[:, None] * (np.arange(4) == quadrant[:, None])
    )
    # Of some, the neighbour is a right answer, too; of some, nobody knows the mechanism.
    several, mechanism = rng.random(count) < 0.25, rng.integers(-1, len(MECHANISMS), count)
    accepted = only(quadrant) | only((quadrant + 1) % 4) & several[:, None]
    sound = severity < CATEGORY_BOUNDS_PERMILLE[0]
    quadrant[sound], accepted[sound], mechanism[sound] = UNDEFINED, False, UNDEFINED
    return Sequences(
        building_id=np.array([f"b{i}" for i in range(count)]),
        city=np.full(count, "made"),
        offsets=offsets,
        distance=distance,
        slope=slope,
        geometry=geometry,
        severity=severity,
        quadrant=quadrant.astype(np.int64),
        accepted=accepted,
        mechanism=mechanism.astype(np.int8),
        difficulty=np.full(len(quadrant), -1, np.int8),
    )


def in_quadrants(sequences: Sequences, quadrant: NDArray[np.int64]) -> Sequences:
    """The same buildings, each worst in this quadrant alone."""
    return replace(sequences, quadrant=quadrant, accepted=only(quadrant))


def save_prepared(folder: Path, seed: int = 0) -> Path:
    """A folder as the stage `prepare` leaves it."""
    for number, (name, count) in enumerate(SPLITS.items()):
        save_shards([make_sequences(count, 100 * seed + number)], folder / name)
    return folder


def make_batch(count: int, seed: int = 0, **lengths: int) -> Batch:
    """One batch of made-up buildings."""
    return BuildingSet(make_sequences(count, seed, **lengths))[np.arange(count)]


def settings(model: dict[str, Any] | None = None, max_points: int = 24, **train: Any) -> dict[str, Any]:
    """Content of a params file with a network that trains in a second; `model` and `train` change its sections."""
    gate = {"metric": "severity_mae", "artifact": "float32", "max": 1.0}
    optimise = {"epochs": 2, "patience": 50, "learning_rate": 0.003, "batch_size": 32}
    return {
        "simulate": {
            "cities": {"a": {"band": "C", "buildings": 4, "seed": 0}},
            "showcase": {"band": "C", "buildings": 4, "seed": 1},
        },
        "ingest": {},
        "prepare": Prepare(max_points=max_points).model_dump(),
        "model": {"channels": 8, "blocks": 1, "heads": 2, "attention_layers": 1, "hidden": 16, **(model or {})},
        "train": {**optimise, "threads": 1, "accelerator": "cpu", **train},
        "compress": {"pruning_ratio": 0.5, **optimise},
        "export": {},
        "validate": {},
        "gate": {"rules": [gate]},
        "package": {},
    }


def make_params(model: dict[str, Any] | None = None, max_points: int = 24, **train: Any) -> Params:
    """The same, checked."""
    return parse_params(settings(model, max_points, **train))


def make_model(max_length: int = 24, **model: Any) -> Diagnosis:
    """A network of these parameters with weights drawn anew."""
    return Diagnosis(new_spec(make_params(model).model, max_length))
