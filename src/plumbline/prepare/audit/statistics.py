"""Gather the figures of the audit, ready for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.core.compass import QUADRANTS
from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE, DIFFICULTIES
from plumbline.prepare.audit.distributions import (
    ColumnShift,
    ColumnValues,
    histogram,
    histogram_edges,
    outlier_share,
    quantiles,
)
from plumbline.prepare.audit.summary import TABLES, Summary

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
