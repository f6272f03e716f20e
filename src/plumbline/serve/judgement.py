"""From a model's answers to the predictions table: who is judged, and why the others are not."""

from __future__ import annotations

import geopandas
import numpy as np
from numpy.typing import NDArray

from plumbline.export.abstention import has_no_probable_quadrant, has_too_little_data, is_in_distribution
from plumbline.export.runtime import Answers
from plumbline.params import Prepare
from plumbline.prepare.buildings import Prepared
from plumbline.serve.predictions import make_predictions


def judge(
    prepared: Prepared, answers: Answers, footprints: geopandas.GeoDataFrame, prepare: Prepare, version: str
) -> geopandas.GeoDataFrame:
    """The predictions table, a row for each of F footprints.

    Args:
        prepared: what became of the footprints; answers: for its B sequences.
        footprints: `building_id` and geometry.
        prepare: how the model wants its scatterers prepared.
        version: of the model's package.
    """
    count = len(footprints)
    status = np.full(count, "insufficient_points", dtype=object)
    status[prepared.footprint] = np.where(is_in_distribution(answers), "ok", "out_of_distribution")
    few = has_too_little_data(prepared.sequences, prepare) | has_no_probable_quadrant(answers, prepare)
    status[prepared.footprint[few]] = "insufficient_points"

    def spread(values: NDArray[np.float32]) -> NDArray[np.float64]:
        full = np.full((count, *values.shape[1:]), np.nan)
        full[prepared.footprint] = values
        return full

    return make_predictions(
        footprints,
        list(status),
        prepared.n_points,
        spread(answers.quadrant_probability),
        spread(answers.severity_permille),
        spread(answers.severity_low),
        spread(answers.severity_high),
        version,
    )


def unsure_where(prepared: Prepared, answers: Answers, prepare: Prepare) -> NDArray[np.bool_]:
    """(F,) footprints that would be judged, were it not that no quadrant is probable enough; see `judge`."""
    unsure = np.zeros(len(prepared.n_points), bool)
    unsure[prepared.footprint] = (
        is_in_distribution(answers)
        & ~has_too_little_data(prepared.sequences, prepare)
        & has_no_probable_quadrant(answers, prepare)
    )
    return unsure
