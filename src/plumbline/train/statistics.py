"""What the model keeps of the training data: means, spreads, and how far apart its buildings lie."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from plumbline.model.diagnosis import SEVERITY_FLOOR, Diagnosis
from plumbline.prepare.features import GEOMETRY, names
from plumbline.prepare.sequences import Sequences

SHRINKAGE = 0.1
"""Added to the covariance's diagonal: a column that hardly varies in training must not make every other value alien."""
FARTHEST = 1.1
"""Answered for: up to so many times the distance that holds all but a thousandth of the training buildings."""
REACH = 1.25
"""Answered for: each value up to so many times half the range of training, from its middle."""
UNBOUNDED = ("years", "tracks")
"""How long and from how many orbits one has watched does not make a building strange."""


def fit_statistics(model: Diagnosis, train: Sequences) -> None:
    """Set the model's standardisation and novelty buffers from the training split alone."""
    for name in ("distance", "slope", "geometry"):
        _standardise(model, name, getattr(train, name))
    log_severity = np.log(np.asarray(train.severity, float) + SEVERITY_FLOOR)
    # An exponential reaches far: a strain that no training building had is nothing the model can know of.
    model.get_buffer("severity_limit").fill_(float(train.severity.max()))
    model.get_buffer("severity_mean").fill_(float(log_severity.mean()))
    model.get_buffer("severity_sd").fill_(max(float(log_severity.std()), 1e-3))

    geometry = model.standardise("geometry", torch.from_numpy(np.array(train.geometry))).numpy().astype(float)
    covariance = np.cov(geometry, rowvar=False) + SHRINKAGE * np.eye(geometry.shape[1])
    whitening = np.linalg.inv(np.linalg.cholesky(covariance)).T
    unbounded = [names(GEOMETRY).index(name) for name in UNBOUNDED]
    whitening[unbounded] = 0
    model.get_buffer("novelty_whitening").copy_(torch.from_numpy(whitening))
    lowest, highest = train.geometry.min(0).astype(float), train.geometry.max(0).astype(float)
    reach = np.maximum(REACH * (highest - lowest) / 2, 1e-3)
    reach[unbounded] = np.inf
    model.get_buffer("geometry_middle").copy_(torch.from_numpy((lowest + highest) / 2))
    model.get_buffer("geometry_reach").copy_(torch.from_numpy(reach))
    distance = model.novelty_distance(torch.from_numpy(np.array(train.geometry))).numpy()
    model.get_buffer("novelty_limit").fill_(FARTHEST * float(np.quantile(distance, 0.999)))


def _standardise(model: Diagnosis, name: str, values: NDArray[np.float32]) -> None:
    sd = values.std(0, dtype=float)
    model.get_buffer(f"{name}_mean").copy_(torch.from_numpy(values.mean(0, dtype=float)))
    # A constant column is only centred: dividing by nothing would turn the first other value into infinity.
    model.get_buffer(f"{name}_sd").copy_(torch.from_numpy(np.where(sd > 1e-6, sd, 1.0)))
