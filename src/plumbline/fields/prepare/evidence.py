"""Sum up in a few figures how good the points of a scene are: what the choice of an adapter goes by; needs no torch."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np

from plumbline.fields.prepare.gaussian_process import Covariance
from plumbline.fields.prepare.grid import Observations

SQUARE_M = 100.0
"""Side of the squares whose area counts as seen, if a point lies in them: water and the sea are no lack of points."""
Figure = Literal["delay", "noise", "density", "apart"]
FIGURES: tuple[Figure, ...] = get_args(Figure)


class Evidence(NamedTuple):
    """Figures of a whole scene. Lengths in mm are relative to `Covariance.up_mm`, the movement's deviation."""

    delay: float
    """Standard error that neighbours share, of the median point."""
    noise: float
    """Noise of the median point beyond that, as the covariance has it."""
    density: float
    """Points a square kilometre of what is seen, of all tracks."""
    apart: float
    """Share of the points that stand out from their neighbours."""


def evidence_of(found: Observations, covariance: Covariance) -> Evidence:
    """Return the evidence of at least one observation.

    Args:
        found: all of a scene. covariance: fitted to them; of the line of sight if one direction sees them.
    """
    noise = np.hypot(covariance.noise_scale * np.median(found.error), covariance.nugget_mm)
    squares = np.unique(np.floor(found.east_north / SQUARE_M), axis=0)
    return Evidence(
        delay=float(np.median(found.delay)) / covariance.up_mm,
        noise=float(noise) / covariance.up_mm,
        density=len(found) / (len(squares) * (SQUARE_M / 1000) ** 2),
        apart=float((found.apart > 1).mean()),
    )
