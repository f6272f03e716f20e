"""Define section `score`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from plumbline.params.section import Fraction, Positive, Section


class Drift(Section):
    """Bounds beyond which a delivery differs from the training data; see docs/score.md."""

    min_buildings: int = Field(default=100, ge=1)
    """Of fewer prepared buildings nothing is said."""
    confidence: float = Field(default=0.99, gt=0.5, lt=1)
    """That a delivery without drift is not said to have any, for each kind of figure."""
    max_distance: Fraction = 0.3
    """Kolmogorov-Smirnov distance of a column from the nearest training city, less what chance can make of it."""
    max_psi: Positive = 0.25
    """Population stability index of the same; both must be exceeded."""
    max_novel_share: Fraction = 0.2
    """Buildings unlike any in training, of those that were prepared."""
    max_abstained_rise: Fraction = 0.2
    """Rise of the share of buildings that are not judged, since the last delivery of the place."""
    max_output_psi: Positive = 0.25
    """Population stability index of the categories since the last delivery of the place."""


class Lend(Section):
    """How a drifted delivery lends its points to training, see `simulate.borrowed`."""

    band: Literal["C", "X"] = "C"
    copies: int = Field(default=1, ge=1, le=100)


class Score(Section):
    """Deliveries to watch for, and what to do with each."""

    source: Path = Path("data/deliveries")
    """`SOURCE/PLACE/DELIVERY/`: a folder a place, and in it a folder a delivery with the products of all tracks."""
    out: Path = Path("data/score")
    """Gets `OUT/PLACE/DELIVERY-HASH/`."""
    footprints: dict[str, Path] = {}
    """Place -> footprints, for deliveries that bring none of their own."""
    settle_s: float = Field(default=60.0, ge=0, le=86_400)
    """A delivery counts as complete once nothing in it has changed for so many seconds."""
    marker: str | None = Field(default=None, pattern=r"^[^/]+$")
    """Name of a file that whoever delivers writes last; without it in a delivery, that one is not complete."""
    drift: Drift = Drift()
    lend: dict[str, Lend] = {}
    """Place -> how its points are lent; as `Lend` says by itself for others."""
