"""Measure how far a building moves and tilts as a whole, from the first to the last epoch.

Scatterers are fitted by tilts and an offset a track, robustly. Their courses in time (`Courses`)
then show how far each of these motions went. A movement as a whole is large against its noise, so
its course counts: a straight line through one that came to rest early is off by tens of percent.
The possible courses (`beginning.possible_courses`) are described in two ways, which count the same:
as random about the line, with the covariance of all, where any mixture of them is possible; and as
exactly one of them, which alone allows a movement of the last days (docs/benchmarks,
2026-11-28-levelling).

Standard errors include the noise of each scatterer, the spread between scatterers (damage,
positions), the noise that scatterers of a track share, the unknown course, and the effect of wrong
positions on a tilt.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from plumbline.core.arrays import Float
from plumbline.core.compass import Frames
from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE
from plumbline.prepare.response.floor import strain_resolution
from plumbline.prepare.response.rigid_body import Fit, rigid_design, student_fit
from plumbline.prepare.scatterers import Scatterers, rectangles
from plumbline.prepare.series.beginning import TIME, possible_courses
from plumbline.prepare.series.temporal_basis import LINE, dictionary_courses, shape_coordinates

MIN_SCATTERERS = 3
"""Smallest number of scatterers to which a plane is fitted."""
LIKELY_TILT, WEAK_OFFSET = 3.0, 1e4
"""Prior standard deviations of tilts, mm/m, and of offsets, mm."""
MAX_TILT_ERROR_MM_M, MAX_TILT_ERROR_SHARE = 1.5, 0.2
"""Largest standard error of a tilt that is reported, in the worst direction: in mm/m, half of the
prior's; or as a share of the tilt, because under a large tilt wrong positions make the error large
as well."""
USUAL_SPREAD, COUNTS = 1.0, 2.0
"""Prior spread of a building's scatterers beside noise and rigid motion, mm, and the number of
scatterers that it counts as."""
NORMAL = 1.25
"""Ratio of the standard deviation of normal errors to the spread of `student_fit`."""
TAIL, BEYOND = 0.9, 1.5
"""Quantile of the residuals, and the multiple of it beyond which scatterers are outliers, not
damage."""
ASTRAY_M = 3.0
"""Standard deviation of the larger position errors of points, m; a spread that would need more has
another cause."""
MIN_SHARED_WEIGHT = 0.5
"""Smallest weight in the fit of a scatterer that shares the building's motion: it is off by
at most 2.4 times the spread."""
LEANS_MM_M = 10.0
"""Smallest tilt that may hide damage, mm/m: 1.5 times that at which structural damage begins
(1/150, Skempton and MacDonald 1956)."""
PRIOR_COORDINATES, ROUNDS = 1.0, 8
"""Number of coordinates that the prior counts as, by which a building's courses differ from the
line as much as those of others; and number of iterations."""
BATCH = 32
"""Number of buildings whose motions are compared with all courses at a time: few enough for the
arrays to stay in the processor's cache."""
WIDER = 10.0
"""Prior variance of a motion's size, as a multiple of the square of its estimate along the line."""


class WholeBuildings(NamedTuple):
    """Motion of F buildings, seen by T tracks, over the period; NaN without an estimate."""

    change: Float
    """(F, T) mm along LOS, of the middle of the footprint; each track has its own reference."""
    variance: Float
    """(F, T) variance of the change, mm2."""
    los: Float
    """(F, T, 3) mean LOS: east, north, up."""
    tilt: Float
    """(F, 2) rise towards the east and the north, mm/m."""
    tilt_covariance: Float
    """(F, 2, 2)"""
    years: Float
    """(F,) length of the period."""
    resolution: Float
    """(F,) smallest strain that the points could show, permille; see `floor`."""
    lean: Float
    """(F,) likeliest size of the tilt, mm/m, also where it is not precise enough to be reported."""
    agreeing: NDArray[np.int64]
    """(F, T) number of scatterers that share the building's motion."""

    def put(self, buildings: NDArray[np.intp], **values: NDArray[Any]) -> None:
        """Write values (b, ...) of some of the buildings."""
        for name, part in values.items():
            getattr(self, name)[buildings] = part

    @property
    def hides_damage(self) -> NDArray[np.bool_]:
        """(F,) whether a lean may hide moderate damage: wrongly placed points move like damage."""
        resolution = np.where(np.isnan(self.resolution), np.inf, self.resolution)
        return np.asarray((self.lean >= LEANS_MM_M) & (resolution >= CATEGORY_BOUNDS_PERMILLE[2]))


def whole_buildings(
    scatterers: Scatterers, frame: Frames, middle: NDArray[np.float64], los: Float, years: float
) -> WholeBuildings:
    """Measure the buildings of `frame`.

    Args:
        scatterers: of any of F buildings. frame: of the F buildings.
        middle: (F, 2) easting and northing of the middles of their footprints, m.
        los: (F, T, 3) mean LOS of each track: east, north, up.
        years: length of the period that changes refer to.
    """
    count, tracks = los.shape[:2]
    whole = WholeBuildings(
        np.full((count, tracks), np.nan),
        np.full((count, tracks), np.nan),
        los,
        np.full((count, 2), np.nan),
        np.full((count, 2, 2), np.nan),
        np.full(count, years),
        np.full(count, np.nan),
        np.full(count, np.nan),
        np.zeros((count, tracks), np.int64),
    )
    xy = scatterers.xy - frame.to_building(np.arange(count), middle)[scatterers.building]
    for rectangle in rectangles(
        np.r_[0, np.cumsum(np.bincount(scatterers.building, minlength=count))]
    ):
        is_fitted = rectangle.mask.sum(1) >= MIN_SCATTERERS
        buildings, row, mask = (
            rectangle.building[is_fitted],
            rectangle.row[is_fitted],
            rectangle.mask[is_fitted],
        )
        if len(buildings):
            motion, tilt, covariance, astray = _fit(
                scatterers, xy, row, mask=mask, tracks=tracks, years=years
            )
            cos, sin = np.cos(frame.angle[buildings]), np.sin(frame.angle[buildings])
            turn = np.stack([cos, -sin, sin, cos], axis=1).reshape(-1, 2, 2)
            whole.put(
                buildings,
                **motion,
                tilt=(turn @ tilt[..., None])[..., 0],
                tilt_covariance=turn @ covariance @ turn.transpose(0, 2, 1),
                resolution=_resolution(scatterers, row, mask, frame.side[buildings], astray),
            )
    return whole


def _fit(
    scatterers: Scatterers,
    xy: Float,
    row: NDArray[np.intp],
    *,
    mask: NDArray[np.bool_],
    tracks: int,
    years: float,
) -> tuple[dict[str, NDArray[Any]], Float, Float, Float]:
    """Fit b buildings with scatterers `row` (b, P).

    Returns:
        Fields of `WholeBuildings`; tilts (b, 2) and their covariances (b, 2, 2) in the building
        frame; and the motion (b,) that wrong positions may cause under the tilt, mm, at most the
        scatterers' spread.
    """
    track, error = scatterers.track[row], scatterers.change_se[row]
    design = (
        rigid_design(xy[row], scatterers.height[row], scatterers.los[row], track) * mask[..., None]
    )
    design = np.concatenate([design, np.zeros((*mask.shape, 2 + tracks - design.shape[2]))], axis=2)
    is_seen = (design[..., 2:] != 0).any(1)
    prior = np.r_[[LIKELY_TILT] * 2, [WEAK_OFFSET] * tracks] ** -2.0
    fit = student_fit(design, scatterers.change[row], error, mask, prior)
    spread = _spread(fit, error, mask, 2 + is_seen.sum(1))
    weight = np.where(mask, np.minimum(fit.weight, 1), 0) / (error**2 + spread[:, None] ** 2)
    weighted = (weight[..., None] * design).transpose(0, 2, 1)
    # Few buildings lean, so the prior of a tilt is narrow. It is widened by the fitted tilt: a
    # building that leans must not be drawn upright by it.
    widened_prior = np.tile(prior, (len(row), 1))
    widened_prior[:, :2] = 1 / (LIKELY_TILT**2 + fit.solution[:, :2] ** 2)
    covariance = np.linalg.inv(
        weighted @ design + widened_prior[:, :, None] * np.eye(widened_prior.shape[1])
    )
    common_error = design[..., 2:] * (scatterers.common_se[row] * years)[..., None]
    variance = np.diagonal(covariance, axis1=1, axis2=2).copy()
    variance[:, 2:] += common_error.max(1) ** 2

    total, error_2 = _estimate_totals(scatterers, row, mask, covariance @ weighted, variance)
    correlation = covariance[:, 0, 1] / np.sqrt(variance[:, 0] * variance[:, 1])
    tilt, tilt_product = total[:, :2], correlation * np.sqrt(error_2[:, 0] * error_2[:, 1])
    tilt_covariance = np.stack(
        [error_2[:, 0], tilt_product, tilt_product, error_2[:, 1]], axis=1
    ).reshape(-1, 2, 2)
    tilt, tilt_covariance = _correct_for_positions(
        tilt, tilt_covariance, NORMAL * fit.spread, weight.sum(1)
    )
    error = np.sqrt(np.linalg.eigvalsh(tilt_covariance)[:, 1])
    is_precise = error <= np.maximum(MAX_TILT_ERROR_MM_M, MAX_TILT_ERROR_SHARE * np.hypot(*tilt.T))
    motion = {
        "change": np.where(is_seen, total[:, 2:], np.nan),
        "variance": np.where(is_seen, error_2[:, 2:], np.nan),
        # Under a very large tilt the fit finds no plane: wrong positions then explain the spread.
        "lean": np.maximum(np.hypot(*tilt.T), NORMAL * fit.spread / ASTRAY_M),
        "agreeing": ((fit.weight >= MIN_SHARED_WEIGHT)[..., None] & (design[..., 2:] != 0)).sum(1),
    }
    astray = np.minimum(NORMAL * fit.spread, ASTRAY_M * np.sqrt((fit.solution[:, :2] ** 2).sum(1)))
    return (
        motion,
        np.where(is_precise[:, None], tilt, np.nan),
        np.where(is_precise[:, None, None], tilt_covariance, np.nan),
        astray,
    )


def _resolution(
    scatterers: Scatterers,
    row: NDArray[np.intp],
    mask: NDArray[np.bool_],
    side: Float,
    astray: Float,
) -> Float:
    """Return `strain_resolution` (b,) of b buildings with scatterers `row` (b, P): a large
    lean hides damage."""
    xy, los = scatterers.xy[row], scatterers.los[row]
    rigid = rigid_design(xy, scatterers.height[row], los, scatterers.track[row])
    return strain_resolution(
        xy,
        los,
        error=np.hypot(scatterers.change_se[row], astray[:, None]),
        rigid=rigid,
        mask=mask,
        side=side,
    )


def _spread(fit: Fit, error: Float, mask: NDArray[np.bool_], needed: NDArray[np.intp]) -> Float:
    """Return the standard deviation (b,) between scatterers beyond their stated errors, mm.

    It counts damage in full, which the fit itself leaves out, for damage disturbs the building's
    plane. Few scatterers determine it poorly, so it is widened: 1.645 times it covers 90 %.
    """
    count, scale = mask.sum(1), np.sqrt(error**2 + fit.spread[:, None] ** 2)
    deviation = np.where(mask, np.abs(fit.residual) / scale, np.inf)
    tail = np.sort(deviation, axis=1)[
        np.arange(len(deviation)), np.floor(TAIL * (count - 1)).astype(int)
    ]
    square = (
        np.minimum(np.where(mask, deviation, 0), BEYOND * np.maximum(tail, 1)[:, None]) ** 2
        * scale**2
    )
    freedom = np.maximum(count - needed, 0)
    beyond = square.sum(1) / np.maximum(freedom, 1) - (error**2 * mask).sum(1) / count
    usual = USUAL_SPREAD**2 + ASTRAY_M**2 * (fit.solution[:, :2] ** 2).sum(1)
    variance = (freedom * np.maximum(beyond, 0) + COUNTS * usual) / (freedom + COUNTS)
    return np.asarray(np.sqrt(variance) * stdtrit(freedom + COUNTS, 0.95) / ndtri(0.95), float)


def _estimate_totals(
    scatterers: Scatterers,
    row: NDArray[np.intp],
    mask: NDArray[np.bool_],
    solver: Float,
    variance: Float,
) -> tuple[Float, Float]:
    """Return how far each motion (b, J) went, and its variance.

    Args:
        solver: (b, J, P) from values of scatterers to motions. variance: (b, J) of a motion
            along the line.
    """
    line, course_covariance = _describe_courses()
    course, root = scatterers.course[row].astype(float), scatterers.course_root[row].astype(float)
    bent = np.isfinite(course).all((1, 2))
    total, error_2 = (solver @ scatterers.change[row][..., None])[..., 0], variance.copy()
    if not bent.any():
        return total, error_2
    root = (
        root[bent]
        / np.linalg.norm(root[bent] @ line, axis=-1)[..., None, None]
        * mask[bent][..., None, None]
    )
    root = root.reshape(len(root), -1, len(line))
    # The noise of one track on one building is of one kind: all errors in time are scaled to the
    # error of the line.
    information = root.transpose(0, 2, 1) @ root / mask[bent].sum(1)[:, None, None]
    # On these axes both the noise and the deviations of possible courses are independent, of
    # variance 1 and `course_variance`, so that sums replace the inverses of matrices.
    lower = np.linalg.cholesky(information)
    course_variance, turn = np.linalg.eigh(lower.transpose(0, 2, 1) @ course_covariance @ lower)
    axes = (lower @ turn).transpose(0, 2, 1)
    course_variance, line_size = course_variance[:, None], (axes @ line)[:, None]
    coordinates = solver[bent] @ course[bent]
    on_axes = coordinates @ axes.transpose(0, 2, 1)
    noise = variance[bent][..., None]
    size, bend = coordinates[..., 0] / line[0], np.ones((len(coordinates), 1))
    for _ in range(ROUNDS):
        by_course = (bend * size**2)[..., None] * course_variance
        inverse = 1 / (noise + by_course)
        precision = (inverse * line_size**2).sum(-1)
        size = (inverse * line_size * on_axes).sum(-1) / precision
        weighted_residual = inverse * (on_axes - size[..., None] * line_size)
        # Expectation-maximisation of the scale of deviations from the line: the expected square of
        # the deviation under the present scale, in units of the possible courses' covariance.
        square = by_course * (weighted_residual**2 - inverse)
        square = bend * (square.sum(-1) + len(line))
        bend = (
            (PRIOR_COORDINATES + square.sum(1)) / (PRIOR_COORDINATES + square.shape[1] * len(line))
        )[:, None]
    likely_2 = total[bent] ** 2 + variance[bent]
    averages = [
        _average_courses(coordinates[at], information[at], variance[bent][at], likely_2[at])
        for at in (slice(start, start + BATCH) for start in range(0, len(coordinates), BATCH))
    ]
    size_by_one, size_by_one_2 = (np.concatenate(part) for part in zip(*averages, strict=True))
    total[bent] = (size + size_by_one) / 2
    error_2[bent] = (1 / precision + size_by_one_2) / 2 + (size - size_by_one) ** 2 / 4
    return total, error_2


def _average_courses(
    coordinates: Float, information: Float, variance: Float, likely_2: Float
) -> tuple[Float, Float]:
    """Return how far motions (b, J) went if each follows one of the possible courses, and
    the variance.

    Args:
        coordinates: (b, J, K) of the motions. information: (b, K, K) inverse of their
            covariance for a motion of variance 1. variance: (b, J) of the motions.
        likely_2: (b, J) square of how far a motion may have gone, mm2.
    """
    course, pairs, log_prior = _possible_coordinates()
    precision, before_2 = 1 / variance[..., None], WIDER * likely_2[..., None]
    weighted = (coordinates @ information) * precision
    # The size of each course has a normal prior of variance `before_2` and is integrated out:
    # `shrunk_2` is its posterior variance, and the evidence is that of a linear model with one
    # coefficient.
    power = information.reshape(len(information), -1) @ pairs
    ratio = power[:, None] * (precision * before_2)
    ratio += 1
    shrunk_2 = before_2 / ratio
    size = weighted @ course.T
    explained = shrunk_2 * size
    explained *= size
    size *= shrunk_2
    # Where no course fits, the noise is larger than stated.
    misfit = (coordinates * weighted).sum(-1, keepdims=True) - explained.max(-1, keepdims=True)
    noise_scale = np.maximum(misfit / (course.shape[1] - 1), 1)
    fits = explained
    fits -= np.log(ratio, out=ratio)
    fits *= 0.5 / noise_scale
    fits += log_prior
    fits -= fits.max(-1, keepdims=True)
    weight = np.exp(fits, out=fits)
    total = weight.sum(-1)
    mean_variance = np.einsum("bjc,bjc->bj", weight, shrunk_2) / total
    weight *= size
    mean, mean_square = weight.sum(-1) / total, np.einsum("bjc,bjc->bj", weight, size) / total
    return mean, mean_variance * noise_scale[..., 0] + mean_square - mean**2


@lru_cache(maxsize=1)
def _possible_coordinates() -> tuple[Float, Float, Float]:
    """Return the coordinates (C, K) of the possible courses, the products (K K, C) of their
    pairs, and their log prior (C,)."""
    courses = possible_courses()
    course = shape_coordinates(TIME, courses.course)
    pairs = (course[:, :, None] * course[:, None, :]).reshape(len(course), -1).T
    return course, np.ascontiguousarray(pairs), courses.log_prior


@lru_cache(maxsize=1)
def _describe_courses() -> tuple[Float, Float]:
    """Return the line (K,) and the covariance (K, K) of possible courses about it, for a
    total change of 1 mm."""
    (course, _, log_prior), line = _possible_coordinates(), dictionary_courses()[LINE]
    apart, likely = course - line, np.exp(log_prior)
    return line, (likely[:, None] * apart).T @ apart / likely.sum()


def _correct_for_positions(
    tilt: Float, covariance: Float, spread: Float, weight: Float
) -> tuple[Float, Float]:
    """Return tilts (b, 2) and their covariances, corrected for wrong positions.

    These make every tilt look smaller. The loss is between nothing and its value if wrong positions
    made all of the spread (Frisch 1934). The middle of the range is used, and half of the range is
    an error.

    Args:
        spread: (b,) mm. weight: (b,) sum of the scatterers' weights, 1/mm2.
    """
    square = np.maximum((tilt**2).sum(1), 1e-12)
    astray = np.minimum(spread**2 / square, ASTRAY_M**2)
    along = np.einsum("bi,bij,bj->b", tilt, covariance, tilt) / square
    half = np.minimum(astray * weight * along, 0.5) / 2
    lost = half[:, None] * tilt
    return tilt + lost, covariance + lost[:, :, None] * lost[:, None, :]
