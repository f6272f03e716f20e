"""Draw movements with edges a few metres wide: faults, embankments, creeping slopes.

Forms are as in `subsidence`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from scipy.special import erfc, ndtr

from benchmarks.makers.fields.lines import Line, draw_line
from benchmarks.makers.fields.settings import PEAK_MM, Array, draw_place, log_uniform
from benchmarks.makers.fields.subsidence import Drawn

SCARP_M, DECAY_M, DIP_DEG = (1.0, 4.0), (120.0, 600.0), (50.0, 80.0)
"""Standard width of the step, decay behind it, and dip of a fault."""
CROWN_M, LAYER_M, SPREADING = (6.0, 18.0), (2.0, 7.0), (0.08, 0.3)
"""Half width of an embankment, depth of the soft layer, and sideways movement at the toe by settlement."""
SLIDE_M, MARGIN_M, SLOPE_DEG = (60.0, 260.0), (3.0, 25.0), (6.0, 30.0)
"""Half axes, width of the sheared margin, and dip of the slip surface."""


@dataclass(frozen=True)
class Fault:
    """A normal fault: the hanging wall goes down the plane's dip as a block and bends back behind the scarp.

    The horizontal part is the throw by the tangent of the dip (Jackson and McKenzie 1983); the bending is exponential,
    as a beam on an elastic bed has it (Turcotte and Schubert 2002, chapter 3). Along the fault the throw is a parabola,
    0 at both ends (Walsh and Watterson 1987).
    """

    line: Line
    scarp: float
    decay: float
    dip: float
    """rad"""
    peak: float
    """mm"""

    def __call__(self, place: Array) -> Array:
        """Return movements (N, 3), mm."""
        x, y, across, _ = self.line.beside(place)
        throw = self.peak * ndtr(x / self.scarp) * np.exp(-np.maximum(x, 0) / self.decay)
        throw *= np.maximum(1 - (2 * y / self.line.length) ** 2, 0)
        return np.column_stack([(throw / np.tan(self.dip))[:, None] * across, -throw])


@dataclass(frozen=True)
class Embankment:
    """A strip load on a soft layer, whose settlement goes with the vertical stress in the layer.

    Stress under a strip: Boussinesq, in the form of Poulos and Davis (1974, section 3.2). Sideways movement grows to
    the toe and dies out behind it, a share of the settlement (Tavenas, Mieussens and Bourges 1979).
    """

    line: Line
    half_width: float
    """b, m."""
    depth: float
    """Of the layer, m."""
    spreading: float
    peak: float
    """mm"""

    def stress(self, x: Array) -> Array:
        """Return the vertical stress in the layer by the load, at distances `x` (N,) from the middle, m."""
        first = np.arctan((x + self.half_width) / self.depth)
        second = np.arctan((x - self.half_width) / self.depth)
        alpha = first - second
        return np.asarray((alpha + np.sin(alpha) * np.cos(first + second)) / np.pi)

    def __call__(self, place: Array) -> Array:
        """Return movements (N, 3), mm."""
        x, y, across, _ = self.line.beside(place)
        within = self.line.within(y, self.depth)
        sinks = self.peak * self.stress(x) / self.stress(np.zeros(1)) * within
        way = x / self.half_width
        outwards = self.spreading * self.peak * way * np.exp((1 - way**2) / 2) * within
        return np.column_stack([outwards[:, None] * across, -sinks])


@dataclass(frozen=True)
class Slide:
    """A creeping slope: a block on a plane slip surface (Skempton and DeLory 1957) with sheared margins."""

    centre: Array
    half: Array
    """(2,) along the dip and across it, m."""
    towards: float
    """Direction of the movement, rad counter-clockwise from east."""
    dip: float
    """rad"""
    margin: float
    """m"""
    peak: float
    """mm along the slip surface."""

    def __call__(self, place: Array) -> Array:
        """Return movements (N, 3), mm."""
        down = np.array([np.cos(self.towards), np.sin(self.towards)])
        away = place - self.centre
        own = np.column_stack([away @ down, away @ np.array([-down[1], down[0]])]) / self.half
        beyond = (np.hypot(*own.T) - 1) * self.half.min()
        moved = self.peak * erfc(beyond / self.margin) / 2
        return np.column_stack([np.cos(self.dip) * moved[:, None] * down, -np.sin(self.dip) * moved])


def draw_fault(generator: Generator) -> Drawn:
    """Draw a fault, straight or slightly bent."""
    line = draw_line(generator, curved=bool(generator.random() < 0.3), length=(300.0, 1200.0))
    form = Fault(
        line,
        log_uniform(generator, SCARP_M),
        generator.uniform(*DECAY_M),
        np.radians(generator.uniform(*DIP_DEG)),
        log_uniform(generator, PEAK_MM),
    )
    about = {"scarp_m": form.scarp, "decay_m": form.decay, "dip_deg": np.degrees(form.dip), "peak_mm": form.peak}
    return form, about | line.about()


def draw_embankment(generator: Generator) -> Drawn:
    """Draw an embankment, straight or in a curve."""
    line = draw_line(generator, curved=bool(generator.random() < 0.5))
    form = Embankment(
        line,
        generator.uniform(*CROWN_M),
        generator.uniform(*LAYER_M),
        generator.uniform(*SPREADING),
        log_uniform(generator, PEAK_MM),
    )
    about = {"half_width_m": form.half_width, "layer_m": form.depth, "spreading": form.spreading, "peak_mm": form.peak}
    return form, about | line.about()


def draw_slide(generator: Generator) -> Drawn:
    """Draw a creeping slope."""
    form = Slide(
        draw_place(generator),
        generator.uniform(*SLIDE_M, 2),
        generator.uniform(0, 2 * np.pi),
        np.radians(generator.uniform(*SLOPE_DEG)),
        log_uniform(generator, MARGIN_M),
        log_uniform(generator, PEAK_MM),
    )
    about = {"half_m": form.half.tolist(), "towards_deg": np.degrees(form.towards), "dip_deg": np.degrees(form.dip)}
    return form, about | {"centre_m": form.centre.tolist(), "margin_m": form.margin, "peak_mm": form.peak}
