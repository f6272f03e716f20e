"""Run a model on the buildings of a city, and turn its answers into the predictions table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import geopandas
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plumbline.core.console import log
from plumbline.core.on_disk import return_freed_memory
from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE
from plumbline.export.answers import Answers, Released
from plumbline.export.interface import CATEGORIES, PROBABILITIES
from plumbline.export.package import open_package
from plumbline.params import Prepare
from plumbline.prepare.abstention import (
    LEANING,
    UNSURE_WHERE,
    ModelledBuildings,
    Status,
    has_few_points,
    is_in_distribution,
    quadrant_confidence,
    status_of,
    strain_error,
)
from plumbline.prepare.buildings import Prepared, prepare_buildings
from plumbline.prepare.response.whole_building import WholeBuildings
from plumbline.prepare.strain_course import StrainCourses
from plumbline.serve.base_rate import AdjustedAnswers, DamageRate, at_rate, estimate_rate, with_odds
from plumbline.serve.columns import has_answer
from plumbline.serve.options import AS_RELEASED, Options
from plumbline.serve.place.causes import causes_table
from plumbline.serve.place.local_rate import ONE_SHARE, RateVariation, local_rates
from plumbline.serve.place.moving_areas import moving_areas
from plumbline.serve.place.surroundings import whole_columns
from plumbline.serve.predictions import make_predictions, named_mechanism
from plumbline.serve.when import course_rows, courses_of, when_columns
from plumbline.sources.city.causes import causes_of_city, read_causes
from plumbline.sources.city.in_memory import CityInMemory
from plumbline.sources.city.window import Window


class CityPredictions(NamedTuple):
    """Predictions for F footprints."""

    table: geopandas.GeoDataFrame
    """Predictions, see `make_predictions`."""
    explanation: NDArray[np.object_]
    """(F,) reason why a building is not judged, as the end of the sentence `Not judged: ...`."""
    rate: DamageRate
    """Share of damaged buildings in the city; that of a building may differ, see `local_rates`."""
    tabulate_courses: Callable[[], pd.DataFrame] | None = None
    """Makes `courses`. They have a row for each building and quarter: only what shows them asks."""
    areas: geopandas.GeoDataFrame | None = None
    """Moving areas of the city, see `moving_areas`; None if they were not searched."""
    causes: geopandas.GeoDataFrame | None = None
    """Estimates for each possible cause, see `CauseEstimate`; None without causes."""
    levelling: geopandas.GeoDataFrame | None = None
    """Levelled points, compared with the radar, see `compare.agreement.point_table`; None
    without a comparison."""

    @property
    def courses(self) -> pd.DataFrame | None:
        """Severity over time of buildings with a rate, see `course_rows`; None if it was not
        estimated."""
        return None if self.tabulate_courses is None else self.tabulate_courses()

    @property
    def reason(self) -> NDArray[np.object_]:
        """(F,) `ok`, or the reason of the abstention: one of `abstention.ABSTENTIONS`."""
        return np.asarray(self.table["reason"], object)


class ModelSummary(NamedTuple):
    """Version and calibration of the model that answered."""

    version: str
    """Version of the package."""
    category_share: list[float]
    """Share of each category in the buildings that the model was calibrated on."""


class OpenModel(NamedTuple):
    """A model that is ready to answer."""

    prepare: Prepare
    """Preparation of scatterers that the model was trained with, and limits of what is judged."""
    network: Released
    about: ModelSummary


def open_model(package: Path, artifact: str | None = None) -> OpenModel:
    """Open a model of a package: its default one, or `artifact`.

    Raises:
        InputError: as `open_package`.
    """
    manifest, network = open_package(package, artifact)
    return OpenModel(
        manifest.prepare, network, ModelSummary(manifest.version, network.category_share)
    )


class JudgedCity(NamedTuple):
    """Predictions of a city, and the points that they were made from."""

    judged: CityPredictions
    prepared: Prepared
    """Histories on which the model was run, and the point of each scatterer."""


def answer(
    city: CityInMemory, model: OpenModel, options: Options = AS_RELEASED, areas: bool = False
) -> JudgedCity:
    """Prepare the points of a city, run the model on its buildings, and make the predictions.

    Commands and the service use it; `score` does the same tile by tile.

    Args:
        city: points and footprints.
        model: an open model.
        options: settings of the user.
        areas: True if moving areas are searched, too.
    """
    limits, where = options.limits(model.prepare), where_of(options, city)
    prepared = prepare_buildings(city.points, city.footprints, limits, shown=True)
    return_freed_memory()
    if prepared.moved:
        log.info(
            "%d points between two footprints go to the one whose movement they follow, not to "
            "the nearest",
            prepared.moved,
        )
    buildings, answers = run_model(prepared, model, limits, shown=True)
    courses = courses_of(prepared, city.points, answers)
    return_freed_memory()
    predictions = judge(
        buildings,
        answers,
        city.footprints,
        limits,
        model.about,
        damage_rate=options.damage_rate,
        courses=courses,
        where=where,
        whole=prepared.whole,
    )
    area_table = moving_areas(city.points, city.footprints) if areas else None
    return JudgedCity(predictions._replace(areas=area_table), prepared)


def where_of(options: Options, city: CityInMemory) -> RateVariation:
    """Return by what the share of damaged buildings may vary within a city: causes and place.

    Raises:
        InputError: as `read_causes`.
    """
    if options.causes is None:
        return RateVariation((), options.by_place)
    causes = read_causes(options.causes, options.reading.ingest.footprints)
    days = np.concatenate([track.epochs for track in city.points]).astype("datetime64[D]")
    record = Window(days.min().item(), days.max().item())
    return RateVariation(causes_of_city(causes, city.points[0].crs, record), options.by_place)


def run_model(
    prepared: Prepared, model: OpenModel, limits: Prepare, shown: bool = False
) -> tuple[ModelledBuildings, Answers]:
    """Run the model on the buildings of a city, or of one of its tiles.

    Args:
        prepared: the buildings. model: an open model. limits: of what is judged.
        shown: True to show the progress.

    Returns:
        The buildings that the model was run on, and its answers: arguments of `judge`.
            Those of tiles are joined first.
    """
    sequences = prepared.sequences
    buildings = ModelledBuildings(
        prepared.footprint,
        prepared.n_points,
        has_few_points(sequences, limits),
        strain_error(sequences),
    )
    return buildings, model.network.answer(sequences, shown)


def judge(
    buildings: ModelledBuildings,
    answers: Answers,
    footprints: geopandas.GeoDataFrame,
    limits: Prepare,
    model: ModelSummary,
    *,
    damage_rate: float | None = None,
    courses: StrainCourses | None = None,
    where: RateVariation = ONE_SHARE,
    whole: WholeBuildings | None = None,
) -> CityPredictions:
    """Make the predictions table, one row for each of F footprints, with reasons for abstentions.

    Args:
        buildings: the B buildings that the model was run on, with the row of each in `footprints`.
        answers: of the model for these B buildings.
        footprints: (F,) `building_id` and geometry.
        limits: of what is judged.
        model: version and calibration of the model.
        damage_rate: share of the buildings that are damaged; None: estimated from those
            that can be judged.
        courses: strain over time of some of the B buildings; None: the table has no dates
            and rates.
        where: causes and places by which the share of damaged buildings may vary within the city.
        whole: motion of each of the F buildings as a whole; None: the table has no
            settlement and tilt.
    """
    category_share = np.asarray(model.category_share)
    calibrated_rate = float(category_share[1:].sum())
    p_damaged = np.array(1 - answers.category_probability[:, 0], float)
    polygons = footprints.geometry.to_numpy()

    # First the share of damaged buildings in the city, then, by the odds corrected for it,
    # the share near each building. Only answers count that are in distribution and from good
    # points.
    is_usable = is_in_distribution(answers) & ~buildings.poor(limits)
    city_rate, odds_factor = estimate_rate(
        p_damaged[is_usable], buildings.strain_error[is_usable], calibrated_rate, damage_rate
    )
    p_damaged[is_usable] = with_odds(p_damaged[is_usable], odds_factor)
    shares = local_rates(
        where,
        polygons[buildings.footprint],
        p_damaged=p_damaged,
        able=is_usable,
        share=calibrated_rate,
        city=city_rate,
    )
    city_rate = city_rate._replace(local=len(np.unique(shares.rate)) > 1)

    # The answers as they came from the model, adjusted to the share near each building.
    adjusted = at_rate(answers, category_share, shares.rate)
    answer_columns = _answer_columns(answers, adjusted, buildings.footprint).assign(
        damage_rate=shares.rate, cause=shares.cause
    )
    # A building that leans may look sound although it is damaged.
    is_sound = adjusted.severity_B < CATEGORY_BOUNDS_PERMILLE[0]
    is_hidden = None if whole is None else is_sound & whole.hides_damage[buildings.footprint]
    verdicts = status_of(
        *(buildings, answers, polygons, limits),
        p_damaged=answer_columns["p_damaged"].to_numpy(),
        hidden=is_hidden,
    )
    if courses is not None:
        answer_columns = answer_columns.join(when_columns(courses, answer_columns))

    footprint_columns = {
        "status": verdicts.status,
        "reason": verdicts.reason,
        "n_points": buildings.n_points,
    }
    if whole is not None:
        footprint_columns |= whole_columns(whole, footprints, limits.neighbours_m)
    table = make_predictions(footprints, footprint_columns, answer_columns, model.version)
    tabulate_courses = (
        None if courses is None else cache(lambda: course_rows(courses, buildings.footprint, table))
    )
    cause_table = causes_table(shares.causes, footprints.crs) if shares.causes else None
    explanation = (
        verdicts.explanation if whole is None else _add_resolution(verdicts, whole.resolution)
    )
    return CityPredictions(table, explanation, city_rate, tabulate_courses, causes=cause_table)


def _answer_columns(
    answers: Answers, adjusted: AdjustedAnswers, footprint: NDArray[np.intp]
) -> pd.DataFrame:
    """Return the answers for B buildings in columns of the predictions; the index is
    `footprint`."""
    p_damaged = 1 - adjusted.category_BC[:, 0]
    columns = {
        **dict(zip(PROBABILITIES, answers.quadrant_probability.T.astype(float), strict=True)),
        "quadrant_confidence": quadrant_confidence(answers).astype(float),
        "severity_permille": adjusted.severity_B,
        "severity_low": adjusted.low_B,
        "severity_high": adjusted.high_B,
        "p_damaged": p_damaged,
        **dict(zip(CATEGORIES, adjusted.category_BC.T, strict=True)),
        "mechanism": named_mechanism(answers.mechanism_probability.astype(float), p_damaged),
    }
    return pd.DataFrame(columns, index=footprint)


def _add_resolution(verdicts: Status, resolution: NDArray[np.floating[Any]]) -> NDArray[np.object_]:
    """Return (F,) explanations; those of points that are too poor end with the smallest
    strain that they show."""
    is_poor = np.isin(
        verdicts.reason, ("few_points", "noisy_points", UNSURE_WHERE, LEANING)
    ) & np.isfinite(resolution)
    sentences = [
        f". These points could show {permille:.2g} permille at best" for permille in resolution
    ]
    return np.where(
        is_poor, verdicts.explanation + np.array(sentences, object), verdicts.explanation
    )


def log_unjudged(judged: CityPredictions, where: str = "") -> None:
    """Log how many buildings are not judged for which reason. `where`: begins the line."""
    counts = Counter(reason for reason in judged.reason if reason != "ok")
    if counts:
        log.info(
            "%snot judged: %s",
            where,
            ", ".join(f"{number} {reason}" for reason, number in counts.most_common()),
        )


def log_damaged(judged: CityPredictions, where: str = "") -> None:
    """Log how many buildings are damaged, and how to go on. `where`: begins the line."""
    p_damaged = judged.table.loc[has_answer(judged.table), "p_damaged"].to_numpy(float)
    if not len(p_damaged):
        return
    log.info(
        "%s%s. p_damaged is 0.9 or more for %d of the %d answered, 0.5 or more for %d. Sort by "
        "p_damaged to triage%s",
        where,
        str(judged.rate)[:1].upper() + str(judged.rate)[1:],
        int((p_damaged >= 0.9).sum()),
        len(p_damaged),
        int((p_damaged >= 0.5).sum()),
        judged.rate.advice,
    )
