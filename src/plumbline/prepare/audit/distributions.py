"""Compare distributions and measure their shift, with figures for JSON.

- Population stability index: `sum (a - e) ln(a / e)` over bins with the shares `e`
  (reference) and `a`; the symmetric divergence of Jeffreys (1946), as used in Siddiqi
  (2006), Credit Risk Scorecards. Bins are the reference's tenths, and one more on each side
  of all it has; half a case is added to each bin (Krichevsky and Trofimov 1981), so that an
  empty one has a logarithm. By chance alone, with n and m independent cases, it is about
  `(1/n + 1/m)` times a chi-squared variable with bins - 1 degrees of freedom (Yurdakul and
  Naranjo 2020, Journal of Risk Model Validation 14(4)).
- Kolmogorov-Smirnov: the largest difference of the two cumulative distributions.
- Wasserstein: the mean distance that values have to be moved, here in standard deviations
  of the reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from plumbline.core.compass import QUADRANTS
from plumbline.prepare.audit.summary import TABLES, Summary

Values = NDArray[np.float64]


def steps(values: Values, at: ArrayLike) -> Values:
    """Return quantiles among the ascending values, at least one: the lowest with this share
    of values up to it."""
    # A share that is a whole number of values must stay one, whatever its last bit.
    place = np.ceil(np.asarray(at, np.float64) * len(values) - 1e-9).astype(np.intp) - 1
    return np.asarray(values[np.maximum(place, 0)], np.float64)


BINS = 10
CHANCE = 0.01
"""Probability that any column of a comparison without drift is above its chance bound
(Bonferroni over the columns)."""


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
    """Value that the index reaches by chance without drift, in data of this size."""
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
    keys = [
        key
        for key in current.values
        if len(current.values[key]) and len(reference.values.get(key, ()))
    ]
    return {
        key: shift(
            reference.values[key],
            current.values[key],
            reference.buildings,
            current.buildings,
            len(keys),
        )
        for key in keys
    }


def shift(reference: Values, current: Values, n: int, m: int, columns: int = 1) -> ColumnShift:
    """Return distances of the ascending values `current` from `reference`, of m and n
    independent cases (buildings)."""
    edges = bin_edges(reference)
    psi = stability_index(bin_shares(reference, edges), bin_shares(current, edges))
    # The scatterers of a building move together: buildings are the cases, or the sampled rows
    # if those are fewer.
    cases = min(m, len(current))
    chance = (1 / n + 1 / cases) * float(special.chdtri(len(edges), CHANCE / columns))
    sd = float(reference.std())
    distance = float(stats.wasserstein_distance(reference, current))
    varies = sd > 1e-9 * float(np.abs(reference).max(initial=0))
    return ColumnShift(
        psi, chance, kolmogorov_smirnov(reference, current), distance / sd if varies else None
    )


def bin_edges(reference: Values) -> Values:
    """Return the inclusive upper edges of all bins but the last: below the lowest value,
    the tenths, the highest value.

    A column of few different values (`2 * BINS`) has a bin for each.
    """
    edges = np.unique(reference)
    if len(edges) > 2 * BINS:
        edges = np.unique(steps(reference, np.arange(1, BINS + 1) / BINS))
    return np.concatenate([[np.nextafter(reference[0], -np.inf)], edges])


def bin_shares(values: Values, edges: Values) -> Values:
    """Return the share (len(edges) + 1,) of the values in each bin, half a case added to each."""
    counts = (
        np.bincount(np.searchsorted(edges, values, side="left"), minlength=len(edges) + 1) + 0.5
    )
    return np.asarray(counts / counts.sum(), np.float64)


def stability_index(expected: Values, actual: Values) -> float:
    """Return the population stability index of two sets of shares, all above 0."""
    return float(np.sum((actual - expected) * np.log(actual / expected)))


def kolmogorov_smirnov(reference: Values, current: Values) -> float:
    """Return the largest difference of the cumulative distributions of two ascending
    arrays, 0 to 1.

    `scipy.stats.ks_2samp` warns of a division by zero in its probability where there are
    few values.
    """
    at = np.concatenate([reference, current])
    below = [
        np.searchsorted(values, at, side="right") / len(values) for values in (reference, current)
    ]
    return float(np.abs(below[0] - below[1]).max())


def _ascending(values: NDArray[Any]) -> Values:
    wide = np.asarray(values, np.float64)
    return np.sort(wide[np.isfinite(wide)])


def split_statistics(split: Summary) -> dict[str, Any]:
    """Return counts, labels and moments of the features of one split."""
    features = {}
    for table, columns in TABLES.items():
        moments = split.moments[table]
        for j, column in enumerate(columns):
            figures = {
                "mean": moments.mean,
                "sd": moments.sd,
                "skew": moments.skew,
                "min": moments.low,
                "max": moments.high,
            }
            features[f"{table}.{column.name}"] = {
                "unit": column.unit,
                "count": int(moments.count[j]),
                "non_finite": int(moments.bad[j]),
                **{
                    name: values[j] if moments.count[j] else None
                    for name, values in figures.items()
                },
            }
    return {
        "buildings": split.buildings,
        "points": split.points,
        "cities": dict(sorted(split.cities.items())),
        "categories": {str(i): int(n) for i, n in enumerate(split.categories)},
        "quadrants": dict(zip(QUADRANTS, split.quadrants.tolist(), strict=True)),
        "severity_permille_max": split.severity_max,
        "features": features,
    }


def shift_statistics(shifts: Mapping[str, ColumnShift]) -> dict[str, Any]:
    """Return the shift of each column, largest first."""
    ranked = sorted(shifts.items(), key=lambda item: (-item[1].psi, item[0]))
    return {key: dict(shift.__dict__) for key, shift in ranked}


def plain(value: Any) -> Any:
    """Convert a value for JSON: numbers of six digits, None for NaN and infinity."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if np.isfinite(value) else None
    return value
