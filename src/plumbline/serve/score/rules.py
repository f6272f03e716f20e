"""Check the rules of alarms, and find the buildings that each is about."""

from __future__ import annotations

from pathlib import Path

import geopandas
import numpy as np
import pandas as pd
import shapely

from plumbline.core.console import warn
from plumbline.core.errors import InputError
from plumbline.core.files import sha256_file, sha256_folder
from plumbline.params import Footprints, Params
from plumbline.params.serve import Alarm
from plumbline.serve.columns import DTYPES
from plumbline.sources.files.opened import fits
from plumbline.sources.footprints.buildings import check_crs, reprojected
from plumbline.sources.footprints.geometry import take_polygons
from plumbline.sources.footprints.open import read_vector

SHARE_COLUMNS = ("quadrant_confidence", "damage_rate")
"""Columns from 0 to 1, beside those that begin with `p_`."""
MAX_NAMED_IDS = 5
"""Largest number of unknown identifiers that a warning names."""


def check_rules(params: Params) -> None:
    """Refuse rules that cannot be applied, before anything is judged; warn of places that
    are not there.

    Raises:
        InputError: the predictions table has no such column, or no numbers in it; a limit
            is no share where the column holds shares; or a file of polygons is missing or
            not readable.
    """
    source = params.score.source
    places = [path.name for path in source.iterdir() if path.is_dir()] if source.is_dir() else []
    for rule in params.score.alarms:
        label, dtype = f"score.alarms, rule {rule.name}", DTYPES.get(rule.column)
        if dtype is None:
            raise InputError(
                f"{label}: the predictions table has no column {rule.column}.",
                key="alarms.unknown_column",
            )
        if not dtype.lower().startswith(("int", "float")):
            raise InputError(
                f"{label}: column {rule.column} contains text or dates. A rule compares numbers.",
                key="alarms.column_type",
            )
        for number in (rule.limit, rule.bound):
            if (
                rule.column.startswith("p_") or rule.column in SHARE_COLUMNS
            ) and not 0 <= number <= 1:
                raise InputError(
                    f"{label}: {number:g} found; {rule.column} is from 0 to 1. Write 50 % as 0.5.",
                    key="alarms.not_a_share",
                )
        if rule.within is not None:
            read_area(rule, params)
        if rule.place is not None and rule.place not in places:
            warn("%s: no folder %s in %s", label, rule.place, source, key="alarms.unknown_place")


def chosen_by(
    rule: Alarm, table: geopandas.GeoDataFrame, areas: dict[str, geopandas.GeoDataFrame]
) -> pd.Series:
    """Return which buildings of a predictions table a rule is about."""
    if rule.name in areas:
        shapes = reprojected(
            str(rule.within), areas[rule.name], table.crs.to_string()
        ).geometry.to_numpy()
        finite_shapes = shapes[np.isfinite(shapely.bounds(shapes)).all(axis=1)]
        area = shapely.union_all(shapely.make_valid(finite_shapes))
        shapely.prepare(area)
        return pd.Series(shapely.intersects(area, table.geometry.to_numpy()), table.index)
    return pd.Series(
        True if rule.buildings is None else table.index.isin(rule.buildings), table.index
    )


def warn_of_unmet(rules: list[Alarm], rules_with_buildings: set[str], ids: pd.Index) -> None:
    """Warn of identifiers that no delivery has, and of areas without a building."""
    for rule in rules:
        unknown = [name for name in rule.buildings or () if name not in ids]
        if unknown:
            warn(
                "score.alarms, rule %s: no delivery of %s has %d of its buildings: %s",
                *(rule.name, rule.place, len(unknown), ", ".join(unknown[:MAX_NAMED_IDS])),
                key="alarms.unknown_building",
            )
        if rule.within is not None and rule.name not in rules_with_buildings:
            warn(
                "score.alarms, rule %s: no building reaches into %s. Is it there?",
                *(rule.name, rule.within),
                key="alarms.empty_area",
            )


def read_area(rule: Alarm, params: Params) -> geopandas.GeoDataFrame:
    """Read the polygons of a rule.

    Raises:
        InputError: the file is missing or not readable, has no CRS, or something else than
            polygons.
    """
    path, stated = Path(str(rule.within)), _find_stated(rule, params)
    try:
        frame = read_vector(path, stated.layer, stated.crs)
        if not len(frame):
            raise InputError(f"{path}: contains no polygon.", key="alarms.no_polygon")
        shapes, reasons = take_polygons(frame.geometry.to_numpy())
        if faults := [reason for reason in reasons if reason is not None]:
            raise InputError(
                f"{path}: {faults[0]}. Give polygons; of a line, a buffer.",
                key="alarms.not_a_polygon",
            )
        frame = frame.set_geometry(
            geopandas.GeoSeries(shapely.force_2d(shapes), index=frame.index, crs=frame.crs)
        )
        check_crs(path, frame)
        return frame
    except InputError as error:
        raise InputError(f"score.alarms, rule {rule.name}: {error}", key=error.key) from None


def hash_area(rule: Alarm, params: Params) -> str | None:
    """Return what the polygons of a rule depend on; None without any."""
    if rule.within is None:
        return None
    content = sha256_folder(rule.within) if rule.within.is_dir() else sha256_file(rule.within)
    return f"{content} {_find_stated(rule, params).model_dump_json()}"


def _find_stated(rule: Alarm, params: Params) -> Footprints:
    """Return what `ingest.footprints` states of the file of polygons."""
    stated = params.ingest.footprints.items()
    return next(
        (about for pattern, about in stated if fits(Path(str(rule.within)), pattern)), Footprints()
    )
