"""Compare two deliveries: list the buildings that are judged otherwise than before."""

from __future__ import annotations

from typing import NamedTuple

import geopandas
import numpy as np
import pandas as pd
import shapely

from plumbline.core.arrays import Mask
from plumbline.serve.columns import has_answer

COMPARED = (
    "status",
    "reason",
    "burland_category",
    "quadrant",
    "severity_permille",
    "severity_low",
    "severity_high",
    "n_points",
)
KINDS = ("status", "category", "quadrant")
"""Kinds of change, in the order in which column `what` names them."""
COLUMNS = (
    "building_id",
    "what",
    *(f"{name}_{when}" for name in COMPARED for when in ("before", "after")),
    "intervals_overlap",
    "longitude",
    "latitude",
)
"""Columns of `changes.csv`."""


class DeliveryChanges(NamedTuple):
    """Changes of the buildings between two deliveries."""

    table: pd.DataFrame
    """A row a changed building, `COLUMNS`; those that got worse beyond their intervals
    first, the most so on top."""
    counts: dict[str, int]
    """`compared` buildings; of them `changed`, `status`, `category_up`, `category_down`,
    `quadrant`, and `beyond_intervals`; `new` and `gone` ones, and `moved`: the same
    identifier on another place, not compared."""


def compare_predictions(
    before: geopandas.GeoDataFrame, after: geopandas.GeoDataFrame
) -> DeliveryChanges:
    """Compare two predictions tables.

    A building is the same if its identifier is and its footprints overlap: where a file has
    no identifiers its order gives them, and the order may be another one. A quadrant counts
    from category 1 in both, below which there is none. Intervals can be compared where both
    have an answer. Whether they overlap is a rule of thumb and no test: two deliveries
    share most of their epochs, so what differs by chance differs less than two independent
    intervals would.
    """
    old, new = before.set_index("building_id"), after.set_index("building_id")
    is_same = same_ground(old.geometry, new.geometry)
    compared_ids = is_same.index[is_same]
    old, new = old.loc[compared_ids], new.loc[compared_ids]
    judged = has_answer(old) & has_answer(new)
    category_before, category_after = (
        part["burland_category"].fillna(-1).to_numpy(int) for part in (old, new)
    )
    changed = {
        "status": (old["status"] != new["status"]).to_numpy(),
        "category": judged & (category_before != category_after),
        "quadrant": judged
        & (category_before >= 1)
        & (category_after >= 1)
        & (old["quadrant"] != new["quadrant"]).to_numpy(),
    }
    overlap = _overlap(old, new)
    is_changed = (
        np.logical_or.reduce(list(changed.values())) if len(compared_ids) else np.zeros(0, bool)
    )
    counts = {
        "compared": len(compared_ids),
        "changed": int(is_changed.sum()),
        "status": int(changed["status"].sum()),
        "category_up": int((judged & (category_after > category_before)).sum()),
        "category_down": int((judged & (category_after < category_before)).sum()),
        "quadrant": int(changed["quadrant"].sum()),
        "beyond_intervals": int((is_changed & (judged & ~overlap)).sum()),
        "new": int((~after["building_id"].isin(before["building_id"])).sum()),
        "gone": int((~before["building_id"].isin(after["building_id"])).sum()),
        "moved": int((~is_same).sum()),
    }
    return DeliveryChanges(
        _table(old, new, changed, rows=is_changed, judged=judged, overlap=overlap), counts
    )


def same_ground(before: geopandas.GeoSeries, after: geopandas.GeoSeries) -> pd.Series:
    """Return whether the footprints of each building overlap, of those in both series; by
    identifier, as `after`."""
    shared = after.index[after.index.isin(before.index)]
    old = before.loc[shared].to_crs(after.crs) if len(shared) else before.loc[shared]
    overlaps = shapely.intersects(old.to_numpy(), after.loc[shared].to_numpy())
    return pd.Series(np.asarray(overlaps, bool), index=shared)


def _overlap(old: geopandas.GeoDataFrame, new: geopandas.GeoDataFrame) -> Mask:
    """Return (B,) whether the two intervals overlap; True where one is missing."""
    apart = (new["severity_low"] > old["severity_high"]) | (
        new["severity_high"] < old["severity_low"]
    )
    return np.asarray(~apart.to_numpy(), bool)


def _table(
    old: geopandas.GeoDataFrame,
    new: geopandas.GeoDataFrame,
    changed: dict[str, Mask],
    *,
    rows: Mask,
    judged: Mask,
    overlap: Mask,
) -> pd.DataFrame:
    kinds = [
        " + ".join(kind for kind in KINDS if changed[kind][row]) for row in np.flatnonzero(rows)
    ]
    old, new = old[rows], new[rows]
    middle = new.geometry.representative_point().to_crs("EPSG:4326") if len(new) else new.geometry
    columns: dict[str, object] = {"building_id": new.index.to_numpy(), "what": kinds}
    for name in COMPARED:
        # As arrays, which have no index; not as NumPy's, which would make 4.0 of a 4 beside
        # one that is missing.
        columns |= {f"{name}_before": old[name].array, f"{name}_after": new[name].array}
    columns["intervals_overlap"] = pd.arrays.BooleanArray(overlap[rows], ~judged[rows])
    columns |= {"longitude": middle.x.to_numpy().round(7), "latitude": middle.y.to_numpy().round(7)}
    table = pd.DataFrame(columns, columns=list(COLUMNS))
    rise = (table["severity_permille_after"] - table["severity_permille_before"]).to_numpy(float)
    is_worse = ~overlap[rows] & judged[rows] & (rise > 0)
    # Unjudged in one of the two: no rise is known, and they come last.
    order = np.lexsort((table["building_id"], -np.nan_to_num(rise, nan=-np.inf), ~is_worse))
    return table.iloc[order].reset_index(drop=True)
