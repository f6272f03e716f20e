"""Measure how far a building moves and tilts as a whole, from the first to the last epoch.

Scatterers are fitted by tilts and an offset a track, robustly. Their courses in time (`Courses`) then say how far each
of these motions went. A movement as a whole is large against its noise, so its course counts: a straight line through
one that came to rest early is off by tens of percent. What courses are possible (`beginning.possible`) is described in
two ways, and both are held as likely: as random about the line, with the covariance of all, where any mixture of them
is possible; and as exactly one of them, which alone believes a movement of the last days (docs/benchmarks,
2026-11-28-levelling).

Standard errors hold the noise of each scatterer, the spread between scatterers (damage, positions), the noise that
scatterers of a track share, the unknown course, and what wrong positions do to a tilt.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, softmax, stdtrit

from plumbline.core.compass import Frames
from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE
from plumbline.prepare.response.floor import strain_resolution
from plumbline.prepare.response.rigid_body import Fit, rigid_design, student_fit
from plumbline.prepare.scatterers import Scatterers, rectangles
from plumbline.prepare.series.beginning import TIME, possible
from plumbline.prepare.series.temporal_basis import LINE, dictionary_courses, shape_coordinates

Float = NDArray[np.floating[Any]]
FEWEST = 3
"""Scatterers of a building; fewer say too little of it."""
LIKELY_TILT, WEAK_OFFSET = 3.0, 1e4
"""mm/m and mm: standard deviations before looking."""
MOST_TILT_ERROR, MOST_TILT_SHARE = 1.5, 0.2
"""mm/m, in the worst direction: half of what was known before; and of the tilt itself, for under a large one wrong
positions make the error large as well. A tilt that is known no better is not given."""
USUAL_SPREAD, COUNTS = 1.0, 2.0
"""mm, and as how many scatterers it counts: what scatterers of a building do beside noise and rigid motion."""
NORMAL = 1.25
"""Standard deviation of normal errors by the spread of `student_fit`."""
TAIL, BEYOND = 0.9, 1.5
"""Scatterers farther off than this many times the tail's quantile of the residuals are outliers, not damage."""
ASTRAY_M = 3.0
"""Position errors of points, the larger ones; where a spread would need more, it is not theirs."""
MIN_SHARED_WEIGHT = 0.5
"""Smallest weight in the fit of a scatterer that shares the building's motion: it is off by at most 2.4 times the
spread."""
LEANS_MM_M = 10.0
"""Half as much again as where structural damage begins (1/150, Skempton and MacDonald 1956)."""
KNOWN, ROUNDS = 1.0, 8
"""As how many coordinates it counts that a building's courses differ from the line as much as others do."""
WIDER = 10.0
"""Variance of how far a motion went before looking, as a multiple of the square of what its scatterers say."""


class WholeBuildings(NamedTuple):
    """Motion of F buildings, seen by T tracks, over the period that changes refer to; NaN where nothing is known."""

    change: Float
    """(F, T) mm along LOS, of the middle of the footprint; each track has its own reference."""
    variance: Float
    """(F, T) of it, mm2."""
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
    """(F,) likeliest size of the tilt, mm/m, also where it is not known well enough to be given."""
    agreeing: NDArray[np.int64]
    """(F, T) number of scatterers that share the building's motion."""

    def put(self, buildings: NDArray[np.intp], **values: NDArray[Any]) -> None:
        """Write values (b, ...) of some of the buildings."""
        for name, part in values.items():
            getattr(self, name)[buildings] = part

    @property
    def hides_damage(self) -> NDArray[np.bool_]:
        """(F,) whether a lean may hide moderate damage: points that are not where the product says move like it."""
        told = np.where(np.isnan(self.resolution), np.inf, self.resolution)
        return np.asarray((self.lean >= LEANS_MM_M) & (told >= CATEGORY_BOUNDS_PERMILLE[2]))


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
    found = WholeBuildings(
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
    for rectangle in rectangles(np.r_[0, np.cumsum(np.bincount(scatterers.building, minlength=count))]):
        enough = rectangle.mask.sum(1) >= FEWEST
        own, row, mask = rectangle.building[enough], rectangle.row[enough], rectangle.mask[enough]
        if len(own):
            motion, tilt, covariance, astray = _fit(scatterers, xy, row, mask, tracks, years)
            cos, sin = np.cos(frame.angle[own]), np.sin(frame.angle[own])
            turn = np.stack([cos, -sin, sin, cos], axis=1).reshape(-1, 2, 2)
            found.put(
                own,
                **motion,
                tilt=(turn @ tilt[..., None])[..., 0],
                tilt_covariance=turn @ covariance @ turn.transpose(0, 2, 1),
                resolution=_resolution(scatterers, row, mask, frame.side[own], astray),
            )
    return found


def _fit(
    scatterers: Scatterers, xy: Float, row: NDArray[np.intp], mask: NDArray[np.bool_], tracks: int, years: float
) -> tuple[dict[str, NDArray[Any]], Float, Float, Float]:
    """Fit b buildings with scatterers `row` (b, P).

    Returns:
        Fields of `WholeBuildings`; tilts (b, 2) and their covariances (b, 2, 2) in the building frame; and (b,) what
        wrong positions may do under the tilt, mm, at most what the scatterers do.
    """
    track, error = scatterers.track[row], scatterers.change_se[row]
    design = rigid_design(xy[row], scatterers.height[row], scatterers.los[row], track) * mask[..., None]
    design = np.concatenate([design, np.zeros((*mask.shape, 2 + tracks - design.shape[2]))], axis=2)
    seen = (design[..., 2:] != 0).any(1)
    prior = np.r_[[LIKELY_TILT] * 2, [WEAK_OFFSET] * tracks] ** -2.0
    fit = student_fit(design, scatterers.change[row], error, mask, prior)
    spread = _spread(fit, error, mask, 2 + seen.sum(1))
    weight = np.where(mask, np.minimum(fit.weight, 1), 0) / (error**2 + spread[:, None] ** 2)
    weighted = (weight[..., None] * design).transpose(0, 2, 1)
    # Before looking, few lean; of one that is found to, it is not held that it hardly does.
    held = np.tile(prior, (len(row), 1))
    held[:, :2] = 1 / (LIKELY_TILT**2 + fit.solution[:, :2] ** 2)
    covariance = np.linalg.inv(weighted @ design + held[:, :, None] * np.eye(held.shape[1]))
    common = design[..., 2:] * (scatterers.common_se[row] * years)[..., None]
    variance = np.diagonal(covariance, axis1=1, axis2=2).copy()
    variance[:, 2:] += common.max(1) ** 2

    total, error_2 = _totals(scatterers, row, mask, covariance @ weighted, variance)
    together = covariance[:, 0, 1] / np.sqrt(variance[:, 0] * variance[:, 1])
    tilt, across = total[:, :2], together * np.sqrt(error_2[:, 0] * error_2[:, 1])
    of_tilt = np.stack([error_2[:, 0], across, across, error_2[:, 1]], axis=1).reshape(-1, 2, 2)
    tilt, of_tilt = _with_positions(tilt, of_tilt, NORMAL * fit.spread, weight.sum(1))
    error = np.sqrt(np.linalg.eigvalsh(of_tilt)[:, 1])
    known = error <= np.maximum(MOST_TILT_ERROR, MOST_TILT_SHARE * np.hypot(*tilt.T))
    motion = {
        "change": np.where(seen, total[:, 2:], np.nan),
        "variance": np.where(seen, error_2[:, 2:], np.nan),
        # Under a very large one no plane is found: wrong positions then make up what scatterers do.
        "lean": np.maximum(np.hypot(*tilt.T), NORMAL * fit.spread / ASTRAY_M),
        "agreeing": ((fit.weight >= MIN_SHARED_WEIGHT)[..., None] & (design[..., 2:] != 0)).sum(1),
    }
    astray = np.minimum(NORMAL * fit.spread, ASTRAY_M * np.sqrt((fit.solution[:, :2] ** 2).sum(1)))
    return motion, np.where(known[:, None], tilt, np.nan), np.where(known[:, None, None], of_tilt, np.nan), astray


def _resolution(
    scatterers: Scatterers, row: NDArray[np.intp], mask: NDArray[np.bool_], side: Float, astray: Float
) -> Float:
    """Return `strain_resolution` (b,) of b buildings with scatterers `row` (b, P): a large lean hides damage."""
    xy, los = scatterers.xy[row], scatterers.los[row]
    rigid = rigid_design(xy, scatterers.height[row], los, scatterers.track[row])
    return strain_resolution(xy, los, np.hypot(scatterers.change_se[row], astray[:, None]), rigid, mask, side)


def _spread(fit: Fit, error: Float, mask: NDArray[np.bool_], needed: NDArray[np.intp]) -> Float:
    """Return the standard deviation (b,) between scatterers beyond their stated errors, mm.

    It counts damage in full, which the fit itself leaves out, for it disturbs the building's plane. As few scatterers
    tell little of it, it is widened: 1.645 of it hold 90 %.
    """
    count, scale = mask.sum(1), np.sqrt(error**2 + fit.spread[:, None] ** 2)
    off = np.where(mask, np.abs(fit.residual) / scale, np.inf)
    tail = np.sort(off, axis=1)[np.arange(len(off)), np.floor(TAIL * (count - 1)).astype(int)]
    square = np.minimum(np.where(mask, off, 0), BEYOND * np.maximum(tail, 1)[:, None]) ** 2 * scale**2
    freedom = np.maximum(count - needed, 0)
    beyond = square.sum(1) / np.maximum(freedom, 1) - (error**2 * mask).sum(1) / count
    usual = USUAL_SPREAD**2 + ASTRAY_M**2 * (fit.solution[:, :2] ** 2).sum(1)
    variance = (freedom * np.maximum(beyond, 0) + COUNTS * usual) / (freedom + COUNTS)
    return np.asarray(np.sqrt(variance) * stdtrit(freedom + COUNTS, 0.95) / ndtri(0.95), float)


def _totals(
    scatterers: Scatterers, row: NDArray[np.intp], mask: NDArray[np.bool_], solver: Float, variance: Float
) -> tuple[Float, Float]:
    """Return how far each motion (b, J) went, and its variance.

    Args:
        solver: (b, J, P) from values of scatterers to motions. variance: (b, J) of a motion along the line.
    """
    line, unlike = _expected()
    course, root = scatterers.course[row].astype(float), scatterers.course_root[row].astype(float)
    bent = np.isfinite(course).all((1, 2))
    total, error_2 = (solver @ scatterers.change[row][..., None])[..., 0], variance.copy()
    if not bent.any():
        return total, error_2
    root = root[bent] / np.linalg.norm(root[bent] @ line, axis=-1)[..., None, None] * mask[bent][..., None, None]
    root = root.reshape(len(root), -1, len(line))
    # All errors as those of the line: the noise of one track on one building is of one kind.
    shape = np.linalg.inv(root.transpose(0, 2, 1) @ root / mask[bent].sum(1)[:, None, None])
    noise = variance[bent][..., None, None] * shape[:, None]
    seen = solver[bent] @ course[bent]
    size, bend = seen[..., 0] / line[0], np.ones((len(seen), 1))
    for _ in range(ROUNDS):
        by_course = (bend * size**2)[..., None, None] * unlike
        inverse = np.linalg.inv(noise + by_course)
        precision = inverse @ line @ line
        size = (inverse @ line * seen).sum(-1) / precision
        left = (inverse @ (seen - size[..., None] * line)[..., None])[..., 0]
        # Expected square of the deviation, in units of what is possible.
        square = bend * (left * (by_course @ left[..., None])[..., 0]).sum(-1)
        square += bend * (len(line) - (inverse * by_course).sum((-1, -2)))
        bend = ((KNOWN + square.sum(1)) / (KNOWN + square.shape[1] * len(line)))[:, None]
    by_one, by_one_2 = _by_one_course(seen, noise, total[bent] ** 2 + variance[bent])
    total[bent] = (size + by_one) / 2
    error_2[bent] = (1 / precision + by_one_2) / 2 + (size - by_one) ** 2 / 4
    return total, error_2


def _by_one_course(seen: Float, noise: Float, likely_2: Float) -> tuple[Float, Float]:
    """Return how far motions (b, J) went if each follows one of the possible courses, and the variance.

    Args:
        seen: (b, J, K) coordinates of the motions. noise: (b, J, K, K) their covariance.
        likely_2: (b, J) square of how far a motion may have gone, mm2.
    """
    courses = possible()
    course = shape_coordinates(TIME, courses.course)
    precision = np.linalg.inv(noise)
    weighted = precision @ course.T
    known, along = (course.T * weighted).sum(-2), (seen[..., None, :] @ weighted)[..., 0, :]
    before_2 = WIDER * likely_2[..., None]
    shrunk_2 = before_2 / (1 + before_2 * known)
    square = (seen * (precision @ seen[..., None])[..., 0]).sum(-1)[..., None]
    unlike = square - shrunk_2 * along**2
    # Where no course fits, the noise is larger than it says.
    larger = np.maximum(unlike.min(-1, keepdims=True) / (course.shape[1] - 1), 1)
    fits = shrunk_2 * along**2 - np.log1p(before_2 * known)
    probable, size = softmax(fits / 2 / larger + courses.log_prior, -1), shrunk_2 * along
    mean = (probable * size).sum(-1)
    return mean, (probable * (shrunk_2 * larger + (size - mean[..., None]) ** 2)).sum(-1)


@lru_cache(maxsize=1)
def _expected() -> tuple[Float, Float]:
    """Return the line (K,) and the covariance (K, K) of possible courses about it, for a total change of 1 mm."""
    courses, line = possible(), dictionary_courses()[LINE]
    apart = shape_coordinates(TIME, courses.course) - line
    likely = np.exp(courses.log_prior)
    return line, (likely[:, None] * apart).T @ apart / likely.sum()


def _with_positions(tilt: Float, covariance: Float, spread: Float, weight: Float) -> tuple[Float, Float]:
    """Return tilts (b, 2) and their covariances with what wrong positions do: they make every tilt look smaller.

    By how much lies between nothing and what it would be if they made all of the spread (Frisch 1934); the middle is
    taken, and half of the range is an error.

    Args:
        spread: (b,) mm. weight: (b,) sum of the scatterers' weights, 1/mm2.
    """
    square = np.maximum((tilt**2).sum(1), 1e-12)
    astray = np.minimum(spread**2 / square, ASTRAY_M**2)
    along = np.einsum("bi,bij,bj->b", tilt, covariance, tilt) / square
    half = np.minimum(astray * weight * along, 0.5) / 2
    lost = half[:, None] * tilt
    return tilt + lost, covariance + lost[:, :, None] * lost[:, None, :]
