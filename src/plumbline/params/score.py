"""Section `score`."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from plumbline.params.section import Section


class Score(Section):
    """Deliveries that are watched for, and what is made of each."""

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
