"""Turn the scatterers of buildings into the network's input columns, and back.

The motion that the fit removed can be restored, but for each track's offset.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.core.compass import Frames, quadrant_code
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE, Column, names
from plumbline.prepare.features.sequences import Sequences, no_labels
from plumbline.prepare.response.damage_separation import separate
from plumbline.prepare.response.rigid_body import local_motion, remove_rigid, rigid_design
from plumbline.prepare.response.shapes import compute_strains, fit_shapes
from plumbline.prepare.scatterers import Rectangle, Scatterers, rectangles
from plumbline.prepare.series.temporal_basis import SHAPES, Courses, unknown_courses

LEAST_SIDE_M = 0.5
"""Smallest side, m: shorter ones are taken as this long."""


def choose_scatterers(
    scatterers: Scatterers, frame: Frames, judged: NDArray[np.intp], max_points: int
) -> Scatterers:
    """Return at most `max_points` scatterers of each of the buildings `judged`, in the
    order of their sequences.

    Args:
        scatterers: of any of F buildings. frame: of the F buildings. judged: (B,) ascending
            rows of them.
        max_points: longest sequence.
    """
    thinned = _thin(scatterers.take(np.isin(scatterers.building, judged)), frame, max_points)
    return thinned.take(_along_long_axis(thinned, frame))


def describe_buildings(
    scatterers: Scatterers,
    frame: Frames,
    *,
    area: NDArray[np.floating[Any]],
    building_id: NDArray[np.str_],
    judged: NDArray[np.intp],
    years: float,
    city: str,
) -> Sequences:
    """Build the sequences of the buildings `judged`, in that order, without labels.

    Args:
        scatterers: of these buildings, see `choose_scatterers`: row for row those of the sequences.
        frame: of the F buildings.
        area: (F,) m2.
        building_id: (F,)
        judged: (B,) ascending rows of the buildings that are wanted; each has scatterers.
        years: length of the period that changes refer to.
        city: name written beside each building.
    """
    offsets = np.r_[0, np.cumsum(np.bincount(scatterers.building, minlength=len(area))[judged])]
    distance = np.zeros((len(scatterers), len(DISTANCE)), dtype=np.float32)
    slope = np.zeros((len(scatterers), len(SLOPE)), dtype=np.float32)
    geometry = np.zeros((len(judged), len(GEOMETRY)), dtype=np.float32)
    side = np.maximum(frame.side, LEAST_SIDE_M)
    compute_strains(side[judged])
    for rectangle in rectangles(offsets):
        of_frame, rows = judged[rectangle.building], rectangle.row[rectangle.mask]
        near, moved, geometry[rectangle.building] = _describe(
            scatterers,
            rectangle,
            side=side[of_frame],
            angle=frame.angle[of_frame],
            area=area[of_frame],
            years=years,
        )
        distance[rows], slope[rows] = near[rectangle.mask], moved[rectangle.mask]
    return Sequences(
        building_id=building_id[judged],
        city=np.full(len(judged), city),
        offsets=offsets.astype(np.int64),
        distance=distance,
        slope=slope,
        geometry=geometry,
        **no_labels(len(judged)),
    )


def _along_long_axis(scatterers: Scatterers, frame: Frames) -> NDArray[np.intp]:
    """Order scatterers by building, then along its long axis; other columns break ties,
    never the file's order."""
    side = frame.side[scatterers.building]
    long = (side[:, 1] > side[:, 0]).astype(int)
    rows = np.arange(len(scatterers))
    return np.lexsort(
        (
            scatterers.change_se,
            scatterers.change,
            scatterers.track,
            scatterers.height,
            scatterers.xy[rows, 1 - long],
            scatterers.xy[rows, long],
            scatterers.building,
        )
    )


def _thin(scatterers: Scatterers, frame: Frames, most: int) -> Scatterers:
    """Keep at most `most` scatterers of each building, spread evenly along its long axis."""
    ordered = scatterers.take(_along_long_axis(scatterers, frame))
    _, starts, size = np.unique(ordered.building, return_index=True, return_counts=True)
    rank = np.arange(len(ordered)) - np.repeat(starts, size)
    share = np.repeat(np.maximum(size / most, 1.0), size)
    # Keep a row where its rank enters a new one of the `most` equal parts.
    return ordered.take(np.flatnonzero(np.floor(rank / share) != np.floor((rank - 1) / share)))


def _describe(
    scatterers: Scatterers,
    rectangle: Rectangle,
    *,
    side: NDArray[np.floating[Any]],
    angle: NDArray[np.floating[Any]],
    area: NDArray[np.floating[Any]],
    years: float,
) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]], NDArray[np.floating[Any]]]:
    """Compute the features of one padded rectangle of buildings: distance, slope and
    geometry as in `definition`."""
    mask, part = rectangle.mask, scatterers.take(rectangle.row.ravel())
    shape = mask.shape
    xy, los = part.xy.reshape(*shape, 2), part.los.reshape(*shape, 3)
    height, track = part.height.reshape(shape), part.track.reshape(shape)
    change, error = part.change.reshape(shape), part.change_se.reshape(shape)

    rigid = remove_rigid(xy, height, los, change=change, change_se=error, track=track, mask=mask)
    courses = Courses(
        part.course.reshape(*shape, -1), part.course_root.reshape(*shape, SHAPES, SHAPES)
    )
    damage, error = separate(
        xy, height, los, track=track, mask=mask, rigid=rigid, error=error, courses=courses
    )
    # Once more, so that all columns are of the changes without the effect of wrong positions.
    rigid = remove_rigid(
        xy,
        height,
        los,
        change=change - rigid.residual + damage,
        change_se=error,
        track=track,
        mask=mask,
    )
    variance = error**2 + rigid.spread[:, None] ** 2
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    east = los[..., 0] * cos - los[..., 1] * sin
    local = local_motion(
        xy,
        los,
        east=east,
        residual=rigid.residual,
        variance=variance / np.maximum(rigid.weight, 0.05),
        mask=mask,
    )
    design = rigid_design(xy, height, los, track)
    fits = fit_shapes(xy, los, rigid.residual, error=error, rigid=design, mask=mask, side=side)

    relative = 2 * xy / side[:, None, :]
    steep = np.maximum(los[..., 2], 0.3)
    distance = np.stack(
        [
            xy[..., 0],
            xy[..., 1],
            relative[..., 0],
            relative[..., 1],
            np.hypot(xy[..., 0], xy[..., 1]),
            height,
        ],
        axis=-1,
    )
    up = rigid.residual / steep
    estimate, se = local.estimate, local.standard_error
    slope = np.stack(
        [
            up,
            error / steep,
            up / years,
            rigid.weight,
            estimate[..., 0],
            se[..., 0],
            estimate[..., 3] * cos,
            -estimate[..., 3] * sin,
            se[..., 3],
            estimate[..., 1],
            estimate[..., 2],
            se[..., 1],
            se[..., 2],
            los[..., 0],
            los[..., 1],
            los[..., 2],
        ],
        axis=-1,
    )
    count = mask.sum(1)
    code = quadrant_code(xy[..., 0], xy[..., 1])
    share = np.stack([((code == q) & mask).sum(1) / count for q in range(4)], axis=1)
    tracks = np.stack([((track == t) & mask).any(1) for t in range(int(track.max()) + 1)]).sum(0)
    tall = np.where(mask, height, 0).max(1) - np.where(mask, height, np.inf).min(1)
    noise = np.exp((np.log(error) * mask).sum(1) / count)
    geometry = np.column_stack(
        [
            side,
            side.max(1),
            side.min(1),
            np.log(np.maximum(area, 1)),
            area / side.prod(1),
            tall,
            np.log(count),
            tracks,
            np.full(len(count), years),
            rigid.tilt,
            rigid.spread,
            np.log(noise),
            share,
            *fits,
        ]
    )
    return distance, slope, geometry


Float = NDArray[np.float64]
SAME_TRACK = float(np.cos(np.radians(1.0)))
"""Lines of sight within a degree are of one track: over a house they differ by less,
between tracks by more."""


def recover(sequences: Sequences) -> Scatterers:
    """Recover the scatterers that `sequences` describe; lines of sight distinguish the tracks.

    Histories are lost; the changes contain what `separate` derived from them. `change` lacks each
    track's offset, `height` is that above the lowest scatterer before any was changed, and the
    velocities, of which no feature is made, are 0.
    """
    building = np.repeat(np.arange(len(sequences)), sequences.length)
    position = _select_columns(sequences.distance, DISTANCE, "x", "y", "height")
    los = _select_columns(sequences.slope, SLOPE, "los_x", "los_y", "los_up")
    up, error = _select_columns(
        sequences.slope, SLOPE, "differential_displacement", "differential_displacement_se"
    ).T
    tilt = _select_columns(sequences.geometry, GEOMETRY, "tilt_x", "tilt_y")[building]
    steep = np.maximum(los[:, 2], 0.3)
    arm = los[:, 2:] * position[:, :2] - los[:, :2] * position[:, 2:]
    unknown = np.zeros(len(building))
    return Scatterers(
        building=building,
        track=_number_tracks(building, los),
        point=np.arange(len(building)),
        xy=position[:, :2],
        height=position[:, 2],
        los=los,
        change=up * steep + (arm * tilt).sum(1),
        change_se=error * steep,
        velocity=unknown,
        velocity_se=unknown,
        common_se=unknown,
        **unknown_courses(len(building))._asdict(),
    )


def _select_columns(
    values: NDArray[np.float32], columns: tuple[Column, ...], *wanted: str
) -> Float:
    return np.asarray(values[:, [names(columns).index(name) for name in wanted]], dtype=float)


def _number_tracks(building: NDArray[np.intp], los: Float) -> NDArray[np.intp]:
    """Return the number (N,) of each scatterer's track within its building."""
    # Products round, and to three digits that is a degree.
    los = los / np.linalg.norm(los, axis=1, keepdims=True)
    track = np.full(len(building), -1, dtype=np.intp)
    number = 0
    while (unassigned := np.flatnonzero(track < 0)).size:
        _, first, owner = np.unique(building[unassigned], return_index=True, return_inverse=True)
        alike = (los[unassigned] * los[unassigned][first][owner]).sum(1) > SAME_TRACK
        alike[first] = True
        track[unassigned[alike]] = number
        number += 1
    return track
