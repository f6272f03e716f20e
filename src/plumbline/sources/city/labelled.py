"""Which footprint each label is of."""

from __future__ import annotations

import re
from pathlib import Path

import geopandas
import pandas as pd

from plumbline.core.errors import InputError

SHOWN = 5
"""Identifiers in a message, at most."""
_WHOLE = re.compile(r"([+-]?\d+)\.0+")


def of_footprints(
    labels: pd.DataFrame, footprints: geopandas.GeoDataFrame, labels_file: Path, footprints_file: Path
) -> pd.DataFrame:
    """The labels, with the identifiers of the footprints: without blanks around them, and 12 for 12.0, where only so
    there is such a building. Spreadsheets and tables with an empty cell write both.

    Args:
        labels: see `read_labels`.
        footprints: see `read_buildings`.
        labels_file, footprints_file: for messages.

    Raises:
        InputError: a label is of a building that is not there, or two are of one.
    """
    there = {*footprints["building_id"], *footprints.attrs.get("left_out", ())}
    found = [name if name in there else _as_there(name, there) for name in labels["building_id"]]
    unknown = sorted(name for name in found if name not in there)
    if unknown:
        raise InputError(
            f"{labels_file}: not in {footprints_file}: {len(unknown)} of the labelled buildings ({_some(unknown)}). "
            f"Its buildings are called {_some(footprints['building_id'].tolist())}. Mend the labels, or say which "
            "column of the footprints identifies a building (docs/formats.md). Labels and footprints must be of one "
            "city."
        )
    result = labels.assign(building_id=pd.Series(found, index=labels.index, dtype=object))
    twice = result["building_id"].duplicated(keep=False).to_numpy()
    if twice.any():
        raise InputError(
            f"{labels_file}: {_some(labels['building_id'][twice].tolist())} are of one building of {footprints_file}; "
            "each may be labelled once."
        )
    return result


def _as_there(name: str, there: set[str]) -> str:
    bare = name.strip()
    whole = _WHOLE.fullmatch(bare)
    return next((other for other in (bare, whole[1] if whole else bare) if other in there), name)


def _some(names: list[str]) -> str:
    return ", ".join(map(repr, names[:SHOWN])) + (", …" if len(names) > SHOWN else "")
