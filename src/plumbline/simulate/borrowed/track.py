"""Reuse points and residual noise of a real product.

A robust fit of an offset, a broken line and a yearly term takes the motion out of a
history: of the region, of the building, of its heat, and of any damage it really has. It
takes the slowest part of the noise too, the very part that makes a trend uncertain. That
part is drawn again: the noise is taken as in part first-order autoregressive and in part
with a long memory, with the deviation of each point, and a law in time and a share common
to a building that hold for the track; all are measured on the residuals, whose moments the
fit changes in a known way.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.core.arrays import Array, Index
from plumbline.simulate.radar.acquisition import BANDS
from plumbline.simulate.radar.egms_writer import EgmsPoints, EgmsProduct, egms_rows
from plumbline.simulate.radar.noise import Law
from plumbline.simulate.radar.scatterers import (
    ASTRAY,
    ASTRAY_SHARE,
    GROUND,
    STRUCTURE,
    SimulatedScatterers,
    position_errors,
)
from plumbline.simulate.radar.series import (
    Reference,
    background,
    courses,
    draw_reference,
    true_motion,
)
from plumbline.simulate.structure.labels import PointEvidence, gather_evidence, point_precision
from plumbline.simulate.structure.layout import CityLayout
from plumbline.simulate.structure.motion import Motion
from plumbline.sources.points.epochs import DAYS_A_YEAR
from plumbline.sources.points.track import Track

KNOT_YEARS = 0.75
EPOCHS_A_TERM = 6
"""Fewest epochs for each term of the fit."""
LEAST_EPOCHS = 3 * EPOCHS_A_TERM
ROUNDS = 4
HUBER, WINSOR = 2.0, 3.0
"""Bounds in robust standard deviations: beyond the first, values count less in the fit; at the
second they are cut off for the moments."""
RHOS, LONGS = np.linspace(0, 0.95, 39), np.linspace(0, 0.8, 9)
"""Correlations of the short memory and shares of the long one that are tried."""
LAGS = (1, 2, 3, 5, 8, 13)
"""Lags in epochs at which residuals are compared with those that each law would leave."""
LONG_EXPONENT, LONG_STEPS = 1.5, 60.0
"""Exponent and memory of noise with a long memory, see `noise.Law`: between flicker noise and a
random walk, for some 60 usual steps."""
LITTLE, MUCH = 0.008, 0.02
"""Root mean square misfits of correlations: the largest difference between equally good laws, and
the smallest misfit that no noise has."""
LEAST_SIGMA_MM = 0.05


class TrackNoise(NamedTuple):
    """Law of the noise of a track, besides each point's deviation."""

    rho: float
    """Correlation of the part with a short memory, over one usual step between epochs."""
    long: float
    """Share of the variance with a long memory."""
    common: float
    """Share of the variance that is common to the points of a building."""
    kept: float
    """Share of the variance that the fit leaves."""


class Smooth:
    """Smooth motions over the epochs of one track, and the effect of fitting them on noise."""

    def __init__(self, years: Array) -> None:
        """`years` (T,) are the times of the epochs, ascending, at least `LEAST_EPOCHS` of them."""
        self.design = smooth_design(years)
        steps = np.diff(years)
        self._lag = np.abs(years[:, None] - years[None, :]) / max(float(np.median(steps)), 1e-6)
        self._long = long_correlation(self._lag)
        self._line = np.linalg.pinv(
            np.stack([np.ones_like(years), (years - years[0]) / np.ptp(years)], axis=1)
        )[1]
        self._back = np.linalg.pinv(self.design)
        # Residuals are M y with M = I - X X^+; noise of covariance C leaves the covariance M C M.
        maker = np.eye(len(years)) - self.design @ self._back
        self._short_moments = np.array(
            [_moments(maker @ self.correlation(rho, 0.0) @ maker) for rho in RHOS]
        )
        self._long_moments = _moments(maker @ self._long @ maker)

    def correlation(self, rho: float, long: float) -> Array:
        """Return the correlation (T, T) of noise at the epochs, even or not; `rho`, `long`:
        see `TrackNoise`."""
        short = rho**self._lag if rho else np.eye(len(self._lag))
        return np.asarray((1 - long) * short + long * self._long, float)

    def line_variance(self, law: TrackNoise) -> float:
        """Return the variance of a straight line's change over the observation, relative to
        that of one epoch."""
        return float(self._line @ self.correlation(law.rho, law.long) @ self._line)

    def residual(self, displacement: Array) -> Array:
        """Return the residuals (N, T), mm, of the robust fit to histories (N, T); NaN stays NaN."""
        is_observed = np.isfinite(displacement)
        values = np.where(is_observed, displacement, 0.0)
        weight = is_observed.astype(float)
        terms = self.design.shape[1]
        products = (self.design[:, :, None] * self.design[:, None, :]).reshape(len(self.design), -1)
        for _ in range(ROUNDS):
            normal = (weight @ products).reshape(-1, terms, terms) + 1e-6 * np.eye(terms)
            solution = np.linalg.solve(normal, ((weight * values) @ self.design)[..., None])[..., 0]
            residuals = values - solution @ self.design.T
            scale = robust_scale(np.where(is_observed, residuals, np.nan))[:, None]
            weight = is_observed * np.minimum(
                1, HUBER * scale / np.maximum(np.abs(residuals), 1e-9)
            )
        return np.where(is_observed, residuals, np.nan)

    def law(self, residual: Array, building: NDArray[np.intp]) -> TrackNoise:
        """Estimate the law of the noise from residuals (N, T) of points on buildings (N,);
        -1: on no building."""
        cut = winsorised(residual)
        single = max(_mean(cut**2), 1e-12)
        measured = np.array([_mean(cut[:, lag:] * cut[:, :-lag]) for lag in self._lags]) / single
        long = LONGS[:, None, None]
        moments = (1 - long) * self._short_moments + long * self._long_moments
        misfit = np.sqrt(((moments[..., 1:] / moments[..., :1] - measured) ** 2).mean(axis=-1))
        # Two memories always explain a little more than one. What neither explains is motion.
        is_long_needed = misfit[0].min() > misfit.min() + LITTLE and misfit.min() < MUCH
        share, rho = (
            np.unravel_index(int(misfit.argmin()), misfit.shape)
            if is_long_needed
            else (0, misfit[0].argmin())
        )
        return TrackNoise(
            float(RHOS[rho]),
            float(LONGS[share]),
            _common_share(cut, building),
            float(moments[share, rho, 0]),
        )

    @property
    def _lags(self) -> tuple[int, ...]:
        return _lags(len(self.design))

    def sigma(self, residual: Array, law: TrackNoise) -> Array:
        """Return the standard deviation (N,) of the noise behind residuals (N, T), mm."""
        return np.asarray(
            np.maximum(np.sqrt(_power(winsorised(residual)) / law.kept), LEAST_SIGMA_MM), float
        )

    def lost(self, rng: np.random.Generator, sigma: Array, shared: Array, law: TrackNoise) -> Array:
        """Draw the part (N, T) of the noise that the fit absorbs, mm.

        Args:
            rng: the generator to draw from.
            sigma: (N,) standard deviation of each point's noise, mm.
            shared: (N, P) standard normal; the same for the points of one building. P is
                the number of terms.
            law: of the track.
        """
        covariance = self._back @ self.correlation(law.rho, law.long) @ self._back.T
        root = np.linalg.cholesky(
            covariance + 1e-9 * np.trace(covariance) * np.eye(len(covariance))
        )
        draw = np.sqrt(law.common) * shared + np.sqrt(1 - law.common) * rng.standard_normal(
            shared.shape
        )
        return np.asarray(sigma[:, None] * (draw @ root.T @ self.design.T), float)


def long_correlation(lag: Array) -> Array:
    """Return the correlation of noise with a long memory at lags (...), in usual steps."""
    max_lag = int(np.ceil(lag.max(initial=1))) + 1
    # The response to an impulse is zero after twelve memories.
    response = Law(0.0, LONG_EXPONENT, LONG_STEPS).response(max_lag + 12 * int(LONG_STEPS))
    along = np.correlate(response, response, "full")[len(response) - 1 :][: max_lag + 1]
    return np.asarray(np.interp(lag, np.arange(max_lag + 1), along / along[0]), float)


def _moments(covariance: Array) -> Array:
    """Return (1 + K,) the mean variance, and the mean covariance at each of `LAGS` with
    enough epochs."""
    count = len(covariance)
    return np.array([np.trace(covariance, lag) / (count - lag) for lag in (0, *_lags(count))])


def _lags(epochs: int) -> tuple[int, ...]:
    return tuple(lag for lag in LAGS if lag <= epochs // 3)


def smooth_design(years: Array) -> Array:
    """Return a design (T, P): a broken line, knots about every `KNOT_YEARS`, and from one
    year on a yearly term."""
    time, length = years - years[0], float(years[-1] - years[0])
    yearly = [np.cos(2 * np.pi * time), np.sin(2 * np.pi * time)] if length >= 1 else []
    max_pieces = len(years) // EPOCHS_A_TERM - 1 - len(yearly)
    pieces = int(np.clip(round(length / KNOT_YEARS), 1, max(max_pieces, 1)))
    knots = np.linspace(0, length, pieces + 1)
    tents = [np.interp(time, knots, row) for row in np.eye(pieces + 1)]
    return np.stack([*tents, *yearly], axis=1)


def robust_scale(residual: Array) -> Array:
    """Return the standard deviation (N,) of the bulk of each row, from the median of its
    absolute values."""
    is_observed = np.isfinite(residual)
    # Missing values sort last, so that a row's median is in the middle of the others; 0 for a
    # row without any.
    ordered = np.sort(np.where(is_observed, np.abs(residual), np.inf), axis=1)
    middle = np.maximum(is_observed.sum(axis=1) - 1, 0) // 2
    median = np.take_along_axis(ordered, middle[:, None], axis=1)[:, 0]
    # 1.4826 = 1 / Phi^-1(3/4): standard deviation over median absolute deviation, if normal.
    return np.asarray(
        np.maximum(1.4826 * np.where(is_observed.any(axis=1), median, 0), 1e-6), float
    )


def winsorised(residual: Array) -> Array:
    """Clip residuals (N, T) at `WINSOR` robust deviations, so that bad epochs do not affect
    the law."""
    limit = WINSOR * robust_scale(residual)[:, None]
    return np.clip(residual, -limit, limit)


def _mean(values: Array) -> float:
    """Return the mean of the finite values; 0 without any."""
    is_observed = np.isfinite(values)
    return float(values[is_observed].sum() / max(int(is_observed.sum()), 1))


def _power(residual: Array) -> Array:
    """Return the mean square (N,) of each row; 0 for a row without values."""
    is_observed = np.isfinite(residual)
    total = (np.where(is_observed, residual, 0) ** 2).sum(axis=1)
    return np.asarray(total / np.maximum(is_observed.sum(axis=1), 1), float)


def _common_share(residual: Array, building: NDArray[np.intp]) -> float:
    """Return the mean correlation of two points of one building, at least 0."""
    rows = building >= 0
    unit = np.nan_to_num(residual[rows] / np.sqrt(_power(residual[rows])[:, None] + 1e-12))
    buildings, index = np.unique(building[rows], return_inverse=True)
    total = np.zeros((len(buildings), residual.shape[1]))
    np.add.at(total, index, unit)
    count = np.bincount(index, minlength=len(buildings))
    # Products of all pairs of different points, out of the square of their sum.
    pairs = (count * (count - 1)).sum() * residual.shape[1]
    return float(np.clip(((total**2).sum() - (unit**2).sum()) / pairs, 0, 0.99)) if pairs else 0.0


ROWS = 4096
"""Number of points of which histories are made at a time."""
MARGIN_M = 1000.0
"""Width of the margin beyond the buildings that keeps lines and pixels of points positive."""
SAMPLE = 20_000
"""Number of points on which the law of the noise is measured."""


@dataclass(frozen=True)
class Setting:
    """Data that all products and copies of a city share."""

    layout: CityLayout
    """Buildings, in m from `origin`."""
    origin: Array
    """(2,) in the products' CRS, m."""
    target_origin: Array
    """(2,) place of the origin in EPSG:3035, m."""
    start: np.datetime64
    """First day of the observation."""
    length_days: float
    band: str
    buffer_m: float
    """A point so far outside of a footprint still belongs to it, m."""


@dataclass(frozen=True)
class Copy:
    """One draw of damage."""

    folder: Path
    rng: np.random.Generator
    motion: Motion
    velocity: Array
    """(3,) of the region, mm a year."""
    sign: Array
    """(B,) 1 or -1: noise is as likely the other way round, so that copies do not share one."""


@dataclass(frozen=True)
class _View:
    """A product over the buildings; N points."""

    points: Track
    days: Array
    """(T,) from the start of the observation."""
    east_north: Array
    """(N, 2) place by the product, from the origin."""
    building: Index
    """(N,) the nearest one."""
    is_on_building: NDArray[np.bool_]
    """(N,) whether the point belongs to it."""
    above: Array
    """(N,) height over the lowest point of its building, m; 0 for points on none."""
    smooth: Smooth
    law: TrackNoise


@dataclass(frozen=True)
class _Draw:
    """Random numbers that a copy draws once for all points of a product."""

    kind: Index
    true_place: Array
    """(N, 2)"""
    reference: Reference
    shared: Array
    """(B, P) what the points of a building have in common of the noise that is drawn again."""


def write_track(
    points: Track, file_name: str, number: int, setting: Setting, copies: list[Copy]
) -> PointEvidence:
    """Write product `number` into the folder of each copy.

    Returns:
        Evidence of each building's change from its points; position errors are of the first copy.
    """
    view = _make_view(points, setting)
    product = EgmsProduct(file_name, points.epochs, BANDS[setting.band].wavelength_mm)
    precision = np.zeros(len(points))
    with ExitStack() as stack:
        streams = [stack.enter_context((copy.folder / file_name).open("wb")) for copy in copies]
        drawn = [_draw_once(copy, view, setting) for copy in copies]
        for stream in streams:
            stream.write(product.header)
        for first in range(0, len(points), ROWS):
            rows = np.arange(first, min(first + ROWS, len(points)))
            residual = view.smooth.residual(points.displacement[rows].astype(float))
            sigma = view.smooth.sigma(residual, view.law)
            # Noise that all points of a building share neither shows its damage nor hides it.
            alone_mm = sigma * np.sqrt(1 - view.law.common)
            precision[rows] = point_precision(
                alone_mm, points.los[rows, 2], view.smooth.line_variance(view.law)
            )
            delivered = _deliver_points(view, rows, number, setting)
            for copy, draw, stream in zip(copies, drawn, streams, strict=True):
                series = _draw_series(view, rows, sigma, setting=setting, copy=copy, draw=draw)
                series += copy.sign[view.building[rows], None] * residual
                stream.write(egms_rows(copy.rng, product, delivered, series))
    error = (drawn[0].true_place - view.east_north)[view.is_on_building]
    return gather_evidence(
        view.building[view.is_on_building],
        precision[view.is_on_building],
        error,
        len(setting.layout.height),
    )


def _make_view(points: Track, setting: Setting) -> _View:
    days = (points.epochs - setting.start).astype(int).astype(float)
    smooth = Smooth((days - days[0]) / DAYS_A_YEAR)
    east_north = np.stack([points.easting, points.northing], axis=1) - setting.origin
    building, is_on_building = nearest_building(east_north, setting.layout, setting.buffer_m)
    sample = np.unique(np.linspace(0, len(points) - 1, min(SAMPLE, len(points))).astype(np.intp))
    if len(points) > SAMPLE and is_on_building.any():  # whole stretches, for noise of neighbours
        sample = np.flatnonzero(is_on_building)[:SAMPLE]
    law = smooth.law(
        smooth.residual(points.displacement[sample].astype(float)),
        np.where(is_on_building, building, -1)[sample],
    )
    height = np.nan_to_num(np.asarray(points.height, float))
    lowest = np.full(len(setting.layout.height), np.inf)
    np.minimum.at(lowest, building[is_on_building], height[is_on_building])
    above = np.where(is_on_building, height - np.where(is_on_building, lowest[building], 0), 0)
    return _View(points, days, east_north, building, is_on_building, above, smooth, law)


def _draw_once(copy: Copy, view: _View, setting: Setting) -> _Draw:
    layout, rng, count = setting.layout, copy.rng, len(view.is_on_building)
    astray = rng.random(count) < ASTRAY_SHARE
    kind = np.select([~view.is_on_building, astray], [GROUND, ASTRAY], default=STRUCTURE)
    los = view.points.los
    # Heights are delivered as they are: nothing rises with an error of position.
    track, rise = np.zeros(count, np.intp), np.zeros(count)
    error = position_errors(
        rng,
        building=view.building,
        track=track,
        axes=_axes(los),
        rise=rise,
        band=BANDS[setting.band],
    )[:, :2]
    place = view.east_north - view.is_on_building[:, None] * error
    # Whatever the error was, a point of a building is on it.
    local, half = (
        layout.frames.to_building(view.building, place),
        layout.frames.side[view.building] / 2,
    )
    clipped = np.clip(local, -half, half)
    cos, sin = (
        np.cos(layout.frames.angle[view.building]),
        np.sin(layout.frames.angle[view.building]),
    )
    east, north = (
        clipped[:, 0] * cos - clipped[:, 1] * sin,
        clipped[:, 0] * sin + clipped[:, 1] * cos,
    )
    inside = layout.frames.centre[view.building] + np.stack([east, north], axis=1)
    return _Draw(
        kind=kind,
        true_place=np.where(view.is_on_building[:, None], inside, view.east_north),
        reference=draw_reference(rng),
        shared=rng.standard_normal((len(layout.height), view.smooth.design.shape[1])),
    )


def _draw_series(
    view: _View, rows: Index, sigma: Array, *, setting: Setting, copy: Copy, draw: _Draw
) -> Array:
    """Return the histories of points `rows`, mm, less their own residuals."""
    los, building = view.points.los[rows], view.building[rows]
    scatterers = SimulatedScatterers(
        building,
        draw.kind[rows],
        np.zeros(len(rows), np.intp),
        draw.true_place[rows],
        view.above[rows],
        sigma,
    )
    start_day = float((setting.start - setting.start.astype("datetime64[Y]")).astype(int))
    course = courses(copy.motion, np.unique(building), view.days, start_day, setting.length_days)
    series = true_motion(copy.motion, setting.layout, scatterers, los, course)
    series += background(
        copy.rng,
        copy.velocity,
        scatterers,
        los,
        years=view.days / DAYS_A_YEAR,
        reference=draw.reference,
    )
    return series + view.smooth.lost(copy.rng, sigma, draw.shared[building], view.law)


def _axes(los: Array) -> Array:
    """Return horizontal unit vectors (N, 2, 2) of lines of sight (N, 3): ground range from
    the satellite, azimuth."""
    flat = np.hypot(los[:, 0], los[:, 1])
    # Straight up, as in a product of vertical motion: no direction is the range's.
    steep = flat < 1e-6
    away = np.where(steep[:, None], (1.0, 0.0), -los[:, :2] / np.where(steep, 1, flat)[:, None])
    return np.stack([away, np.stack([-away[:, 1], away[:, 0]], axis=1)], axis=1)


def _deliver_points(view: _View, rows: Index, number: int, setting: Setting) -> EgmsPoints:
    los, place = view.points.los[rows], view.east_north[rows]
    in_range, in_azimuth = np.einsum("nkc,nc->kn", _axes(los), place)
    azimuth_m, slant_m = BANDS[setting.band].pixel_m
    incidence = np.degrees(np.arccos(np.clip(los[:, 2], -1, 1)))
    offset_m = setting.layout.extent + MARGIN_M
    return EgmsPoints(
        number=rows.astype(np.int64) + 1 + (number + 1) * 62**6,
        position=place + setting.target_origin,
        height=np.nan_to_num(np.asarray(view.points.height[rows], float)),
        los=los,
        incidence=incidence,
        track_angle=np.degrees(np.arctan2(los[:, 1], -los[:, 0])),
        line=np.floor((in_azimuth + offset_m) / azimuth_m),
        pixel=np.floor((in_range + offset_m) * np.sin(np.radians(incidence)) / slant_m),
    )


def nearest_building(
    east_north: Array, layout: CityLayout, buffer_m: float
) -> tuple[Index, NDArray[np.bool_]]:
    """Return the nearest building of each point (N, 2), and whether it is at most `buffer_m`
    away."""
    (point, building), distance = shapely.STRtree(layout.polygon).query_nearest(
        shapely.points(east_north), return_distance=True, all_matches=True
    )
    order = np.lexsort((building, point))  # of equally near ones, the first counts
    first = order[np.flatnonzero(np.diff(point[order], prepend=-1))]
    return np.asarray(building[first], np.intp), distance[first] <= buffer_m
