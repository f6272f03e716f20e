"""Ask a model about the buildings of a city, and turn its answers into the predictions table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import geopandas
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plumbline.core.console import log
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
from plumbline.serve.base_rate import AtRate, DamageRate, at_rate, estimate_rate, with_odds
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


class Judged(NamedTuple):
    """Predictions for F footprints."""

    table: geopandas.GeoDataFrame
    """The predictions, see `make_predictions`."""
    explanation: NDArray[np.object_]
    """(F,) why it is not judged, as the end of the sentence `Not judged: ...`."""
    rate: DamageRate
    """The share of damaged buildings in the city; a building's own may differ, see `local_rates`."""
    courses: pd.DataFrame | None = None
    """Severity over time of those with a rate, see `course_rows`; None where nobody asked for it."""
    areas: geopandas.GeoDataFrame | None = None
    """What moves in the city, see `moving_areas`; None where nobody asked for it."""
    causes: geopandas.GeoDataFrame | None = None
    """Estimates of the causes, see `CauseEstimate`; None without any."""
    levelling: geopandas.GeoDataFrame | None = None
    """Levelled points beside the radar, see `compare.agreement.point_table`; None where nothing is compared."""

    @property
    def reason(self) -> NDArray[np.object_]:
        """(F,) `ok`, or why it is not judged: one of `abstention.ABSTENTIONS`."""
        return np.asarray(self.table["reason"], object)


class Model(NamedTuple):
    """Version and calibration of the model that answered."""

    version: str
    """Of the package."""
    category_share: list[float]
    """Of the buildings that it was calibrated on."""


class OpenModel(NamedTuple):
    """A model that is ready to answer."""

    prepare: Prepare
    """How it wants its scatterers prepared, and what is judged."""
    network: Released
    about: Model


def open_model(package: Path, artifact: str | None = None) -> OpenModel:
    """Open a model of a package: its default one, or `artifact`.

    Raises:
        InputError: as `open_package`.
    """
    manifest, network = open_package(package, artifact)
    return OpenModel(manifest.prepare, network, Model(manifest.version, network.category_share))


class Answered(NamedTuple):
    """All that is known of F footprints."""

    judged: Judged
    prepared: Prepared
    """What the model was asked about: the histories, and the point that each scatterer is."""


def answer(city: CityInMemory, model: OpenModel, options: Options = AS_RELEASED, areas: bool = False) -> Answered:
    """Prepare, ask the model, and judge: what commands and the service say of a city; `score` does so tile by tile.

    Args:
        city: points and footprints.
        model: who answers.
        options: what the user asks for.
        areas: whether moving areas are looked for, too.
    """
    limits, where = options.limits(model.prepare), where_of(options, city)
    prepared = prepare_buildings(city.points, city.footprints, limits, shown=True)
    if prepared.moved:
        log.info(
            "%d points between two footprints go to the one whose movement they follow, not to the nearest",
            prepared.moved,
        )
    asked, answers = ask(prepared, model, limits, shown=True)
    courses = courses_of(prepared, city.points, answers)
    judged = judge(
        asked, answers, city.footprints, limits, model.about, options.damage_rate, courses, where, prepared.whole
    )
    moving = moving_areas(city.points, city.footprints) if areas else None
    return Answered(judged._replace(areas=moving), prepared)


def where_of(options: Options, city: CityInMemory) -> RateVariation:
    """Return what the share of damaged buildings may differ by within a city.

    Raises:
        InputError: as `read_causes`.
    """
    if options.causes is None:
        return RateVariation((), options.by_place)
    file = read_causes(options.causes, options.reading.ingest.footprints)
    days = np.concatenate([track.epochs for track in city.points]).astype("datetime64[D]")
    record = Window(days.min().item(), days.max().item())
    return RateVariation(causes_of_city(file, city.points[0].crs, record), options.by_place)


def ask(
    prepared: Prepared, model: OpenModel, limits: Prepare, shown: bool = False
) -> tuple[ModelledBuildings, Answers]:
    """Ask the model about the buildings of a city or of one of its tiles; `judge` takes the result, or that of all.

    Args:
        prepared: the buildings. model: who answers. limits: who is judged.
        shown: whether the user sees how far along it is.
    """
    sequences = prepared.sequences
    asked = ModelledBuildings(
        prepared.footprint, prepared.n_points, has_few_points(sequences, limits), strain_error(sequences)
    )
    return asked, model.network.answer(sequences, shown)


def judge(
    asked: ModelledBuildings,
    answers: Answers,
    footprints: geopandas.GeoDataFrame,
    prepare: Prepare,
    model: Model,
    damage_rate: float | None = None,
    courses: StrainCourses | None = None,
    where: RateVariation = ONE_SHARE,
    whole: WholeBuildings | None = None,
) -> Judged:
    """Make the predictions table, one row for each of F footprints, with reasons for abstentions.

    Args:
        asked: for which footprints; answers: for its B buildings.
        footprints: `building_id` and geometry.
        prepare: how the model wants its scatterers prepared.
        model: who answered.
        damage_rate: share of the buildings that are damaged; None: estimated from those that can be judged.
        courses: in time, of some of the B; None: nothing is said of it.
        where: what the share may differ by within the city.
        whole: motion of the F as a whole; None: nothing is said of it.
    """
    share = np.asarray(model.category_share)
    able = is_in_distribution(answers) & ~asked.poor(prepare)
    p_damaged, of_all = 1 - answers.category_probability[:, 0], float(share[1:].sum())
    rate, factor = estimate_rate(p_damaged[able], asked.strain_error[able], of_all, damage_rate)
    geometry = footprints.geometry.to_numpy()
    corrected = np.array(p_damaged, float)
    corrected[able] = with_odds(corrected[able], factor)
    local = local_rates(where, geometry[asked.footprint], corrected, able, of_all, rate)
    rate = rate._replace(local=len(np.unique(local.rate)) > 1)
    adjusted = at_rate(answers, share, local.rate)
    is_sound = adjusted.severity_B < CATEGORY_BOUNDS_PERMILLE[0]
    is_hidden = None if whole is None else is_sound & whole.hides_damage[asked.footprint]
    answered = _answer_columns(answers, adjusted, asked.footprint).assign(damage_rate=local.rate, cause=local.cause)
    status = status_of(asked, answers, geometry, prepare, p_damaged=answered["p_damaged"].to_numpy(), hidden=is_hidden)
    if courses is not None:
        answered = answered.join(when_columns(courses, answered))
    about = {"status": status.status, "reason": status.reason, "n_points": asked.n_points}
    if whole is not None:
        about |= whole_columns(whole, footprints, prepare.neighbours_m)
    table = make_predictions(footprints, about, answered, model.version)
    rows = None if courses is None else course_rows(courses, asked.footprint, table)
    causes = causes_table(local.causes, footprints.crs) if local.causes else None
    explanation = status.explanation if whole is None else _with_resolution(status, whole.resolution)
    return Judged(table, explanation, rate, rows, causes=causes)


def _answer_columns(answers: Answers, adjusted: AtRate, footprint: NDArray[np.intp]) -> pd.DataFrame:
    """Return what the model says of B buildings, in columns of the predictions; the index is `footprint`."""
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


def _with_resolution(status: Status, resolution: NDArray[np.floating[Any]]) -> NDArray[np.object_]:
    """Return (F,) explanations, with what the points of those that are not judged could show at best, permille."""
    lack = np.isin(status.reason, ("few_points", "noisy_points", UNSURE_WHERE, LEANING)) & np.isfinite(resolution)
    at_best = [f". These points could show {permille:.2g} permille at best" for permille in resolution]
    return np.where(lack, status.explanation + np.array(at_best, object), status.explanation)


def say_unjudged(judged: Judged, where: str = "") -> None:
    """Log how many buildings are not judged for which reason. `where`: begins the line."""
    counts = Counter(reason for reason in judged.reason if reason != "ok")
    if counts:
        log.info("%snot judged: %s", where, ", ".join(f"{number} {reason}" for reason, number in counts.most_common()))


def say_damaged(judged: Judged, where: str = "") -> None:
    """Log how many buildings are damaged, and how to go on. `where`: begins the line."""
    p_damaged = judged.table.loc[has_answer(judged.table), "p_damaged"].to_numpy(float)
    if not len(p_damaged):
        return
    log.info(
        "%s%s. p_damaged is 0.9 or more for %d of the %d answered, 0.5 or more for %d. Sort by p_damaged to triage%s",
        where,
        str(judged.rate)[:1].upper() + str(judged.rate)[1:],
        int((p_damaged >= 0.9).sum()),
        len(p_damaged),
        int((p_damaged >= 0.5).sum()),
        judged.rate.advice,
    )
