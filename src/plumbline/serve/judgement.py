"""From a model's answers to the predictions table: who is judged, and why the others are not."""

from __future__ import annotations

import geopandas
import numpy as np
from numpy.typing import NDArray

from plumbline.export.runtime import Answers
from plumbline.params import Prepare
from plumbline.prepare.buildings import Prepared
from plumbline.prepare.resolution import strain_error
from plumbline.serve.predictions import make_predictions
from plumbline.strain import CATEGORY_BOUNDS_PERMILLE


def judgement(
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
    status[prepared.footprint] = np.where(_answered(answers), "ok", "out_of_distribution")
    few = _blurred(prepared, prepare) | _torn(answers, prepare)
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


def unsure_where(prepared: Prepared, answers: Answers, prepare: Prepare) -> int:
    """How many buildings would be judged, were it not that no quadrant is probable enough; see `judgement`."""
    return int((_torn(answers, prepare) & _answered(answers) & ~_blurred(prepared, prepare)).sum())


def _blurred(prepared: Prepared, prepare: Prepare) -> NDArray[np.bool_]:
    """(B,) whose points could not show a strain of category 1."""
    return np.asarray(strain_error(prepared.sequences) > prepare.max_strain_error_permille)


def _torn(answers: Answers, prepare: Prepare) -> NDArray[np.bool_]:
    """(B,) of category 1 or above, with no quadrant as probable as is asked for."""
    damaged = answers.severity_permille >= CATEGORY_BOUNDS_PERMILLE[0]
    return np.asarray(damaged & (answers.quadrant_probability.max(axis=1, initial=0) < prepare.min_quadrant_confidence))


def _answered(answers: Answers) -> NDArray[np.bool_]:
    """(B,) like the training buildings, and with figures: an answer that is no number is none."""
    numbers = np.column_stack(answers)
    return np.asarray((answers.novelty <= 1) & np.isfinite(numbers).all(1))
