"""How each building moves as a whole: a table of velocities for users, beside the diagnosis of what moves within it."""

from __future__ import annotations

import numpy as np
import pandas
from numpy.typing import NDArray

from plumbline.core.compass import Frames
from plumbline.prepare.response.decompose import TrackMeans, solve_units, track_means
from plumbline.prepare.scatterers import Scatterers

SIDES = ("none", "one", "both")


def building_means(scatterers: Scatterers, frame: Frames, tracks: int) -> TrackMeans:
    """Mean LOS velocity (mm/yr) of each building in each of `tracks` tracks.

    Args:
        scatterers: of any of the buildings of `frame`.
        frame: of B buildings.
        tracks: number of tracks of the city.
    """
    building = scatterers.building
    angle = frame.angle[building]
    cos, sin = np.cos(angle), np.sin(angle)
    x, y, up = scatterers.los.T
    los = np.stack([x * cos - y * sin, x * sin + y * cos, up], axis=1)
    rates = (scatterers.velocity, scatterers.velocity_se, scatterers.common_se)
    return track_means(building, scatterers.track, los, *rates, len(frame.angle), tracks)


def motion_table(building_id: NDArray[np.object_], means: TrackMeans) -> pandas.DataFrame:
    """One row a building, velocities in mm/yr with standard errors; north is taken as zero (see `decompose`).

    Columns: `building_id`; `up_mm_yr`, `up_se_mm_yr`, `east_mm_yr`, `east_se_mm_yr`; `sides`, from which the building
    is seen: `both`, `one` (then east is empty and was taken as zero for up) or `none`; `tracks`; `points`.
    """
    found = solve_units(means)
    sides = np.isfinite(found.up).astype(int) + np.isfinite(found.east)
    return pandas.DataFrame(
        {
            "building_id": building_id,
            "up_mm_yr": found.up,
            "up_se_mm_yr": np.where(np.isfinite(found.up_se), found.up_se, np.nan),
            "east_mm_yr": found.east,
            "east_se_mm_yr": np.where(np.isfinite(found.east_se), found.east_se, np.nan),
            "sides": np.asarray(SIDES, object)[sides],
            "tracks": found.tracks,
            "points": found.points,
        }
    )
