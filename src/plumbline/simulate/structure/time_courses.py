"""Let motion build up over the observation: from 0 at its start to 1 at its end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
LINEAR, SETTLING, ONSET, ACCELERATING = range(4)
SHARES = (0.3, 0.25, 0.25, 0.2)


@dataclass(frozen=True)
class Histories:
    """Time functions of B buildings; times are fractions of the observation."""

    family: NDArray[np.intp]
    """(B,) LINEAR, SETTLING, ONSET or ACCELERATING."""
    first: Array
    """(B,) SETTLING: time constant. ONSET: beginning. ACCELERATING: exponent."""
    second: Array
    """(B,) ONSET: end. Unused by the others."""

    def take(self, index: NDArray[np.intp]) -> Histories:
        """Select the histories of buildings `index`."""
        return Histories(self.family[index], self.first[index], self.second[index])

    def at(self, time: Array) -> Array:
        """Return the share (B, T) of the final displacement reached at times (T,) in 0 to 1."""
        share = np.empty((len(self.first), len(time)))
        for family in range(len(SHARES)):
            rows = self.family == family
            first, second = self.first[rows, None], self.second[rows, None]
            if family == LINEAR:
                share[rows] = time
            elif family == SETTLING:
                share[rows] = np.expm1(-time / first) / np.expm1(-1 / first)
            elif family == ONSET:
                share[rows] = np.clip((time - first) / (second - first), 0, 1)
            else:
                share[rows] = time**first
        return share


def draw_histories(rng: np.random.Generator, count: int) -> Histories:
    """Draw linear, `1 - exp(-t / tau)` (tau 0.1 to 1), onset (at 0.05 to 0.6, over by 1) or `t^p` (p 1.5 to 3.5)."""
    family = rng.choice(len(SHARES), size=count, p=SHARES)
    beginning = rng.uniform(0.05, 0.6, count)
    settling, exponent = rng.uniform(0.1, 1, count), rng.uniform(1.5, 3.5, count)
    return Histories(
        family=family,
        first=np.choose(family, [np.ones(count), settling, beginning, exponent]),
        second=beginning + rng.uniform(0.2, 1, count) * (1 - beginning),
    )


def passages(rng: np.random.Generator, arrival: Array) -> Histories:
    """Return histories of buildings under which a tunnel passes at times `arrival` (B,), below 0.7."""
    duration = rng.uniform(0.1, 0.3, len(arrival))
    return Histories(np.full(len(arrival), ONSET), arrival, arrival + duration)
