"""Compare distributions and measure their shift, with figures for JSON.

- Population stability index: `sum (a - e) ln(a / e)` over bins with the shares `e` (reference) and `a`; the symmetric
  divergence of Jeffreys (1946), as used in Siddiqi (2006), Credit Risk Scorecards. Bins are the reference's tenths, and
  one more on each side of all it has; half a case is added to each bin (Krichevsky and Trofimov 1981), so that an empty
  one has a logarithm. By chance alone, with n and m independent cases, it is about `(1/n + 1/m)` times a chi-squared
  variable with bins - 1 degrees of freedom (Yurdakul and Naranjo 2020, Journal of Risk Model Validation 14(4)).
- Kolmogorov-Smirnov: the largest difference of the two cumulative distributions.
- Wasserstein: the mean distance that values have to be moved, here in standard deviations of the reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from plumbline.core.compass import QUADRANTS
from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE, DIFFICULTIES
from plumbline.prepare.audit.summary import TABLES, Summary

Values = NDArray[np.float64]
HISTOGRAM_BINS = 24
_MAD_TO_SD = 1.4826
_MIDDLE_TO_SD = 2.563


def quantiles(values: Values, at: ArrayLike) -> Values:
    """Return quantiles of ascending values, at least one, by linear interpolation (as `numpy.quantile` has them)."""
    place = np.asarray(at, np.float64) * (len(values) - 1)
    below = np.floor(place).astype(np.intp)
    above = np.minimum(below + 1, len(values) - 1)
    return np.asarray(values[below] + (place - below) * (values[above] - values[below]), np.float64)


def steps(values: Values, at: ArrayLike) -> Values:
    """Return quantiles among the ascending values, at least one: the lowest with this share of values up to it."""
    # A share that is a whole number of values must stay one, whatever its last bit.
    place = np.ceil(np.asarray(at, np.float64) * len(values) - 1e-9).astype(np.intp) - 1
    return np.asarray(values[np.maximum(place, 0)], np.float64)


def outlier_share(values: Values, z: float) -> float:
    """Return the share of ascending values that are more than `z` robust standard deviations from the median.

    The deviation is 1.4826 times the median absolute one (Iglewicz and Hoaglin 1993, How to Detect and Handle
    Outliers), or the range of the middle 80 % over 2.563 if that is more: both estimate the standard deviation of
    normal values, and the second does not vanish where half of the values are equal. Outliers that are more than a
    tenth of the values on one side hide themselves. 0 where neither varies.
    """
    if not len(values):
        return 0.0
    low, median, high = quantiles(values, [0.1, 0.5, 0.9])
    off = np.abs(values - median)
    scale = max(_MAD_TO_SD * float(np.median(off)), float(high - low) / _MIDDLE_TO_SD)
    return float((off > z * scale).mean()) if scale else 0.0


def correlations(table: str, values: NDArray[Any]) -> list[tuple[str, str, float]]:
    """Return the Pearson correlation of each pair of columns that vary, over the finite rows (N, C)."""
    rows = np.asarray(values, np.float64)
    rows = rows[np.isfinite(rows).all(1)]
    if len(rows) < 3:
        return []
    centred = rows - rows.mean(0)
    length = np.sqrt((centred**2).sum(0))
    vary = np.flatnonzero(length > 1e-9 * np.sqrt(len(rows)) * np.maximum(np.abs(rows).max(0), 1e-12))
    unit = centred[:, vary] / length[vary]
    matrix = unit.T @ unit
    named = [f"{table}.{TABLES[table][j].name}" for j in vary]
    return [
        (named[i], named[j], float(np.clip(matrix[i, j], -1, 1)))
        for i in range(len(named))
        for j in range(i + 1, len(named))
    ]


def histogram_edges(values: Values) -> Values:
    """Return even edges (BINS + 1,) over the middle 99 % of the ascending values."""
    if not len(values):
        return np.linspace(0, 1, HISTOGRAM_BINS + 1)
    low, high = quantiles(values, [0.005, 0.995])
    if not high > low:
        low, high = low - 0.5 * max(1.0, abs(low)), high + 0.5 * max(1.0, abs(high))
    return np.asarray(np.linspace(low, high, HISTOGRAM_BINS + 1), np.float64)


def histogram(values: Values, edges: Values) -> list[int]:
    """Count values within edges; values outside count in the first and the last bin."""
    return [int(n) for n in np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0]]


BINS = 10
CHANCE = 0.01
"""Probability that any column of a comparison without drift is above its chance bound (Bonferroni over the columns)."""


@dataclass(frozen=True)
class ColumnValues:
    """Distributions of a data set's columns."""

    buildings: int
    values: Mapping[str, Values]
    """`table.column` -> finite values, ascending: all, a sample, or quantiles."""


@dataclass(frozen=True)
class ColumnShift:
    """Shift of one column."""

    psi: float
    psi_chance: float
    """What the index reaches without drift, in data of this size."""
    ks: float
    wasserstein_sd: float | None
    """None where the reference does not vary."""


def columns_of(summary: Summary) -> ColumnValues:
    """Return the sampled columns of a split, and its severity."""
    values = {"label.severity_permille": _ascending(summary.sampled("severity")[:, 0])}
    for table, columns in TABLES.items():
        sampled = summary.sampled(table)
        for j, column in enumerate(columns):
            values[f"{table}.{column.name}"] = _ascending(sampled[:, j])
    return ColumnValues(summary.buildings, values)


def compare(reference: ColumnValues, current: ColumnValues) -> dict[str, ColumnShift]:
    """Return the shift of each column with values in both."""
    both = [key for key in current.values if len(current.values[key]) and len(reference.values.get(key, ()))]
    return {
        key: shift(reference.values[key], current.values[key], reference.buildings, current.buildings, len(both))
        for key in both
    }


def shift(reference: Values, current: Values, n: int, m: int, columns: int = 1) -> ColumnShift:
    """Return distances of the ascending values `current` from `reference`, of m and n independent cases (buildings)."""
    edges = bin_edges(reference)
    psi = stability_index(bin_shares(reference, edges), bin_shares(current, edges))
    # The scatterers of a building move together: buildings are the cases, or the sampled rows if those are fewer.
    cases = min(m, len(current))
    chance = (1 / n + 1 / cases) * float(special.chdtri(len(edges), CHANCE / columns))
    sd = float(reference.std())
    distance = float(stats.wasserstein_distance(reference, current))
    varies = sd > 1e-9 * float(np.abs(reference).max(initial=0))
    return ColumnShift(psi, chance, kolmogorov_smirnov(reference, current), distance / sd if varies else None)


def bin_edges(reference: Values) -> Values:
    """Return the inclusive upper edges of all bins but the last: below the lowest value, the tenths, the highest value.

    A column of few different values (`2 * BINS`) has a bin for each.
    """
    edges = np.unique(reference)
    if len(edges) > 2 * BINS:
        edges = np.unique(steps(reference, np.arange(1, BINS + 1) / BINS))
    return np.concatenate([[np.nextafter(reference[0], -np.inf)], edges])


def bin_shares(values: Values, edges: Values) -> Values:
    """Return the share (len(edges) + 1,) of the values in each bin, half a case added to each."""
    counts = np.bincount(np.searchsorted(edges, values, side="left"), minlength=len(edges) + 1) + 0.5
    return np.asarray(counts / counts.sum(), np.float64)


def stability_index(expected: Values, actual: Values) -> float:
    """Return the population stability index of two sets of shares, all above 0."""
    return float(np.sum((actual - expected) * np.log(actual / expected)))


def kolmogorov_smirnov(one: Values, other: Values) -> float:
    """Return the largest difference of the cumulative distributions of two ascending arrays, 0 to 1."""
    at = np.concatenate([one, other])
    below = [np.searchsorted(values, at, side="right") / len(values) for values in (one, other)]
    return float(np.abs(below[0] - below[1]).max())


def _ascending(values: NDArray[Any]) -> Values:
    wide = np.asarray(values, np.float64)
    return np.sort(wide[np.isfinite(wide)])


QUANTILES = {"q01": 0.01, "q05": 0.05, "q25": 0.25, "median": 0.5, "q75": 0.75, "q95": 0.95, "q99": 0.99}
LENGTH_BINS = 20
SEVERITY_EDGES = (0.0, 0.1, 0.2, 0.35, *CATEGORY_BOUNDS_PERMILLE[:3], 2.0, CATEGORY_BOUNDS_PERMILLE[3], 4.0, 6.0, 10.0)
"""Bins of severity, permille; the last one is open."""


def split_statistics(
    split: Summary, columns: ColumnValues, edges: Mapping[str, NDArray[np.float64]], z: float
) -> dict[str, Any]:
    """Return counts, labels and features of one split.

    Args:
        split: what the pass left.
        columns: its sampled columns.
        edges: of each column's histogram, the same for all splits.
        z: robust z beyond which a value is an outlier.
    """
    severity = columns.values["label.severity_permille"]
    result: dict[str, Any] = {
        "buildings": split.buildings,
        "points": split.points,
        "points_per_building": _lengths(split.lengths),
        "cities": dict(sorted(split.cities.items())),
        "categories": {str(i): int(n) for i, n in enumerate(split.categories)},
        "quadrants": dict(zip(QUADRANTS, split.quadrants.tolist(), strict=True)),
        "severity_permille": {
            "median": _median(severity),
            "max": split.severity_max,
            "edges": list(SEVERITY_EDGES),
            "histogram": [int(n) for n in np.histogram(severity, [*SEVERITY_EDGES, np.inf])[0]],
        },
        "difficulty": dict(zip(("unknown", *DIFFICULTIES), split.difficulty.tolist(), strict=True)),
        "sampled_buildings": len(split.sampled("geometry")),
        "sampled_points": len(split.sampled("slope")),
        "features": {},
    }
    for table, own in TABLES.items():
        moments = split.moments[table]
        for j, column in enumerate(own):
            key = f"{table}.{column.name}"
            values, count = columns.values[key], int(moments.count[j])
            figures = dict.fromkeys(("mean", "sd", "skew", "min", "max", *QUANTILES))
            if count:
                figures |= {"mean": moments.mean[j], "sd": moments.sd[j], "skew": moments.skew[j]}
                figures |= {"min": moments.low[j], "max": moments.high[j]}
                figures |= (
                    dict(zip(QUANTILES, quantiles(values, list(QUANTILES.values())), strict=True))
                    if len(values)
                    else {}
                )
            result["features"][key] = {
                "unit": column.unit,
                "count": count,
                "non_finite": int(moments.bad[j]),
                **figures,
                "outlier_share": outlier_share(values, z),
                "histogram": histogram(values, edges[key]),
            }
    return result


def all_edges(columns: Mapping[str, ColumnValues]) -> dict[str, NDArray[np.float64]]:
    """Return the edges of each column's histogram, from `train`, or else from the first split."""
    first = columns.get("train") or next(iter(columns.values()), ColumnValues(0, {}))
    return {key: histogram_edges(values) for key, values in first.values.items()}


def shift_statistics(shifts: Mapping[str, ColumnShift]) -> dict[str, Any]:
    """Return the shift of each column, largest first."""
    ranked = sorted(shifts.items(), key=lambda item: (-item[1].psi, item[0]))
    return {key: dict(shift.__dict__) for key, shift in ranked}


def city_statistics(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report of a city, with derived densities and shares of gaps."""
    tracks = [{**track, "gap_share": _gap_share(track)} for track in report.get("tracks", [])]
    points = sum(int(track.get("points") or 0) for track in tracks)
    area, buildings = report.get("area_km2"), report.get("buildings")
    return {
        **report,
        "tracks": tracks,
        "points_per_km2": points / area if area else None,
        "buildings_per_km2": buildings / area if area and buildings is not None else None,
    }


def plain(value: Any) -> Any:
    """Convert a value for JSON: numbers of six digits, None for NaN and infinity, text for dates and names."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(f"{value:.6g}") if np.isfinite(value) else None
    return None if value is None else str(value)


def _gap_share(track: Mapping[str, Any]) -> float | None:
    """Return the share of acquisitions that are missing from a steady revisit."""
    first, last, revisit = (track.get(key) for key in ("first_epoch", "last_epoch", "revisit_days"))
    if not first or not last or not revisit:
        return None
    days = (np.datetime64(str(last)) - np.datetime64(str(first))).astype("timedelta64[D]").astype(int)
    return max(0.0, 1 - int(track.get("epochs") or 0) / (round(int(days) / float(revisit)) + 1))


def _lengths(counts: NDArray[np.int64]) -> dict[str, Any]:
    """Return extremes, median and histogram of the points per building, from the number of buildings of each length."""
    total = int(counts.sum())
    if not total:
        return {"min": 0, "median": 0.0, "max": 0, "edges": [], "histogram": []}
    present, below = np.flatnonzero(counts), np.cumsum(counts)
    middle = [int(np.searchsorted(below, at, side="right")) for at in ((total - 1) // 2, total // 2)]
    edges = np.unique(np.geomspace(present[0] + 1, present[-1] + 2, LENGTH_BINS + 1).astype(int)) - 1
    inside = [int(counts[a:b].sum()) for a, b in pairwise(edges.tolist())]
    return {
        "min": int(present[0]),
        "median": sum(middle) / 2,
        "max": int(present[-1]),
        "edges": [int(edge) for edge in edges],
        "histogram": inside,
    }


def _median(values: NDArray[np.float64]) -> float | None:
    return float(np.median(values)) if len(values) else None
