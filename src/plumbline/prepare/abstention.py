"""Decide which buildings are not judged, and why; measure the strain that points can resolve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.core.arrays import Float
from plumbline.core.compass import frames, of_likeliest
from plumbline.params import Prepare
from plumbline.prepare.features.definition import GEOMETRY, SLOPE, names
from plumbline.prepare.features.shards import SequenceSet, Shards

_ERROR = names(SLOPE).index("differential_displacement_se")
_TRACKS = names(GEOMETRY).index("tracks")
_SIDES = [names(GEOMETRY).index("side_x"), names(GEOMETRY).index("side_y")]


def strain_error(sequences: SequenceSet) -> NDArray[np.floating[Any]]:
    """Return the standard error (B,) of a quadrant's strain, permille, from the noise of
    the building's points alone.

    The drop of a quadrant is the mean of a quarter of the points less that of the other three
    quarters. Its variance is `4 + 4/3` times that of the mean of all. A strain is half of an
    angular distortion (`plumbline.core.strain`, without horizontal strain), which acts over half a
    side: so the drop is strain times side. Wrong positions and other shapes of damage add to the
    error: a strain has to be several such errors large to be found.
    """
    parts = sequences.parts if isinstance(sequences, Shards) else (sequences,)
    errors = [
        np.sqrt((4 + 4 / 3) / _precision(part.slope[:, _ERROR], part.offsets))
        / np.sqrt(np.maximum(part.geometry[:, _SIDES].prod(axis=1), 1e-6))
        for part in parts
    ]
    return np.concatenate([np.zeros(0), *errors])


def points_and_tracks(sequences: SequenceSet) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count the scatterers (B,) and the tracks (B,) of each building."""
    parts = sequences.parts if isinstance(sequences, Shards) else (sequences,)
    none = np.zeros(0, np.int64)
    tracks = [np.rint(part.geometry[:, _TRACKS]).astype(np.int64) for part in parts]
    return np.concatenate([none, *(part.length for part in parts)]), np.concatenate([none, *tracks])


def _precision(
    error_mm: NDArray[np.floating[Any]], offsets: NDArray[np.int64]
) -> NDArray[np.floating[Any]]:
    """Return the sum (B,) of 1 / variance over each building's points, 1/mm2; NaN affects
    only its own building."""
    precision = np.maximum(np.asarray(error_mm, float), 1e-6) ** -2.0
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return np.asarray(np.maximum(np.bincount(owner, precision, len(offsets) - 1), 1e-12))


JUDGED = 0
"""Code of the buildings that no rule leaves out."""
REASONS: Mapping[str, str] = {
    "too_small": "the shorter side is below prepare.min_side_m: positions of points are less "
    "certain than that",
    "too_large": "the longer side is above prepare.max_side_m: joints let the parts of it move "
    "on their own",
    "no_points": "no usable point is on it",
    "few_points": "fewer usable points than prepare.min_points",
    "degenerate_points": "all points are at three places at most, or on one line: tilt cannot be "
    "told from damage",
}
"""Name of each rule, in the order in which they are tried, and what it means."""
LEAST_PLACES = 4
"""Smallest number of places: a plane goes through any three, so that whatever they do is a tilt.
Pixels of several tracks share their places."""
MIN_SPREAD_M = 0.1
"""Smallest distance from their best line (root mean square, m) of points that are not on one
line."""
MIN_SPREAD_SHARE = 0.02
"""Smallest such distance as a share of the shorter side. Below it, the error of a tilt at that
side's ends is more than 25 times the error of the points' mean: half a side over 0.02 of it. Fewer
than 1 in 100 buildings with 5 points or more drawn evenly over it are so."""
STRAY_FROM = 6
"""Smallest number of points from which a single point off the line does not make it an area."""
UNSURE_WHERE = "unsure_where"
"""Reason of the buildings that lack nothing but a probable quadrant."""
LEANING = "leaning"
"""Reason of the buildings with a lean that hides damage."""
OK = "ok"
"""Status and reason of the buildings that are judged."""
STATUSES = (OK, "insufficient_points", "out_of_distribution")
"""Statuses in the predictions. `ok`: judged. The others name why the model abstained."""
ASKED_REASONS = (OK, "few_points", "noisy_points", "out_of_distribution", UNSURE_WHERE, LEANING)
"""Reasons of the buildings that were given to a model, in the order in which they are tried."""
NO_MATTER = ("too_small", "too_large")
"""Reasons that more points would not change."""
ABSTENTIONS = ("no_points", *NO_MATTER, *ASKED_REASONS[1:])
"""Reasons for which a building is not judged."""


class ModelAnswers(Protocol):
    """A model's answers for B buildings; see `export.answers.Answers`."""

    @property
    def quadrant_probability(self) -> NDArray[np.float32]:
        """(B, 4)"""

    @property
    def severity_permille(self) -> NDArray[np.float32]:
        """(B,)"""

    @property
    def severity_low(self) -> NDArray[np.float32]:
        """(B,)"""

    @property
    def severity_high(self) -> NDArray[np.float32]:
        """(B,)"""

    @property
    def novelty(self) -> NDArray[np.float32]:
        """(B,)"""

    @property
    def accepted_probability(self) -> NDArray[np.float32]:
        """(B, 4)"""

    @property
    def category_probability(self) -> NDArray[np.float32]:
        """(B, 5)"""

    @property
    def level_probability(self) -> NDArray[np.float32]:
        """(B, 16)"""

    @property
    def mechanism_probability(self) -> NDArray[np.float32]:
        """(B, 6)"""


class ModelledBuildings(NamedTuple):
    """The B buildings, among F footprints, that were given to a model."""

    footprint: NDArray[np.intp]
    """(B,) row of each building among the footprints."""
    n_points: NDArray[np.int64]
    """(F,)"""
    few: NDArray[np.bool_]
    """(B,) which have too few points, see `has_few_points`."""
    strain_error: Float
    """(B,) standard error of a strain by their points, permille, see `strain_error`."""

    def noisy(self, limits: Prepare) -> NDArray[np.bool_]:
        """Return (B,) which have points too noisy to show a strain of category 1."""
        return _is_noisy(self.strain_error, limits)

    def poor(self, limits: Prepare) -> NDArray[np.bool_]:
        """Return (B,) which have points that could not show damage: too few or too noisy ones."""
        return self.few | self.noisy(limits)


@dataclass(frozen=True)
class LeftOut:
    """The rule, if any, that leaves out each of B buildings."""

    code: NDArray[np.int8]
    """(B,) `JUDGED`, or 1 + the place of the rule in `REASONS`."""

    @property
    def judged(self) -> NDArray[np.intp]:
        """Rows of the buildings that are judged."""
        return np.flatnonzero(self.code == JUDGED)

    @property
    def counts(self) -> dict[str, int]:
        """Buildings left out by each rule, all rules named; a building counts under the
        first that holds."""
        numbers = np.bincount(self.code, minlength=len(REASONS) + 1)[1:]
        return {name: int(number) for name, number in zip(REASONS, numbers, strict=True)}

    def __str__(self) -> str:
        return "; ".join(
            f"{number} {name} ({REASONS[name]})" for name, number in self.counts.items() if number
        )


def leave_out(side: Float, building: NDArray[np.intp], xy: Float, limits: Prepare) -> LeftOut:
    """Apply the rules that need no model to B buildings with N points.

    Args:
        side: (B, 2) sides of the buildings' rectangles, m.
        building: (N,) building of each usable point.
        xy: (N, 2) their positions, m; in any frame that turns and shifts a building as a whole.
        limits: `min_points`, `min_side_m` and `max_side_m` of it count.
    """
    count = np.bincount(building, minlength=len(side))
    small, large = _outsized(side, limits)
    rules = {
        "too_small": small,
        "too_large": large,
        "no_points": count == 0,
        "few_points": count < limits.min_points,
        "degenerate_points": (
            (
                spread(building, xy, len(side))
                < np.maximum(MIN_SPREAD_M, MIN_SPREAD_SHARE * side.min(1))
            )
            | (distinct_places(building, xy, len(side)) < LEAST_PLACES)
        ),
    }
    code = np.select([rules[name] for name in REASONS], range(1, len(REASONS) + 1), default=JUDGED)
    return LeftOut(code.astype(np.int8))


def outsized(footprints: NDArray[np.object_], limits: Prepare) -> NDArray[np.bool_]:
    """Return (B,) whether each footprint, a polygon, is left out by its size; see
    `assign_points`."""
    west, south, east, north = shapely.bounds(footprints).T
    # A rectangle's longer side is at most the diagonal of the bounds, and the product of its sides
    # at least the area within: where these are within the limits by more than rounding, its
    # sides are, too.
    diagonal = np.hypot(east - west, north - south)
    is_surely_within = (diagonal < 0.999 * limits.max_side_m) & shapely.is_valid(footprints)
    is_surely_within &= shapely.area(footprints) > 1.001 * limits.min_side_m * diagonal
    result, rows = np.zeros(len(footprints), bool), np.flatnonzero(~is_surely_within)
    result[rows] = np.logical_or(*_outsized(frames(footprints[rows]).side, limits))
    return result


def _outsized(side: Float, limits: Prepare) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return (B,) which buildings with sides (B, 2), m, are `too_small`, and which are
    `too_large`."""
    return side.min(axis=1) < limits.min_side_m, side.max(axis=1) > limits.max_side_m


def spread(building: NDArray[np.intp], xy: Float, buildings: int) -> Float:
    """Return the root mean square distance (B,) of each building's points from their best line, m.

    It is the second singular value of the centred positions over the square root of their
    number. From `STRAY_FROM` points on, the smallest value that leaving out a single point
    gives. 0 for fewer than two points.
    """
    count = np.bincount(building, minlength=buildings)

    def total(values: Float) -> Float:
        return np.bincount(building, values, buildings).astype(float)

    mean = np.stack([total(xy[:, 0]), total(xy[:, 1])], axis=1) / np.maximum(count, 1)[:, None]
    x, y = (xy - mean[building]).T
    moments = np.stack([total(x * x), total(x * y), total(y * y)], axis=1)
    spread_m = _spread_across(moments, count)
    # Without point i, the sums of squares about the new mean are less by n / (n - 1) times those of
    # the point.
    lever = (count / np.maximum(count - 1, 1))[building, None]
    spread_without_m = _spread_across(
        moments[building] - lever * np.stack([x * x, x * y, y * y], axis=1), count[building] - 1
    )
    is_tested = count[building] >= STRAY_FROM
    np.minimum.at(spread_m, building[is_tested], spread_without_m[is_tested])
    return spread_m


def distinct_places(building: NDArray[np.intp], xy: Float, buildings: int) -> NDArray[np.int64]:
    """Count the distinct positions (B,) of each building's points, to `MIN_SPREAD_M`."""
    cell = np.rint(xy / MIN_SPREAD_M).astype(np.int64)
    distinct = np.unique(np.column_stack([building, cell]), axis=0)
    return np.bincount(distinct[:, 0], minlength=buildings)


def _spread_across(moments: Float, count: NDArray[np.intp]) -> Float:
    """Return the root mean square across the main axis from sums of xx, xy and yy: the
    least eigenvalue's root."""
    xx, xy, yy = moments.T
    smaller = (xx + yy) / 2 - np.hypot((xx - yy) / 2, xy)
    return np.asarray(np.sqrt(np.maximum(smaller, 0) / np.maximum(count, 1)))


@dataclass(frozen=True)
class Status:
    """Outcome for F footprints."""

    status: NDArray[np.object_]
    """(F,) as in the predictions: `ok`, `insufficient_points` or `out_of_distribution`."""
    reason: NDArray[np.object_]
    """(F,) `ok`, or a key of `reason_sentences`."""
    explanation: NDArray[np.object_]
    """(F,) end of the sentence `Not judged: ...`, see `explanations`; empty for judged
    buildings."""


def status_of(
    modelled: ModelledBuildings,
    answers: ModelAnswers,
    footprints: NDArray[np.object_],
    limits: Prepare,
    *,
    p_damaged: NDArray[np.floating[Any]] | None = None,
    hidden: NDArray[np.bool_] | None = None,
) -> Status:
    """Return which buildings are judged, and why the others are not.

    Args:
        modelled: B buildings among F footprints. answers: of the model for them.
        footprints: (F,) their polygons, m.
        limits: of the model that answered, or the user's own.
        p_damaged: (B,) see `has_no_probable_quadrant`.
        hidden: (B,) which would be called sound, though a lean may hide damage, see
            `WholeBuildings.hides_damage`.
    """
    hides_damage = np.zeros(len(modelled.few), bool) if hidden is None else hidden
    status = np.full(len(modelled.n_points), "insufficient_points", dtype=object)
    is_familiar, is_uncertain = (
        is_in_distribution(answers),
        has_no_probable_quadrant(answers, limits, p_damaged),
    )
    noisy = modelled.noisy(limits)
    status[modelled.footprint] = np.where(is_familiar, "ok", "out_of_distribution")
    status[modelled.footprint[modelled.few | noisy | is_uncertain | hides_damage]] = (
        "insufficient_points"
    )
    # A building that was not given to the model has its points on a line if there are enough of
    # them.
    unmodelled = np.setdiff1d(np.arange(len(status)), modelled.footprint)
    count = modelled.n_points[unmodelled]
    rules = [
        *_outsized(frames(footprints[unmodelled]).side, limits),
        count == 0,
        count < limits.min_points,
    ]
    reason = np.empty(len(status), object)
    reason[unmodelled] = np.select(
        rules, [*NO_MATTER, "no_points", "few_points"], default="noisy_points"
    )
    reason[modelled.footprint] = np.select(
        [modelled.few, noisy, ~is_familiar, is_uncertain, hides_damage],
        ASKED_REASONS[1:],
        ASKED_REASONS[0],
    )
    error = np.full(len(status), np.nan)
    error[modelled.footprint] = modelled.strain_error
    return Status(status, reason, explanations(reason, limits, error))


def reason_sentences(limits: Prepare) -> dict[str, str]:
    """Return, for each reason, the end of the sentence `Not judged: ...`."""
    return {
        "too_small": f"its shorter side is below {limits.min_side_m:g} m, less than the places "
        "of points are sure",
        "too_large": f"its longer side is above {limits.max_side_m:g} m, so that its parts move "
        "on their own",
        UNSURE_WHERE: "it may be damaged, and its points do not tell in which quadrant",
        LEANING: "it leans so far that points which are not quite where the product says hide "
        "damage",
        "no_points": "no usable point is on it",
        "few_points": f"it has too few points: {limits.min_points} and one more for each track "
        "are needed",
        "noisy_points": "its points are too noisy (strain error above "
        f"{limits.max_strain_error_permille:g} permille), or all on one line",
        "out_of_distribution": "it, its points or their period are unlike anything the model was "
        "trained on",
    }


def explanations(
    reason: NDArray[np.object_], limits: Prepare, strain_error: Float
) -> NDArray[np.object_]:
    """Return (F,) `reason_sentences` of the buildings, with the figure of each that has
    noisy points.

    Args:
        reason: (F,) see `Status`.
        limits: of the model that judged.
        strain_error: (F,) permille; NaN for noisy points on one line.
    """
    sentences = reason_sentences(limits)
    explained = np.array([sentences.get(name, "") for name in reason], object)
    for row in np.flatnonzero(reason == "noisy_points"):
        # Rounded up, so that 0.604 is not shown as the limit of 0.6.
        shown = np.ceil(100 * strain_error[row]) / 100
        explained[row] = (
            REASONS["degenerate_points"]
            if np.isnan(shown)
            else f"its points are too noisy (strain error {shown:.4g} permille; at most "
            f"{limits.max_strain_error_permille:g} is judged)"
        )
    return explained


def is_judged(sequences: SequenceSet, answers: ModelAnswers, limits: Prepare) -> NDArray[np.bool_]:
    """Return (B,) whether each building gets an answer.

    Args:
        sequences: B buildings. answers: for them.
        limits: `min_points`, `max_strain_error_permille` and `min_quadrant_confidence` of it count.
    """
    return (
        is_in_distribution(answers)
        & ~has_too_little_data(sequences, limits)
        & ~has_no_probable_quadrant(answers, limits)
    )


def is_in_distribution(answers: ModelAnswers) -> NDArray[np.bool_]:
    """Return (B,) whether each building is like the training buildings and all its answers
    are finite."""
    columns = (
        answers.quadrant_probability,
        answers.severity_permille,
        answers.severity_low,
        answers.severity_high,
        answers.novelty,
        answers.accepted_probability,
        answers.level_probability,
        answers.mechanism_probability,
    )
    return np.asarray((answers.novelty <= 1) & np.isfinite(np.column_stack(columns)).all(1))


def has_too_little_data(sequences: SequenceSet, limits: Prepare) -> NDArray[np.bool_]:
    """Return (B,) whether a building's points are too few or too noisy to show a strain of
    category 1."""
    return has_few_points(sequences, limits) | _is_noisy(strain_error(sequences), limits)


def has_few_points(sequences: SequenceSet, limits: Prepare) -> NDArray[np.bool_]:
    """Return (B,) whether fewer than `min_points` are left of a building's points after
    each track has taken one.

    Two tilts and an offset of each track are fitted first. Of as many points the residuals are
    zero, whatever the building does; of few more, they are too few degrees of freedom to
    distinguish four corners.
    """
    length, tracks = points_and_tracks(sequences)
    return np.asarray(length - tracks < limits.min_points)


def _is_noisy(strain_error: Float, limits: Prepare) -> NDArray[np.bool_]:
    return ~(strain_error <= limits.max_strain_error_permille)


def has_no_probable_quadrant(
    answers: ModelAnswers, limits: Prepare, p_damaged: NDArray[np.floating[Any]] | None = None
) -> NDArray[np.bool_]:
    """Return (B,) whether a building may be damaged, but its quadrants are all less
    probable than required.

    A building is left out where the chance that it is damaged and that its quadrant is a
    wrong answer is above `1 - min_quadrant_confidence`: of one that is surely damaged its
    quadrant must be right with that probability.

    Args:
        p_damaged: (B,) probability of category 1 or above; without, that of the answers.
    """
    damaged = 1 - answers.category_probability[:, 0] if p_damaged is None else np.asarray(p_damaged)
    return np.asarray(
        damaged * (1 - quadrant_confidence(answers)) > 1 - limits.min_quadrant_confidence
    )


def quadrant_confidence(answers: ModelAnswers) -> NDArray[np.float64]:
    """Return the probability (B,) that the likeliest quadrant is a right answer, if the
    building is damaged.

    Where a whole end fails, either of its quadrants is right for sure, though each has but
    half of the probability.
    """
    return of_likeliest(answers.quadrant_probability, answers.accepted_probability).astype(float)
