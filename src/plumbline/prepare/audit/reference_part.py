"""The reference file: the training split's distributions, for a later run to be compared with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.core.errors import InputError
from plumbline.core.files import read_json
from plumbline.prepare.audit.distributions import Columns
from plumbline.prepare.audit.shape import steps

FILE = "reference.json"
QUANTILES = 200
"""A column is kept as its quantiles at (i + 1/2) / 200: distances are exact to about 0.25 % of the rows."""
_VERSION = 1


def describe(columns: Columns) -> dict[str, Any]:
    """The content of a reference file."""
    at = (np.arange(QUANTILES) + 0.5) / QUANTILES
    quantiles = {
        # Nine digits: read back as 32 bits, a value that many buildings share is the same again. One digit off, all
        # of them would count as a distance.
        key: [float(f"{value:.9g}") for value in steps(values, at)]
        for key, values in columns.values.items()
        if len(values)
    }
    return {"version": _VERSION, "buildings": columns.buildings, "quantiles": quantiles}


def as_kept(row: Any) -> NDArray[np.float64]:
    """A column's stored quantiles, ascending, as the 32-bit values that they were."""
    return np.sort(np.array(row, np.float32).astype(np.float64))


def load_reference(path: Path) -> Columns:
    """Read a reference file, or the one in the folder of an earlier run's audit.

    Raises:
        InputError: there is none, or it is not one.
    """
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        raise InputError(
            f"prepare.audit.reference: no file {file} found. Name the {FILE} of an earlier run, or its folder."
        )
    content = read_json(file)
    if isinstance(content, dict) and "cities" in content:
        raise InputError(
            f"{file}: the conditions that a model package carries, which hold less than an audit's reference. Name the "
            f"{FILE} of a run's audit (data/prepare/audit)."
        )
    try:
        if content["version"] != _VERSION:
            raise InputError(
                f"{file}: version {content['version']!r} found, {_VERSION} needed. Make it again with this version."
            )
        buildings = int(content["buildings"])
        values = {str(key): as_kept(row) for key, row in content["quantiles"].items()}
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise InputError(f"{file}: not a reference file of the audit ({error!r}). Name a {FILE} of a run.") from None
    wrong = [key for key, row in values.items() if row.ndim != 1 or not len(row) or not np.isfinite(row).all()]
    if wrong or not values or buildings < 1:
        found = f"column {wrong[0]} has no finite values" if wrong else "it has no columns or no buildings"
        raise InputError(f"{file}: not a reference file of the audit ({found}). Name a {FILE} of a run.")
    return Columns(buildings, values)
