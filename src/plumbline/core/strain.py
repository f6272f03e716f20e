"""Define the label: the largest principal tensile strain of a structure, and the quadrant
that bears it.

Angular distortion and horizontal strain are combined as in Boscardin and Cording (1989),
Building response to excavation-induced settlement, J. Geotech. Eng. 115(1); the category
bounds follow Burland's classification.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plumbline.core.arrays import Array

BAY_M = 4.0
DIFFICULTIES = ("easy", "medium", "hard")
"""Names of the codes 0, 1, 2 of the difficulty of a building."""
CATEGORY_BOUNDS_PERMILLE = (0.5, 0.75, 1.5, 3.0)
"""Lower bounds of the categories 1 to 4."""
FAILURES = ("corner", "end", "step", "bowl", "bending")
MECHANISMS = (*FAILURES, "several")
"""Names of the codes 0 to 5 of the mechanism of failure. `several`: two at once, the
smaller half of the larger at least."""
ACCEPTED_SHARE = 0.9
"""A quadrant with this share of the building's largest strain is a right answer, too."""
LEVEL_EDGES_PERMILLE = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0)
"""Lower bounds of the levels 1 to 15 of strain: finer than the categories, and each lies in
one of them."""
TOP_PERMILLE = 12.0
"""Upper end of the last level: twice the strain of the worst building that is simulated."""
INTERVAL_SHARE = 0.9
"""Share of the true severities that an interval is to cover."""


def principal_tensile_strain(beta: ArrayLike, eps_l: ArrayLike) -> Array:
    """Return `eps_l/2 + sqrt((eps_l/2)^2 + (beta/2)^2)` (Boscardin and Cording 1989);
    tension positive, any unit."""
    half_l, half_b = np.asarray(eps_l, float) / 2, np.asarray(beta, float) / 2
    return np.asarray(half_l + np.hypot(half_l, half_b), float)


def bay_length(side: float) -> float:
    """Return the length of a bay along a side, m: 4 m, or half of a side shorter than 8 m."""
    return BAY_M if side >= 2 * BAY_M else side / 2


def category_of_levels() -> NDArray[np.int64]:
    """Return the (16,) category of each level of `LEVEL_EDGES_PERMILLE`."""
    return category((0.0, *LEVEL_EDGES_PERMILLE))


def category(severity_permille: ArrayLike) -> NDArray[np.int64]:
    """Return the Burland category 0 to 4 by tensile strain in permille (4 combines 4 and 5
    of the literature)."""
    return np.asarray(
        np.digitize(np.asarray(severity_permille, float), CATEGORY_BOUNDS_PERMILLE), np.int64
    )
