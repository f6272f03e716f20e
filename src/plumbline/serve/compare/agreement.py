"""Put the radar's figures of buildings beside the levelled ones, and check where both agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import geopandas
import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray
from scipy.special import chdtri, ndtri

from plumbline.core.strain import INTERVAL_SHARE
from plumbline.prepare.response.whole_building import LIKELY_TILT, WholeBuildings
from plumbline.serve.compare.levelled import House, LevelledPeriod
from plumbline.serve.place.surroundings import comparable_movements, towards_of
from plumbline.sources.levelling import Levelling

Array = NDArray[np.floating[Any]]
HALF_WIDTH = float(ndtri((1 + INTERVAL_SHARE) / 2))
"""Half width of the 90 % interval of a difference, in standard errors."""
TILT_HALF_WIDTH = float(np.sqrt(chdtri(2, 1 - INTERVAL_SHARE)))
"""Half width of the 90 % interval of the length of a difference of two tilts, in standard errors:
its square has two degrees of freedom."""
HALF_STRAIN_SPACING_M = 12.0
"""Spacing of points that show half of a strain, in the median: bends between them are not seen. On
simulated houses, points 3 to 12 m apart show 1 / (1 + spacing / 12 m) of it
(docs/benchmarks/2026-11-28-levelling.md)."""
UNSEEN_SHARE = 0.1
"""Standard deviation of the true strain that is expected from levels, as a share of it. The
interval of the radar is added."""
MIN_BUILDINGS = 3
"""Smallest number of buildings whose median difference is taken for that of the datums."""
UNITS = {"settlement": "mm", "tilt": "mm_m", "severity": "permille"}
"""Compared quantity -> its unit in the names of columns."""


class Comparison(NamedTuple):
    """Table of the levelled buildings (columns of docs/levelling.md), and the datum shift."""

    table: geopandas.GeoDataFrame
    datum_mm: float
    """Radar less levelling, already subtracted; NaN if there are too few buildings."""
    datum_std_mm: float
    """Its standard error, which counts independent errors alone."""
    period: LevelledPeriod
    left_out: Sequence[str] = ()
    """Names of the points that do not fit their building, see `misread`."""


def compare_houses(
    houses: Sequence[House],
    predictions: geopandas.GeoDataFrame,
    whole: WholeBuildings,
    period: LevelledPeriod,
) -> Comparison:
    """Return the table of the levelled buildings.

    Args:
        houses: levelled buildings. predictions: of all F buildings over the period.
        whole: motion of these F buildings. period: levelled period.
    """
    rows = np.array([house.row for house in houses], np.intp)
    judged = predictions.iloc[rows].reset_index(drop=True)
    settlements, std = vertical_settlements(whole)
    tilts, tilt_covariance = (
        whole.tilt[rows].astype(float),
        whole.tilt_covariance[rows].astype(float),
    )
    settlement, datum, datum_std = _settlements(
        houses, settlements[rows], std[rows], tilts, tilt_covariance
    )
    columns = {
        "building_id": judged["building_id"],
        "begins": str(period.begin),
        "ends": str(period.end),
        "levelled_points": [house.points for house in houses],
        "radar_points": judged["n_points"],
        **settlement,
        **_tilts(houses, tilts, tilt_covariance, judged),
        **_severities(houses, judged),
        "model_version": judged["model_version"],
    }
    table = geopandas.GeoDataFrame(
        columns, geometry=judged.geometry.to_numpy(), crs=predictions.crs
    )
    return Comparison(table, datum, datum_std, period)


def vertical_settlements(whole: WholeBuildings) -> tuple[Array, Array]:
    """Return settlements (F,) and their standard errors, mm.

    A building seen from one side is treated as if all its movement were vertical.
    """
    settlement, std = np.full((2, len(whole.years)), np.nan)
    for number, movements in enumerate(comparable_movements(whole)):
        # The first movements are vertical.
        up = whole.los[:, number - 1, 2] if number else np.ones(len(settlement))
        settlement[movements.is_reported] = (movements.value / up)[movements.is_reported]
        std[movements.is_reported] = (np.sqrt(movements.variance) / np.abs(up))[
            movements.is_reported
        ]
    return settlement, std


def _settlements(
    houses: Sequence[House], radar: Array, radar_std: Array, tilts: Array, covariance: Array
) -> tuple[dict[str, Any], float, float]:
    """Return the columns of settlements, the difference of the datums, and its standard error."""
    levelled, std, offset_m = (
        np.array([getattr(h, name) for h in houses]) for name in _SETTLEMENT_FIELDS
    )
    # Bolts on one side of a building: their settlement is brought to the middle of the footprint by
    # the tilt from radar; without one the tilt is 0 with its usual standard deviation.
    has_tilt = np.asarray(np.isfinite(tilts).all(1))
    levelled = levelled - np.where(
        has_tilt, (offset_m * np.where(has_tilt[:, None], tilts, 0)).sum(1), 0
    )
    tilt_covariance = np.where(has_tilt[:, None, None], covariance, LIKELY_TILT**2 * np.eye(2))
    std = np.sqrt(std**2 + np.einsum("bi,bij,bj->b", offset_m, tilt_covariance, offset_m))
    difference, variance = radar - levelled, radar_std**2 + std**2
    is_compared = np.isfinite(difference)
    count, datum, datum_std = int(is_compared.sum()), np.nan, np.nan
    if count >= MIN_BUILDINGS:
        datum = float(np.median(difference[is_compared]))
        difference = difference - datum
        # A median of normal values has pi/2 of the variance of their mean, to which each
        # value itself belongs.
        datum_std = float(np.sqrt(np.pi / 2 * np.median(variance[is_compared]) / count))
        variance = variance * (1 - 2 / count) + datum_std**2
    columns = _columns(
        "settlement",
        radar=(radar, radar_std),
        levelled=(levelled, std),
        difference=(difference, np.sqrt(variance)),
    )
    return columns, datum, datum_std


_SETTLEMENT_FIELDS = ("settlement", "settlement_std", "offset_m")


def _tilts(
    houses: Sequence[House], tilts: Array, covariance: Array, judged: pd.DataFrame
) -> dict[str, Any]:
    """Return the columns of tilts: both sizes, and the length of the difference of the vectors."""
    levelled, levelled_covariance = (
        np.array([getattr(h, name) for h in houses]) for name in ("tilt", "covariance")
    )
    diff, cov = tilts - levelled, covariance + levelled_covariance
    length, standardised, levelled_std = np.full((3, len(houses)), np.nan)
    is_compared = np.asarray(np.isfinite(cov).all((1, 2)))
    length[is_compared] = np.hypot(*diff[is_compared].T)
    standardised[is_compared] = np.sqrt(
        np.einsum(
            "bi,bij,bj->b", diff[is_compared], np.linalg.inv(cov[is_compared]), diff[is_compared]
        )
    )
    has_levelled_tilt = np.asarray(np.isfinite(levelled_covariance).all((1, 2)))
    levelled_std[has_levelled_tilt] = np.sqrt(
        np.trace(levelled_covariance[has_levelled_tilt], axis1=1, axis2=2) / 2
    )
    std = np.divide(length, standardised, out=np.full(len(houses), np.nan), where=standardised > 0)
    columns = _columns(
        "tilt",
        radar=(judged["tilt_mm_m"], judged["tilt_std_mm_m"]),
        levelled=(np.hypot(*levelled.T), levelled_std),
        difference=(length, std),
        half_width=TILT_HALF_WIDTH,
    )
    return {
        **columns,
        "tilt_towards": judged["tilt_towards"],
        "levelled_tilt_towards": towards_of(levelled),
    }


def _severities(houses: Sequence[House], judged: pd.DataFrame) -> dict[str, Any]:
    """Return the columns of strains.

    The radar is compared with the true strain that is expected from levels at this spacing, see
    `strain_factor`. Its standard error is that of the side of its interval towards the expected
    strain.
    """
    levelled, std = (
        np.array([getattr(h, name) for h in houses]) for name in ("severity", "severity_std")
    )
    radar, low, high = (
        judged[f"severity_{end}"].to_numpy(float) for end in ("permille", "low", "high")
    )
    factor = strain_factor(np.array([h.spacing for h in houses]))
    expected = levelled * factor
    difference = radar - expected
    radar_std = np.where(difference > 0, radar - low, high - radar) / HALF_WIDTH
    difference_std = np.sqrt(radar_std**2 + (std * factor) ** 2 + (UNSEEN_SHARE * expected) ** 2)
    columns = _columns(
        "severity",
        radar=(radar, radar_std),
        levelled=(levelled, std),
        difference=(difference, difference_std),
    )
    columns.pop("severity_std_permille")  # the interval has two different sides
    return {
        **columns,
        "severity_low": low,
        "severity_high": high,
        "levelled_quadrant": [h.quadrant for h in houses],
        "levelled_spacing_m": [h.spacing for h in houses],
    }


def strain_factor(spacing_m: Any) -> Any:
    """Return the median ratio of a true strain to the one that points with this spacing show."""
    return 1 + spacing_m / HALF_STRAIN_SPACING_M


def _columns(
    name: str,
    *,
    radar: tuple[Any, Any],
    levelled: tuple[Array, Array],
    difference: tuple[Array, Array],
    half_width: float = HALF_WIDTH,
) -> dict[str, Any]:
    """Return the columns of a figure; each argument is (value, standard error)."""
    unit = UNITS[name]
    off, off_std = difference
    agrees = pd.Series(np.abs(off) <= half_width * off_std, dtype="boolean").mask(~np.isfinite(off))
    return {
        f"{name}_{unit}": radar[0],
        f"{name}_std_{unit}": radar[1],
        f"levelled_{name}_{unit}": levelled[0],
        f"levelled_{name}_std_{unit}": levelled[1],
        f"{name}_difference_{unit}": off,
        f"{name}_difference_std_{unit}": off_std,
        f"{name}_agrees": agrees,
    }


def point_table(
    levels: Levelling,
    row: NDArray[np.intp],
    xy: Array,
    ids: NDArray[np.object_],
    comparison: Comparison,
) -> Any:
    """Return the levelled points with a place, and the settlement of their building.

    Args:
        levels: P points. row: (P,) footprint, -1: none. xy: (P, 2) m. ids: (F,) of the footprints.
        comparison: of the buildings.
    """
    is_placed, period = np.isfinite(xy).all(1), comparison.period
    points = pd.DataFrame(
        {
            "point": levels.point[is_placed],
            "building_id": np.where(row >= 0, ids[row], "")[is_placed],
            "change_mm": period.change[is_placed],
            "change_std_mm": np.where(np.isfinite(period.change), period.std, np.nan)[is_placed],
            "is_used": (row >= 0)[is_placed] & np.isfinite(period.change[is_placed]),
            "datum_mm": comparison.datum_mm,
        }
    )
    settlement_columns = [
        "building_id",
        *(name for name in comparison.table.columns if "settlement" in name),
    ]
    points = points.merge(pd.DataFrame(comparison.table[settlement_columns]), "left", "building_id")
    return geopandas.GeoDataFrame(
        points, geometry=shapely.points(xy[is_placed]), crs=comparison.table.crs
    )


def format_agreement(comparison: Comparison) -> str:
    """Return the sentence on how many buildings agree, and by how much the datums differ."""
    agreements = []
    for name, quantity in (("settlement", "settlement"), ("tilt", "tilt"), ("severity", "strain")):
        agrees = comparison.table[f"{name}_agrees"].dropna()
        if len(agrees):
            agreements.append(f"{quantity} of {int(agrees.sum())} of {len(agrees)} buildings")
    if not agreements:
        return "Nothing can be compared: no levelled building has a figure by radar."
    text = f"Radar and levelling agree within the 90 % interval in {', '.join(agreements)}"
    if np.isfinite(comparison.datum_mm):
        sign = "less" if comparison.datum_mm > 0 else "more"
        text += (
            f"; the radar shows {abs(comparison.datum_mm):.1f} mm {sign} settlement "
            "everywhere, which was taken off"
        )
    if count := len(comparison.left_out):
        left_out = ", ".join(comparison.left_out[:MIN_BUILDINGS]) + (
            ", ..." if count > MIN_BUILDINGS else ""
        )
        text += f"; left out as misread: {left_out}"
    return f"{text}."
