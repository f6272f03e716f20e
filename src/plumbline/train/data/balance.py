"""Let rare buildings count more, or draw them more often."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from plumbline.core.strain import category
from plumbline.model.diagnosis import SEVERITY_FLOOR
from plumbline.params import Train

BIN = 0.05
"""Width of the bins of log severity; a bin is about 5 % of strain."""
SMOOTH = 2.0
"""Standard deviation of the kernel that smooths the density of severities, bins."""


def _density(severity: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the smoothed density of labels (Yang et al. 2021, Delving into deep imbalanced
    regression, equation 1).

    On the scale of the loss: the logarithm of permille. A kernel that reaches beyond the
    first or last bin is divided by what of it lies inside, so that even labels get even
    weights up to their ends.
    """
    log_severity = np.log(np.asarray(severity, float) + SEVERITY_FLOOR)
    place = np.floor((log_severity - log_severity.min()) / BIN).astype(np.int64)
    count = np.bincount(place)
    offset = np.arange(-int(4 * SMOOTH), int(4 * SMOOTH) + 1)
    kernel = np.exp(-((offset / SMOOTH) ** 2) / 2)
    # `full` and cut, because `same` answers with the longer of both.
    inner = slice(len(offset) // 2, len(offset) // 2 + len(count))
    density = np.convolve(count, kernel)[inner] / np.convolve(np.ones(len(count)), kernel)[inner]
    return np.asarray(density[place])


def _share(code: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the size of each building's class."""
    return np.asarray(np.bincount(code).astype(float)[code])


RARITIES: dict[str, Callable[[NDArray[np.float32], NDArray[np.int64]], NDArray[np.float64]]] = {
    "category": lambda severity, quadrant: _share(category(severity)),
    # The undefined ones are a class of their own.
    "quadrant": lambda severity, quadrant: _share(quadrant + 1),
    "both": lambda severity, quadrant: _share(5 * category(severity) + quadrant + 1),
    "severity": lambda severity, quadrant: _density(severity),
}
"""`train.balance_by` -> (B,) how common each building's kind is, on any scale."""


def building_weights(
    severity: NDArray[np.float32], quadrant: NDArray[np.int64], losses: Train
) -> NDArray[np.float32]:
    """Return (B,) inverse frequency of each building's kind; 1 on average.

    All classes have the same sum of weights, `B / classes` (King and Zeng 2001, section 4).

    Args:
        severity: (B,) permille. quadrant: (B,) code or -1.
        losses: `balance_by` of it counts.
    """
    weight = 1 / RARITIES[losses.balance_by](severity, quadrant)
    return np.asarray(weight / weight.mean(), dtype=np.float32)


def draw_by_weight(
    weight: NDArray[np.float32], generator: np.random.Generator
) -> NDArray[np.int32]:
    """Draw (B,) indices in random order, building b `B weight[b] / sum(weight)` times.

    Systematic sampling (Madow and Madow 1944): evenly spaced places on the cumulative
    weights of a shuffled list, so each building comes that often, rounded down or up, and
    exactly that often on average. Drawing each place for itself would leave out a third of
    equal buildings every epoch.
    """
    count = len(weight)
    order = generator.permutation(np.arange(count, dtype=np.int32))
    cumulative = np.cumsum(weight[order], dtype=float)
    place = (np.arange(count) + generator.random()) * (cumulative[-1] / count)
    drawn = order[np.minimum(np.searchsorted(cumulative, place, side="right"), count - 1)]
    return generator.permutation(drawn)
