"""Random draws that several parts of the simulation share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def log_uniform(rng: np.random.Generator, low: float, high: float, count: int) -> NDArray[np.float64]:
    """(count,) draws whose logarithm is uniform from `low` to `high`: every order of size is as common."""
    return np.asarray(np.exp(rng.uniform(np.log(low), np.log(high), count)), float)
