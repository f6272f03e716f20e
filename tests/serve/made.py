"""Answers and tables of predictions made up: consistent in themselves, with what a test does not say left plain."""

from __future__ import annotations

from collections.abc import Sequence

import geopandas
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from plumbline.core.strain import MECHANISMS, category, category_of_levels
from plumbline.export.answers import Answers
from plumbline.export.interface import CATEGORIES, PROBABILITIES
from plumbline.params import Prepare
from plumbline.prepare.abstention import explanations
from plumbline.prepare.response.whole_building import WholeBuildings
from plumbline.prepare.series.beginning import BEGINNINGS, TIME
from plumbline.prepare.strain_course import StrainCourses
from plumbline.serve.base_rate import fixed_rate
from plumbline.serve.columns import WHOLE
from plumbline.serve.judgement import CityPredictions
from plumbline.serve.predictions import make_predictions, named_mechanism

OF_LEVEL = category_of_levels()
SHARE = [0.2, 0.1, 0.2, 0.25, 0.25]
"""Of the categories, in the data that a model was calibrated on."""


def levels(p_damaged: ArrayLike, severity: ArrayLike) -> NDArray[np.float64]:
    """(B, 16) probabilities of levels: the damaged part is in the category of the severity, or else in all alike."""
    p, own = np.asarray(p_damaged, float), category(np.nan_to_num(np.asarray(severity, float)))
    sound, same = (OF_LEVEL == 0)[None], own[:, None] == OF_LEVEL
    damaged = np.where((own > 0)[:, None], same, ~sound)
    return (1 - p)[:, None] * sound / sound.sum() + p[:, None] * damaged / damaged.sum(1, keepdims=True)


def answers_of(
    probability: ArrayLike,
    severity: ArrayLike,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    novelty: ArrayLike = 0.2,
    accepted: ArrayLike | None = None,
    p_damaged: ArrayLike | None = None,
    mechanism: ArrayLike | None = None,
) -> Answers:
    """Answers for B buildings; without, a quadrant is as sure to be right as it is probable, and damage as said."""
    probability = np.asarray(probability, np.float32).reshape(-1, 4)
    severity = np.asarray(severity, float)
    count = len(severity)
    if p_damaged is None:
        p_damaged = np.where(severity >= 0.5, 0.95, 0.05)
    level = levels(np.broadcast_to(p_damaged, count), severity)
    mechanism = np.full((count, len(MECHANISMS)), 1 / len(MECHANISMS)) if mechanism is None else mechanism
    parts = (
        probability,
        severity,
        severity / 2 if low is None else low,
        severity * 2 if high is None else high,
        np.broadcast_to(novelty, count),
        probability if accepted is None else np.asarray(accepted).reshape(-1, 4),
        level @ (OF_LEVEL[:, None] == np.arange(5)),
        level,
        mechanism,
    )
    return Answers(*(np.asarray(part, np.float32) for part in parts))


PERIOD = np.array(["2020-02-10", "2023-11-20"], "datetime64[D]")
"""Of the courses made up."""


def courses_of(building: ArrayLike, onset: ArrayLike, width: float = 0.04) -> StrainCourses:
    """Courses of M buildings that begin at `onset` (M,), shares of `PERIOD`, give or take `width`, and then go on."""
    building, onset = np.asarray(building, np.intp), np.asarray(onset, float)
    begins = np.exp(-0.5 * ((BEGINNINGS - onset[:, None]) / width) ** 2)
    middle = np.clip((TIME - onset[:, None]) / (1 - onset[:, None]), 0, 1)
    reached = np.stack([middle * (1 - 0.3 * (1 - middle)), middle, middle ** (2 / 3)], axis=1)
    growth = (1 - np.array([[np.interp(0.7, TIME, one) for one in own] for own in reached])).reshape(-1, 3)
    quickens = np.where(onset > 0.5, 0.9, 0.2)
    return StrainCourses(
        building, begins / begins.sum(1, keepdims=True), np.sort(growth, axis=1), quickens, reached, PERIOD
    )


LOS = np.array([[-0.6, -0.1, 0.79], [0.6, -0.1, 0.79]])
"""Towards an ascending and a descending track."""


def whole_buildings(change: ArrayLike, los: ArrayLike = LOS, **columns: ArrayLike) -> WholeBuildings:
    """Motion (B, T), mm, of buildings seen by tracks with these lines of sight (T, 3); what is not stated is plain."""
    change = np.asarray(change, float)
    count, tracks = change.shape
    plain = {
        "variance": change**0,
        "los": np.tile(los, (count, 1, 1)),
        "tilt": np.zeros((count, 2)),
        "tilt_covariance": np.tile(0.01 * np.eye(2), (count, 1, 1)),
        "years": np.full(count, 4.0),
        "resolution": np.full(count, 0.7),
        "lean": np.zeros(count),
        "agreeing": np.full((count, tracks), 9),
    }
    return WholeBuildings(change, **plain | {name: np.array(values) for name, values in columns.items()})


def whole_of(count: int) -> WholeBuildings:
    """Motion of buildings seen by both tracks, the last by one alone."""
    rng = np.random.default_rng(count)
    change = rng.normal(-9, 5, (count, 2))
    change[-1, 1] = np.nan
    return whole_buildings(change, tilt=rng.normal(0, 1, (count, 2)), lean=np.full(count, 0.7))


def table_of(
    buildings: geopandas.GeoDataFrame,
    status: Sequence[str],
    n_points: ArrayLike,
    probability: ArrayLike,
    severity: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    version: str = "1",
    p_damaged: ArrayLike | None = None,
    mechanism: ArrayLike | None = None,
    rate: float = 0.1,
    reason: Sequence[str] | None = None,
) -> geopandas.GeoDataFrame:
    """A table of predictions; see `answers_of`. Without reasons, those of `insufficient_points` have few points."""
    said = answers_of(np.nan_to_num(np.asarray(probability, float)), severity, p_damaged=p_damaged, mechanism=mechanism)
    categories = said.category_probability.astype(float)
    reasons = {"insufficient_points": "few_points"} if reason is None else {}
    answers = pd.DataFrame(
        {
            **dict(zip(PROBABILITIES, np.asarray(probability, float).T, strict=True)),
            "quadrant_confidence": np.asarray(probability, float).max(1),
            "severity_permille": severity,
            "severity_low": low,
            "severity_high": high,
            "p_damaged": 1 - categories[:, 0],
            **dict(zip(CATEGORIES, categories.T, strict=True)),
            "mechanism": named_mechanism(said.mechanism_probability, 1 - categories[:, 0]),
            "damage_rate": rate,
        }
    )
    about = {
        "status": status,
        "reason": [reasons.get(name, name) for name in (status if reason is None else reason)],
        "n_points": n_points,
        **{name: np.full(len(buildings), -0.5 - number) for number, name in enumerate(WHOLE)},
        "settlement_direction": np.full(len(buildings), "vertical", object),
    }
    return make_predictions(buildings, about, answers, version)


def judged_of(
    table: geopandas.GeoDataFrame,
    reason: NDArray[np.object_] | None = None,
    rate: float = 0.1,
    prepare: Prepare = Prepare(),  # noqa: B008
) -> CityPredictions:
    """The same with the reason of each, if it is not that of the table."""
    if reason is None:
        reason = table["reason"].to_numpy(object)
    table = table.assign(reason=reason)
    return CityPredictions(table, explanations(reason, prepare, np.full(len(table), np.nan)), fixed_rate(rate))
