"""Draw ground that sinks, or rises: troughs of tunnels, sinkholes, pressure sources and mining basins.

A form takes places (N, 2), m from the scene's south-west corner, and returns movements (N, 3) east, north and up, mm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from scipy.special import erf

from benchmarks.makers.fields.lines import Line, draw_line
from benchmarks.makers.fields.settings import PEAK_MM, Array, draw_place, log_uniform

Form = Callable[[Array], Array]
Drawn = tuple[Form, dict[str, object]]
"""A form, and what it is made of."""
HEAVE = 0.2
"""Share of pressure sources and basins that rise: gas storage, recovering groundwater in closed mines."""
DIAMETER_M, LOSS, DEPTH_M, WIDTH_K = (4.0, 12.0), (0.005, 0.03), (12.0, 60.0), (0.25, 0.5)
SINKHOLE_M, PULL = (12.0, 60.0), (0.25, 0.6)
"""Width i; and B/i of the sideways movement B grad S."""
SOURCE_M = (40.0, 220.0)
PANEL_M, OVERBURDEN_M, TAN_BETA = (40.0, 250.0), (100.0, 400.0), (1.5, 2.5)


@dataclass(frozen=True)
class Trough:
    """A bored tunnel's trough, which ends where the tunnel does.

    Across: Peck (1969), with the sideways movement of O'Reilly and New (1982). Along: Attewell and Woodman (1982).
    """

    line: Line
    depth: float
    """z0, m."""
    width: float
    """i, m."""
    largest: float
    """Smax, mm."""

    def __call__(self, place: Array) -> Array:
        """Return movements (N, 3), mm."""
        x, y, across, along = self.line.beside(place)
        profile = self.largest * np.exp(-(x**2) / (2 * self.width**2))
        sinks = profile * self.line.within(y, self.width)
        ends = [np.exp(-((y + sign * self.line.length / 2) ** 2) / (2 * self.width**2)) for sign in (1, -1)]
        forward = profile * self.width / (np.sqrt(2 * np.pi) * self.depth) * (ends[0] - ends[1])
        flat = (-x / self.depth * sinks)[:, None] * across + forward[:, None] * along
        return np.column_stack([flat, -sinks])


@dataclass(frozen=True)
class Sinkhole:
    """A bowl of Gaussian section, with sideways movement along its slope (Awershin 1947, as in Kratzsch 1983)."""

    centre: Array
    width: float
    """i, m."""
    peak: float
    """mm"""
    pull: float

    def __call__(self, place: Array) -> Array:
        """Return movements (N, 3), mm."""
        away = place - self.centre
        sinks = self.peak * np.exp(-(away**2).sum(1) / (2 * self.width**2))
        return np.column_stack([-self.pull / self.width * sinks[:, None] * away, -sinks])


@dataclass(frozen=True)
class PressureSource:
    """A point of changing pressure or volume at depth (Mogi 1958)."""

    centre: Array
    depth: float
    """m"""
    peak: float
    """mm up; negative where the source shrinks."""

    def __call__(self, place: Array) -> Array:
        """Return movements (N, 3), mm."""
        away = place - self.centre
        up = self.peak * (1 + (away**2).sum(1) / self.depth**2) ** -1.5
        return np.column_stack([up[:, None] * away / self.depth, up])


@dataclass(frozen=True)
class Basin:
    """The basin over a rectangular panel (Knothe 1957), with sideways movement B grad S, B = R / sqrt(2 pi)."""

    centre: Array
    half: Array
    """(2,) of the panel's sides, m."""
    angle: float
    """rad"""
    radius: float
    """R, m: overburden by tan beta."""
    peak: float
    """mm at the centre; negative where it rises."""

    def __call__(self, place: Array) -> Array:
        """Return movements (N, 3), mm."""
        cos, sin = np.cos(self.angle), np.sin(self.angle)
        turn = np.array([[cos, -sin], [sin, cos]])
        own = (place - self.centre) @ turn
        root = np.sqrt(np.pi) / self.radius
        profile = (erf(root * (own + self.half)) - erf(root * (own - self.half))) / 2
        bells = [np.exp(-((root * (own + sign * self.half)) ** 2)) for sign in (1, -1)]
        slope = (bells[0] - bells[1]) / self.radius
        scale = self.peak / np.prod(erf(root * self.half))
        gradient = scale * slope * profile[:, ::-1]
        flat = self.radius / np.sqrt(2 * np.pi) * gradient @ turn.T
        return np.column_stack([flat, -scale * profile.prod(1)])


def largest_settlement(loss: float, diameter: float, width: float) -> float:
    """Return Smax, mm, of a tunnel by volume loss, diameter and trough width i, m."""
    return 313.0 * loss * diameter**2 / width


def draw_trough(generator: Generator, curved: bool = False) -> Drawn:
    """Draw a tunnel of possible size whose trough is within the range of peaks."""
    while True:
        diameter, depth = generator.uniform(*DIAMETER_M), log_uniform(generator, DEPTH_M)
        loss, width = generator.uniform(*LOSS), generator.uniform(*WIDTH_K) * depth
        largest = largest_settlement(loss, diameter, width)
        if depth >= 1.3 * diameter and PEAK_MM[0] <= largest <= PEAK_MM[1]:
            break
    form = Trough(draw_line(generator, curved), depth, width, largest)
    about = {"depth_m": depth, "width_i_m": width, "diameter_m": diameter, "volume_loss": loss, "peak_mm": largest}
    return form, about | form.line.about()


def draw_curved_trough(generator: Generator) -> Drawn:
    """Draw a tunnel along an arc."""
    return draw_trough(generator, curved=True)


def draw_sinkhole(generator: Generator) -> Drawn:
    """Draw a bowl that sinks."""
    form = Sinkhole(
        draw_place(generator),
        log_uniform(generator, SINKHOLE_M),
        log_uniform(generator, PEAK_MM),
        generator.uniform(*PULL),
    )
    return form, {"centre_m": form.centre.tolist(), "width_m": form.width, "peak_mm": form.peak, "pull": form.pull}


def draw_source(generator: Generator) -> Drawn:
    """Draw a source that shrinks or grows."""
    sign = 1 if generator.random() < HEAVE else -1
    peak = sign * log_uniform(generator, PEAK_MM)
    form = PressureSource(draw_place(generator), log_uniform(generator, SOURCE_M), peak)
    return form, {"centre_m": form.centre.tolist(), "depth_m": form.depth, "peak_mm": form.peak}


def draw_basin(generator: Generator) -> Drawn:
    """Draw a panel."""
    radius = generator.uniform(*OVERBURDEN_M) / generator.uniform(*TAN_BETA)
    half, angle = generator.uniform(*PANEL_M, 2), generator.uniform(0, np.pi)
    sign = -1 if generator.random() < HEAVE else 1
    form = Basin(draw_place(generator), half, angle, radius, sign * log_uniform(generator, PEAK_MM))
    about = {"half_m": half.tolist(), "angle_deg": float(np.degrees(angle)), "radius_m": radius, "peak_mm": form.peak}
    return form, {"centre_m": form.centre.tolist(), **about}
