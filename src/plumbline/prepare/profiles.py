"""From profile rows, the first generation's files, to the same scatterers and sequences as everything else.

A row says how a building's slope runs along its long axis, and nothing of what lies across, of height, time or lines of
sight. So each place becomes a scatterer on the axis that one track sees from straight above, and its movement is the
integral of the slope. What a rigid tilt or the start of the integral adds is taken off by the decoupling. A profile
cannot tell north from south: its quadrant is undefined, unless the file says one and the caller knows its codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.compass import QUADRANTS, Frames
from plumbline.prepare.describe import describe_buildings
from plumbline.prepare.scatterers import Scatterers
from plumbline.prepare.sequences import UNDEFINED, Sequences
from plumbline.sources.profiles import Profiles
from plumbline.strain import CATEGORY_BOUNDS_PERMILLE

Float = NDArray[np.floating[Any]]
LIKELY_SLOPE_SE, LEAST_SLOPE_SE = 0.5, 0.02
"""mm/m: error of a slope where a row has too few places to show it; and the least that is believed."""
ENOUGH = 5
"""Places, from which on a row shows the error of its slopes."""


class ProfileBuildings(NamedTuple):
    """What `describe_buildings` takes: B buildings whose x axis is the profile, in no place on Earth."""

    scatterers: Scatterers
    frame: Frames
    area: Float
    """(B,) m2."""


def profile_sequences(
    profiles: Profiles, building_id: NDArray[np.str_], years: float, min_points: int, max_points: int, city: str
) -> Sequences:
    """Sequences of the rows with `min_points` places or more, without labels (see `profile_labels`).

    Args:
        profiles: B rows.
        building_id: (B,)
        years: length of the time in which the slopes came about; a file does not say it.
        min_points: as `prepare.min_points`. max_points: as `prepare.max_points`.
        city: name written beside each building.
    """
    judged = np.flatnonzero(np.diff(profiles.offsets) >= min_points)
    made = profile_buildings(profiles)
    return describe_buildings(
        made.scatterers, made.frame, made.area, building_id, judged, years, max_points, city
    )  # fmt: skip


def profile_buildings(profiles: Profiles) -> ProfileBuildings:
    """Scatterers on the axis of each building: x from its middle, the change of each the integral of the slope."""
    count = len(profiles)
    building = np.repeat(np.arange(count), np.diff(profiles.offsets))
    places = len(building)
    x, change, error = np.zeros(places), np.zeros(places), np.ones(places)
    for b in range(count):
        rows = slice(int(profiles.offsets[b]), int(profiles.offsets[b + 1]))
        distance, slope = profiles.of(b)
        x[rows] = distance - _middle(distance, float(profiles.span_m[b]))
        change[rows], error[rows] = integrate_slope(distance, slope)
    unknown = np.zeros(places)
    scatterers = Scatterers(
        building=building,
        track=np.zeros(places, dtype=np.intp),
        xy=np.column_stack([x, unknown]),
        height=unknown,
        los=np.tile([0.0, 0.0, 1.0], (places, 1)),
        change=change,
        change_se=error,
        velocity=unknown,
        velocity_se=np.full(places, np.inf),
        common_se=unknown,
    )
    side = np.column_stack([profiles.span_m, profiles.width_m]).astype(float)
    return ProfileBuildings(scatterers, Frames(np.zeros((count, 2)), np.zeros(count), side), side.prod(axis=1))


def profile_labels(
    profiles: Profiles, to_permille: float, quadrants: Mapping[int, str]
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Severity (permille; NaN where unlabelled) and quadrant code of each row.

    Args:
        profiles: B rows.
        to_permille: what the file's severities are multiplied with.
        quadrants: name in `compass.QUADRANTS` of each of the file's codes of locations; a code that is not in it,
            and any below category 1, gives `UNDEFINED`.
    """
    severity = (profiles.severity * to_permille).astype(np.float32)
    code = np.array([_code(quadrants.get(int(place))) for place in profiles.location], dtype=np.int64)
    return severity, np.where(severity >= CATEGORY_BOUNDS_PERMILLE[0], code, UNDEFINED)


def _code(quadrant: str | None) -> int:
    return UNDEFINED if quadrant is None else QUADRANTS.index(quadrant)


def _middle(distance: Float, span: float) -> float:
    """Middle of the building: of the span, if distances count from its end, else of the distances."""
    if distance[0] >= 0 and distance[-1] <= span:
        return span / 2
    return float(distance[0] + distance[-1]) / 2


def integrate_slope(distance: Float, slope: Float) -> tuple[Float, Float]:
    """Displacement (n,) by the trapezoidal rule, about its mean, mm; and its standard error if slopes err on their own.

    Args:
        distance: (n,) m, not descending. slope: (n,) mm/m.
    """
    # Rows are places, columns slopes: each step counts half of the slope at either end.
    step = np.diff(distance)
    half = np.zeros((len(distance), len(distance)))
    half[1:, :-1] += np.tril(np.broadcast_to(step / 2, (len(step), len(step))))
    half[1:, 1:] += np.tril(np.broadcast_to(step / 2, (len(step), len(step))))
    about_mean = half - half.mean(axis=0)
    error = _slope_error(distance, slope) * np.sqrt((about_mean**2).sum(axis=1))
    return about_mean @ slope, np.maximum(error, LEAST_SLOPE_SE)


def _slope_error(distance: Float, slope: Float) -> float:
    """Standard error of a slope, mm/m, from how far each is off the line between its neighbours (median)."""
    if len(slope) < ENOUGH:
        return LIKELY_SLOPE_SE
    width = np.maximum(distance[2:] - distance[:-2], 1e-9)
    share = np.clip((distance[1:-1] - distance[:-2]) / width, 0, 1)
    off = slope[1:-1] - (1 - share) * slope[:-2] - share * slope[2:]
    scaled = np.abs(off) / np.sqrt(1 + share**2 + (1 - share) ** 2)
    return max(1.4826 * float(np.median(scaled)), LEAST_SLOPE_SE)
