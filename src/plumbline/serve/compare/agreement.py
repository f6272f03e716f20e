"""Put the radar's figures of buildings beside the levelled ones, and say where both agree."""

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
from plumbline.serve.compare.levelled import House, Period
from plumbline.serve.place.surroundings import comparable, towards_of
from plumbline.sources.levelling import Levelling

Array = NDArray[np.floating[Any]]
WITHIN = float(ndtri((1 + INTERVAL_SHARE) / 2))
"""Standard errors that hold 90 % of the differences."""
WITHIN_PLANE = float(np.sqrt(chdtri(2, 1 - INTERVAL_SHARE)))
"""The same of the length of a difference of two tilts."""
BETWEEN_M = 12.0
"""Spacing of points that see half of a strain (median): what bends between them is not seen. On simulated houses points
that are 3 to 12 m apart see 1 / (1 + spacing / 12 m) of it (docs/benchmarks/2026-11-28-levelling.md)."""
UNSEEN = 0.1
"""Standard deviation of the strain that is expected by this, as a share of it, beside the radar's wide interval."""
FEWEST = 3
"""Buildings whose median difference is that of the datums."""
FIGURES = {"settlement": "mm", "tilt": "mm_m", "severity": "permille"}
"""What is compared, and its unit in the names of columns."""


class Compared(NamedTuple):
    """A row a building, with the columns of docs/levelling.md, and what was taken off for the datums."""

    table: geopandas.GeoDataFrame
    datum_mm: float
    """Radar less levelling; NaN where too few buildings tell it."""
    period: Period
    left_out: Sequence[str] = ()
    """Names of points that do not fit their building, see `misread`."""


def compare_houses(
    houses: Sequence[House], predictions: geopandas.GeoDataFrame, whole: WholeBuildings, period: Period
) -> Compared:
    """Return the table of the levelled buildings.

    Args:
        houses: by levelling. predictions: of all F buildings over the period. whole: motion of these.
        period: what is compared.
    """
    rows = np.array([house.row for house in houses], np.intp)
    own = predictions.iloc[rows].reset_index(drop=True)
    settled, std = vertical(whole)
    tilts, error = whole.tilt[rows].astype(float), whole.tilt_covariance[rows].astype(float)
    settlement, datum = _settlements(houses, settled[rows], std[rows], tilts, error)
    columns = {
        "building_id": own["building_id"],
        "begins": str(period.begin),
        "ends": str(period.end),
        "levelled_points": [house.points for house in houses],
        "radar_points": own["n_points"],
        **settlement,
        **_tilts(houses, tilts, error, own),
        **_severities(houses, own),
        "model_version": own["model_version"],
    }
    table = geopandas.GeoDataFrame(columns, geometry=own.geometry.to_numpy(), crs=predictions.crs)
    return Compared(table, datum, period)


def vertical(whole: WholeBuildings) -> tuple[Array, Array]:
    """Return settlements (F,) and their standard errors, mm; one-sided ones as if all movement were vertical."""
    settled, error = np.full((2, len(whole.years)), np.nan)
    for number, one in enumerate(comparable(whole)):
        up = whole.los[:, number - 1, 2] if number else np.ones(len(settled))  # the first are vertical
        settled[one.own] = (one.value / up)[one.own]
        error[one.own] = (np.sqrt(one.variance) / np.abs(up))[one.own]
    return settled, error


def _settlements(
    houses: Sequence[House], radar: Array, radar_std: Array, tilts: Array, covariance: Array
) -> tuple[dict[str, Any], float]:
    """Return the columns of settlements, and the difference of the datums."""
    levelled, std, off = (np.array([getattr(one, name) for one in houses]) for name in _OF_SETTLEMENT)
    # Of one or two bolts on one side: brought to the middle by the radar's tilt, or what is likely of one.
    known = np.asarray(np.isfinite(tilts).all(1))
    levelled = levelled - np.where(known, (off * np.where(known[:, None], tilts, 0)).sum(1), 0)
    lever = np.where(known[:, None, None], covariance, LIKELY_TILT**2 * np.eye(2))
    std = np.sqrt(std**2 + np.einsum("bi,bij,bj->b", off, lever, off))
    difference, variance = radar - levelled, radar_std**2 + std**2
    both = np.isfinite(difference)
    count, datum = int(both.sum()), np.nan
    if count >= FEWEST:
        datum = float(np.median(difference[both]))
        difference = difference - datum
        # A median of normal values has pi/2 of the variance of their mean, to which each value itself belongs.
        variance = variance * (1 - 2 / count) + np.pi / 2 * float(np.median(variance[both])) / count
    return _columns("settlement", radar, radar_std, levelled, std, difference, np.sqrt(variance), WITHIN), datum


_OF_SETTLEMENT = ("settlement", "settlement_std", "off")


def _tilts(houses: Sequence[House], tilts: Array, covariance: Array, own: pd.DataFrame) -> dict[str, Any]:
    """Return the columns of tilts: sizes, and the length of the difference of both as vectors."""
    levelled, of_levels = (np.array([getattr(one, name) for one in houses]) for name in ("tilt", "covariance"))
    apart, together = tilts - levelled, covariance + of_levels
    length, far, error = np.full((3, len(houses)), np.nan)
    both = np.asarray(np.isfinite(together).all((1, 2)))
    length[both] = np.hypot(*apart[both].T)
    far[both] = np.sqrt(np.einsum("bi,bij,bj->b", apart[both], np.linalg.inv(together[both]), apart[both]))
    has = np.asarray(np.isfinite(of_levels).all((1, 2)))
    error[has] = np.sqrt(np.trace(of_levels[has], axis1=1, axis2=2) / 2)
    std = np.divide(length, far, out=np.full(len(houses), np.nan), where=far > 0)
    size = np.hypot(*levelled.T)
    found = _columns("tilt", own["tilt_mm_m"], own["tilt_std_mm_m"], size, error, length, std, WITHIN_PLANE)
    return {**found, "tilt_towards": own["tilt_towards"], "levelled_tilt_towards": towards_of(levelled)}


def _severities(houses: Sequence[House], own: pd.DataFrame) -> dict[str, Any]:
    """Return the columns of strains.

    The radar is compared with the strain that levels seen at this spacing let expect, see `raised`. Its error is that
    of the side of its interval where the expected strain lies.
    """
    levelled, std = (np.array([getattr(one, name) for one in houses]) for name in ("severity", "severity_std"))
    radar, low, high = (own[f"severity_{end}"].to_numpy(float) for end in ("permille", "low", "high"))
    times = raised(np.array([one.spacing for one in houses]))
    expected = levelled * times
    difference = radar - expected
    side = np.where(difference > 0, radar - low, high - radar) / WITHIN
    together = np.sqrt(side**2 + (std * times) ** 2 + (UNSEEN * expected) ** 2)
    found = _columns("severity", radar, side, levelled, std, difference, together, WITHIN)
    found.pop("severity_std_permille")  # the interval says more
    return {
        **found,
        "severity_low": low,
        "severity_high": high,
        "levelled_quadrant": [one.quadrant for one in houses],
        "levelled_spacing_m": [one.spacing for one in houses],
    }


def raised(spacing_m: Any) -> Any:
    """Return by how much a true strain is larger than what points with this spacing see, in the median."""
    return 1 + spacing_m / BETWEEN_M


def _columns(
    name: str, radar: Any, radar_std: Any, levelled: Array, levelled_std: Array, apart: Array, std: Array, within: float
) -> dict[str, Any]:
    unit = FIGURES[name]
    agrees = pd.Series(np.abs(apart) <= within * std, dtype="boolean").mask(~np.isfinite(apart))
    return {
        f"{name}_{unit}": radar,
        f"{name}_std_{unit}": radar_std,
        f"levelled_{name}_{unit}": levelled,
        f"levelled_{name}_std_{unit}": levelled_std,
        f"{name}_difference_{unit}": apart,
        f"{name}_difference_std_{unit}": std,
        f"{name}_agrees": agrees,
    }


def point_table(read: Levelling, row: NDArray[np.intp], xy: Array, ids: NDArray[np.object_], compared: Compared) -> Any:
    """Return the levelled points with a place: name, change and its error, and the settlement of their building.

    Args:
        read: P points. row: (P,) footprint, -1: none. xy: (P, 2) m. ids: (F,) of the footprints. compared: the result.
    """
    shown, period = np.isfinite(xy).all(1), compared.period
    points = pd.DataFrame(
        {
            "point": read.point[shown],
            "building_id": np.where(row >= 0, ids[row], "")[shown],
            "change_mm": period.change[shown],
            "change_std_mm": np.where(np.isfinite(period.change), period.std, np.nan)[shown],
            "is_used": (row >= 0)[shown] & np.isfinite(period.change[shown]),
            "datum_mm": compared.datum_mm,
        }
    )
    of_building = ["building_id", *(name for name in compared.table.columns if "settlement" in name)]
    points = points.merge(pd.DataFrame(compared.table[of_building]), "left", "building_id")
    return geopandas.GeoDataFrame(points, geometry=shapely.points(xy[shown]), crs=compared.table.crs)


def sentence(compared: Compared) -> str:
    """Say how many buildings agree, and what the datums differ by."""
    said = []
    for name, called in (("settlement", "settlement"), ("tilt", "tilt"), ("severity", "strain")):
        agrees = compared.table[f"{name}_agrees"].dropna()
        if len(agrees):
            said.append(f"{called} of {int(agrees.sum())} of {len(agrees)} buildings")
    if not said:
        return "Nothing can be compared: no levelled building has a figure by radar."
    text = f"Radar and levelling agree within the 90 % interval in {', '.join(said)}"
    if np.isfinite(compared.datum_mm):
        less = "less" if compared.datum_mm > 0 else "more"
        text += f"; the radar shows {abs(compared.datum_mm):.1f} mm {less} settlement everywhere, which was taken off"
    if count := len(compared.left_out):
        named = ", ".join(compared.left_out[:FEWEST]) + (", ..." if count > FEWEST else "")
        text += f"; left out as misread: {named}"
    return f"{text}."
