"""From a model's answers to the predictions table, with a reason for each building that is not judged."""

from __future__ import annotations

from typing import NamedTuple

import geopandas
import numpy as np
from numpy.typing import NDArray

from plumbline.export.answers import Answers
from plumbline.params import Prepare
from plumbline.prepare.abstention import status_of
from plumbline.prepare.buildings import Prepared
from plumbline.serve.predictions import make_predictions


class Judged(NamedTuple):
    """What is said of F footprints."""

    table: geopandas.GeoDataFrame
    """The predictions, see `make_predictions`."""
    reason: NDArray[np.object_]
    """(F,) see `abstention.reasons`."""


def judge(
    prepared: Prepared, answers: Answers, footprints: geopandas.GeoDataFrame, prepare: Prepare, version: str
) -> Judged:
    """The predictions table, a row for each of F footprints, and why each is not judged.

    Args:
        prepared: what became of the footprints; answers: for its B sequences.
        footprints: `building_id` and geometry.
        prepare: how the model wants its scatterers prepared.
        version: of the model's package.
    """
    count = len(footprints)
    found = status_of(prepared, answers, footprints.geometry.to_numpy(), prepare)

    def spread(values: NDArray[np.float32]) -> NDArray[np.float64]:
        full = np.full((count, *values.shape[1:]), np.nan)
        full[prepared.footprint] = values
        return full

    table = make_predictions(
        footprints,
        list(found.status),
        prepared.n_points,
        spread(answers.quadrant_probability),
        spread(answers.severity_permille),
        spread(answers.severity_low),
        spread(answers.severity_high),
        version,
    )
    return Judged(table, found.reason)
