"""Check the line of sight of a product against the orbits of satellites, and against its own
name."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from plumbline import params
from plumbline.core.errors import InputError

MIN_LEVEL_PART = 0.05
"""Level part of a line of sight below which it has no direction, as of vertical components."""
MAX_SIGHT_TURN_DEG = 60.0
"""Largest angle between lines of sight of one track: within a swath they turn by a degree or two;
ascending and descending passes look 160 degrees apart."""
MIN_NORTH_ANGLE_DEG = 30.0
"""Smallest angle between a line of sight and north or south. Radar satellites fly near the poles
and look sideways: to the east or west within 20 degrees up to 70 degrees of latitude; a European
grid's axes are up to 28 degrees off."""
PASSES = {"ascending": r"asc(end(ing)?)?", "descending": r"(des|dsc|desc)(end(ing)?)?"}
"""Direction of a pass -> pattern of its words in names."""
TURN = {"right": 90.0, "left": -90.0}
"""Angle from the direction of flight to that of looking, degrees clockwise."""


def check_east_or_west(los: NDArray[np.float64], file: object, about: params.Product) -> None:
    """Refuse lines of sight (N, 3) of no radar satellite, by their median.

    Raises:
        InputError: points are seen from the north or south.
    """
    level = np.median(los[:, :2], axis=0) if len(los) else np.zeros(2)
    if np.linalg.norm(level) < MIN_LEVEL_PART or abs(level[0]) >= np.sin(
        np.radians(MIN_NORTH_ANGLE_DEG)
    ) * np.hypot(*level):
        return
    azimuth = np.degrees(np.arctan2(*level)) % 360
    view = f"it is seen from {azimuth:.0f} degrees (clockwise from north)"
    origin = "its columns or its geometry state"
    advice = "Correct them"
    if about.heading_deg is not None:
        origin = f"heading_deg {about.heading_deg:g} in ingest.products states"
        likely = (about.heading_deg - TURN[about.look]) % 360
        advice = (
            f"heading_deg is the direction of flight. If {about.heading_deg:g} is the direction in "
            f"which the antenna looks, heading_deg is {likely:g}"
        )
    raise InputError(
        f"{file}: {view}, as {origin}: no radar satellite looks north or south, all fly near the "
        f"poles. {advice}.",
        key="sight.not_east_or_west",
    )


def pass_of(heading_deg: float) -> str:
    """Return `ascending` or `descending` by the direction of flight, clockwise from north."""
    return "ascending" if np.cos(np.radians(heading_deg)) > 0 else "descending"


def pass_in(name: str) -> str | None:
    """Return the pass that a name contains as a separate word; None for neither, or both."""
    words = re.split(r"[^a-z]+", name.lower())
    passes = {
        flown
        for flown, pattern in PASSES.items()
        if any(re.fullmatch(pattern, word) for word in words)
    }
    return passes.pop() if len(passes) == 1 else None


def check_pass(track: str, file: object, about: params.Product) -> None:
    """Refuse a stated heading that contradicts the pass in the track's name.

    Raises:
        InputError: the two contradict each other.
    """
    named_pass = pass_in(track)
    if about.heading_deg is None or named_pass is None or pass_of(about.heading_deg) == named_pass:
        return
    raise InputError(
        f"{file}: the name of its track, {track!r}, means {named_pass}, but heading_deg "
        f"{about.heading_deg:g} in ingest.products is {pass_of(about.heading_deg)}. Are two files "
        "exchanged? Correct heading_deg; where it is right, state another name by track.",
        key="sight.other_pass",
    )


def check_one_side(
    los: NDArray[np.float64], first: NDArray[np.float64] | None, file: object
) -> NDArray[np.float64] | None:
    """Refuse points that are seen from another side than the first one.

    Ascending and descending passes in one file would be read as one track, with a movement of
    neither.

    Args:
        los: (N, 3) of a block. first: level part (2,) of the product's first line of sight;
            None: it is in this block.
        file: for the message.

    Returns:
        That of the product's first line of sight, for the next block; None without any.

    Raises:
        InputError: they are seen from two sides.
    """
    level = np.asarray(los[:, :2], float)
    length = np.linalg.norm(level, axis=1)
    directions = level[length > MIN_LEVEL_PART]
    if len(directions):
        first = directions[0] if first is None else first
        cosine = directions @ first / (np.linalg.norm(directions, axis=1) * np.linalg.norm(first))
        if cosine.min() < np.cos(np.radians(MAX_SIGHT_TURN_DEG)):
            opposite = directions[int(np.argmin(cosine))]
            raise InputError(
                f"{file}: points seen from two sides: los_east, los_north {first[0]:.2f}, "
                f"{first[1]:.2f} and {opposite[0]:.2f}, {opposite[1]:.2f}. Each track (ascending, "
                "descending) needs a file of its own.",
                key="sight.two_sides",
            )
    return first
