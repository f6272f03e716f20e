"""Turn profile rows, the first generation's files, into the same scatterers and sequences
as other data.

A row has the slope of a building along its long axis. It has nothing across the axis, no height,
time or line of sight. So each place becomes a scatterer on the axis that one track sees from
straight above, and its movement is the integral of the slope. The fit of the rigid motion removes
what a tilt or the start of the integral adds. A profile does not show where north is: its quadrant
is undefined, unless the file has one and the caller knows its codes. One file is one portion of the
work, like a tile of a city of points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.core.arrays import Float
from plumbline.core.compass import Frames
from plumbline.core.files import atomic_folder, write_json
from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE
from plumbline.params import Prepare
from plumbline.prepare.abstention import JUDGED, MIN_SPREAD_M, MIN_SPREAD_SHARE, REASONS, LeftOut
from plumbline.prepare.features.build import choose_scatterers, describe_buildings
from plumbline.prepare.features.sequences import UNDEFINED, Sequences, only
from plumbline.prepare.scatterers import Scatterers
from plumbline.prepare.series.temporal_basis import unknown_courses
from plumbline.prepare.tiles import TILE, count_left_out
from plumbline.sources.city.profile_city import IngestedProfiles
from plumbline.sources.city.profile_rows import SLACK, Profiles

LIKELY_SLOPE_SE, LEAST_SLOPE_SE = 0.5, 0.02
"""Standard error of a slope, mm/m, where a row has too few places to show it; and the smallest
one."""
MIN_SLOPES = 5
"""Smallest number of places from which the error of a row's slopes is estimated."""


class ProfileBuildings(NamedTuple):
    """Inputs of `describe_buildings` for B buildings: the profile is the x axis, and
    positions on Earth are unknown."""

    scatterers: Scatterers
    frame: Frames
    area: Float
    """(B,) m2."""


def rows_left_out(profiles: Profiles, params: Prepare) -> LeftOut:
    """Return which of B rows cannot be judged, by the rules of `abstention` on size, number
    and spread.

    A row has its places along one line by its nature: what counts is how far they are
    spread along it.
    """
    count = np.diff(profiles.offsets)
    building = np.repeat(np.arange(len(profiles)), count)
    mean = np.bincount(building, profiles.distance, len(profiles)) / count
    spread = np.sqrt(
        np.bincount(building, (profiles.distance - mean[building]) ** 2, len(profiles)) / count
    )
    short, long = (
        np.minimum(profiles.span_m, profiles.width_m),
        np.maximum(profiles.span_m, profiles.width_m),
    )
    rules = {
        "too_small": short < params.min_side_m,
        "too_large": long > params.max_side_m,
        "few_points": count < params.min_points,
        "degenerate_points": spread < np.maximum(MIN_SPREAD_M, MIN_SPREAD_SHARE * profiles.span_m),
    }
    code = np.select(
        list(rules.values()), [1 + list(REASONS).index(name) for name in rules], default=JUDGED
    )
    return LeftOut(code.astype(np.int8))


def profile_sequences(
    profiles: Profiles,
    building_id: NDArray[np.str_],
    *,
    years: float,
    judged: NDArray[np.intp],
    max_points: int,
    city: str,
) -> Sequences:
    """Build the sequences of the rows `judged`, in that order, without labels (see
    `profile_labels`).

    Args:
        profiles: B rows.
        building_id: (B,)
        years: length of the time in which the slopes came about; a file does not have it.
        judged: ascending rows, see `rows_left_out`.
        max_points: as `prepare.max_points`.
        city: name written beside each building.
    """
    placed = profile_buildings(profiles)
    chosen = choose_scatterers(placed.scatterers, placed.frame, judged, max_points)
    return describe_buildings(
        chosen,
        placed.frame,
        area=placed.area,
        building_id=building_id,
        judged=judged,
        years=years,
        city=city,
    )


def profile_buildings(profiles: Profiles) -> ProfileBuildings:
    """Place scatterers on the axis of each building: x from its middle, changes by
    integrating the slope."""
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
        point=np.arange(places),
        xy=np.column_stack([x, unknown]),
        height=unknown,
        los=np.tile([0.0, 0.0, 1.0], (places, 1)),
        change=change,
        change_se=error,
        velocity=unknown,
        velocity_se=np.full(places, np.inf),
        common_se=unknown,
        **unknown_courses(places)._asdict(),
    )
    side = np.column_stack([profiles.span_m, profiles.width_m]).astype(float)
    return ProfileBuildings(
        scatterers, Frames(np.zeros((count, 2)), np.zeros(count), side), side.prod(axis=1)
    )


def profile_labels(profiles: Profiles) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return severity (permille; NaN without a label) and quadrant of each row; below
    category 1 it is `UNDEFINED`.

    Args:
        profiles: B rows with locations that are places in `compass.QUADRANTS`, or -1.
    """
    severity = profiles.severity.astype(np.float32)
    is_known = (severity >= CATEGORY_BOUNDS_PERMILLE[0]) & (profiles.location >= 0)
    return severity, np.where(is_known, profiles.location, UNDEFINED)


def _middle(distance: Float, span: float) -> float:
    """Return the middle of the building: of the span if distances count from its end, else
    of the distances."""
    return (
        span / 2
        if distance[0] >= 0 and distance[-1] <= span * (1 + SLACK)
        else float(distance[0] + distance[-1]) / 2
    )


def integrate_slope(distance: Float, slope: Float) -> tuple[Float, Float]:
    """Integrate slopes to displacement (n,) about its mean, mm, and its error (trapezoidal
    rule, independent slopes).

    Args:
        distance: (n,) m, not descending. slope: (n,) mm/m.
    """
    count, half = len(distance), np.diff(distance) / 2
    before, after = np.r_[0.0, half], np.r_[half, 0.0]
    change = np.r_[0.0, np.cumsum(half * (slope[1:] + slope[:-1]))]
    # The displacement of a place is a weighted sum of slopes. The trapezoidal rule weights each
    # earlier slope by half of the steps on both sides of it, the slope of the place itself by half
    # of the step before, and no later one. `mean` is the weight of each slope in the mean of all
    # places. The variance sums the squared differences of the two.
    weight = before + after
    mean = ((count - 1 - np.arange(count)) * weight + before) / count
    earlier = np.r_[0.0, np.cumsum((weight - mean) ** 2)[:-1]]
    later = np.r_[np.cumsum((mean**2)[::-1])[::-1][1:], 0.0]
    error = _slope_error(distance, slope) * np.sqrt(earlier + (before - mean) ** 2 + later)
    return change - change.mean(), np.maximum(error, LEAST_SLOPE_SE)


def _slope_error(distance: Float, slope: Float) -> float:
    """Return the standard error of a slope, mm/m: the median distance from the line between
    its neighbours, scaled."""
    if len(slope) < MIN_SLOPES:
        return LIKELY_SLOPE_SE
    width = np.maximum(distance[2:] - distance[:-2], 1e-9)
    share = np.clip((distance[1:-1] - distance[:-2]) / width, 0, 1)
    residual = slope[1:-1] - (1 - share) * slope[:-2] - share * slope[2:]
    scaled = np.abs(residual) / np.sqrt(1 + share**2 + (1 - share) ** 2)
    return max(1.4826 * float(np.median(scaled)), LEAST_SLOPE_SE)


GROUP = "group.npy"
REPORTED = ("name", "points", "duplicates", "first_epoch", "last_epoch")
"""Figures of a file that the audit gets as those of a track."""


@dataclass(frozen=True)
class ProfilePart:
    """Rows to prepare, and the folder for the result."""

    folder: Path
    city: IngestedProfiles
    product: str
    """Name of the file."""
    years: float
    """Length of the time in which the slopes came about."""
    params: Prepare


def plan_profiles(
    cities: Sequence[IngestedProfiles], work: Path, params: Prepare
) -> list[ProfilePart]:
    """Plan the portions of all cities of profile rows, in folders below `work`."""
    return [
        ProfilePart(
            work / city.folder.name / f"{number:04d}",
            city,
            product["name"],
            product["years"],
            params,
        )
        for city in cities
        for number, product in enumerate(city.products)
    ]


def prepare_profiles(part: ProfilePart) -> None:
    """Write the labelled sequences of a file, the group of each, and the rows left out.

    Raises:
        InputError: what `ingest` wrote is missing or damaged.
    """
    rows = part.city.rows(part.product)
    left_out = rows_left_out(rows.profiles, part.params)
    judged = left_out.judged
    sequences = profile_sequences(
        rows.profiles,
        rows.building_id,
        years=part.years,
        judged=judged,
        max_points=part.params.max_points,
        city=part.city.folder.name,
    )
    severity, quadrant = profile_labels(rows.profiles)
    is_labelled = np.isfinite(severity[judged])
    sequences = replace(
        sequences,
        severity=severity[judged],
        quadrant=quadrant[judged],
        accepted=only(quadrant[judged]),
    )
    with atomic_folder(part.folder) as out:
        sequences.take(np.flatnonzero(is_labelled)).save(out / "sequences")
        np.save(out / GROUP, rows.group[judged][is_labelled])
        write_json(
            out / TILE,
            {"left_out": {**left_out.counts, "without_label": int((~is_labelled).sum())}},
        )


def profile_places(
    parts: Sequence[ProfilePart], block_m: float
) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """Return a place (B, 2) for every building, so that each group is one block, and the
    name (B,) of its city.

    Rows have no position; but several rows of one building must stay on one side of a split.
    """
    groups = [np.load(part.folder / GROUP) for part in parts]
    names = np.array([part.city.folder.name for part in parts], dtype=str)
    group = np.concatenate([np.zeros(0, np.int64), *groups])
    centre = np.column_stack([(group + 0.5) * block_m, np.full(len(group), block_m / 2)])
    return centre, np.repeat(
        names, np.array([len(part_groups) for part_groups in groups], dtype=np.intp)
    )


def profile_reports(parts: Sequence[ProfilePart]) -> dict[str, dict[str, Any]]:
    """Return the audit's report for each city; a file counts as a track.

    Every place of a row is on its building.
    """
    folders: dict[str, list[Path]] = {}
    for part in parts:
        folders.setdefault(part.city.folder.name, []).append(part.folder)
    cities = {part.city.folder.name: part.city for part in parts}
    return {
        name: {
            **{key: city.about[key] for key in ("buildings", "labelled")},
            "area_km2": None,
            "left_out": dict(count_left_out(folders[name])),
            "notes": [],
            "tracks": [
                {key: product[key] for key in REPORTED if key in product}
                | {"assigned": product["points"]}
                for product in city.products
            ],
        }
        for name, city in cities.items()
    }


def about_groups(parts: Sequence[ProfilePart]) -> str:
    """Return an addition to the message about too few blocks to split; empty without profile
    rows."""
    if not parts:
        return ""
    groups = sum(
        city["groups"] for city in {part.city.folder: part.city.about for part in parts}.values()
    )
    return (
        f" Of profile rows, each building counts as a block: {groups} blocks. Rows of equal span "
        "and width are of one building, unless profiles.same_building in params.yaml "
        "(ingest.products) changes that."
    )
