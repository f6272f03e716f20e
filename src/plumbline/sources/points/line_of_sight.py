"""Check the line of sight of a product against the orbits of satellites, and against its own name."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from plumbline import params
from plumbline.core.errors import InputError

LEAST_LEVEL = 0.05
"""Level part of a line of sight below which it has no direction, as of vertical components."""
MAX_TURN_DEG = 60.0
"""Within a swath the direction turns by a degree or two; ascending and descending passes look 160 degrees apart."""
NEAREST_NORTH_DEG = 30.0
"""Radar satellites fly near the poles and look sideways: to the east or west within 20 degrees up to 70 degrees of
latitude, and the axes of a European grid are up to 28 degrees off north."""
PASSES = {"ascending": r"asc(end(ing)?)?", "descending": r"(des|dsc|desc)(end(ing)?)?"}
"""Direction of a pass -> how names say it."""
TURN = {"right": 90.0, "left": -90.0}
"""From the direction of flight to that of looking."""


def check_east_or_west(los: NDArray[np.float64], file: object, about: params.Product) -> None:
    """Refuse lines of sight (N, 3) of no radar satellite, by their median.

    Raises:
        InputError: points are seen from the north or south.
    """
    level = np.median(los[:, :2], axis=0) if len(los) else np.zeros(2)
    if np.linalg.norm(level) < LEAST_LEVEL or abs(level[0]) >= np.sin(np.radians(NEAREST_NORTH_DEG)) * np.hypot(*level):
        return
    azimuth = np.degrees(np.arctan2(*level)) % 360
    found = f"it is seen from {azimuth:.0f} degrees (clockwise from north)"
    says = "its columns or its geometry say"
    advice = "Correct them"
    if about.heading_deg is not None:
        says = f"heading_deg {about.heading_deg:g} in ingest.products says"
        likely = (about.heading_deg - TURN[about.look]) % 360
        advice = (
            f"heading_deg is the direction of flight. If {about.heading_deg:g} is the direction in which the antenna "
            f"looks, heading_deg is {likely:g}"
        )
    raise InputError(
        f"{file}: {found}, as {says}: no radar satellite looks north or south, all fly near the poles. {advice}."
    )


def pass_of(heading_deg: float) -> str:
    """Return `ascending` or `descending` by the direction of flight, clockwise from north."""
    return "ascending" if np.cos(np.radians(heading_deg)) > 0 else "descending"


def pass_in(name: str) -> str | None:
    """Return the pass that a name contains as a separate word; None for neither, or both."""
    words = re.split(r"[^a-z]+", name.lower())
    said = {flown for flown, pattern in PASSES.items() if any(re.fullmatch(pattern, word) for word in words)}
    return said.pop() if len(said) == 1 else None


def check_pass(track: str, file: object, about: params.Product) -> None:
    """Refuse a stated heading that contradicts the pass in the track's name.

    Raises:
        InputError: the two contradict each other.
    """
    said = pass_in(track)
    if about.heading_deg is None or said is None or pass_of(about.heading_deg) == said:
        return
    raise InputError(
        f"{file}: the name of its track, {track!r}, says {said}, and heading_deg {about.heading_deg:g} in "
        f"ingest.products is {pass_of(about.heading_deg)}. Are two files exchanged? Correct heading_deg; where it is "
        "right, state another name by track."
    )


def check_one_side(
    los: NDArray[np.float64], first: NDArray[np.float64] | None, file: object
) -> NDArray[np.float64] | None:
    """Refuse points that are seen from another side than the first one.

    Ascending and descending passes in one file would be taken for one track: its movement would be of neither.

    Args:
        los: (N, 3) of a block. first: level part (2,) of the product's first line of sight; None: it is in this block.
        file: for the message.

    Returns:
        That of the product's first line of sight, for the next block; None without any.

    Raises:
        InputError: they are seen from two sides.
    """
    level = np.asarray(los[:, :2], float)
    length = np.linalg.norm(level, axis=1)
    seen = level[length > LEAST_LEVEL]
    if len(seen):
        first = seen[0] if first is None else first
        cosine = seen @ first / (np.linalg.norm(seen, axis=1) * np.linalg.norm(first))
        if cosine.min() < np.cos(np.radians(MAX_TURN_DEG)):
            other = seen[int(np.argmin(cosine))]
            raise InputError(
                f"{file}: points seen from two sides: los_east, los_north {first[0]:.2f}, {first[1]:.2f} and "
                f"{other[0]:.2f}, {other[1]:.2f}. Each track (ascending, descending) needs a file of its own."
            )
    return first
