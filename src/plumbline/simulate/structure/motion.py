"""Move buildings: rigid motion, warmth and courses in time, summed up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.core.arrays import Array
from plumbline.params.simulate import Mechanisms
from plumbline.simulate.random_numbers import log_uniform
from plumbline.simulate.structure.failures import (
    BENDING,
    SECOND_SHARE,
    SEVERAL,
    LocalFailures,
    draw_local_failures,
)
from plumbline.simulate.structure.labels import Strains, strains
from plumbline.simulate.structure.layout import CityLayout, own_outlines
from plumbline.simulate.structure.tunnels import Response, Tunnel, arrival, draw_response
from plumbline.sources.points.epochs import DAYS_A_YEAR

MOST_SETTLEMENT_MM, MOST_TILT_MM_M = 300.0, 25.0
SETTLEMENT_LAW, TILT_LAW = (5.0, 1.5), (0.8, 1.4)
"""Median, in mm and mm/m, and standard deviation of the natural logarithm. Two thirds settle by
less than 10 mm and three quarters lean by less than 2 mm/m; one in 40 settles by more than 100 mm
or leans by more than 12 mm/m. What towns have is rarer still (`draw_rigid_of_town`), but the tail
has to be learned, too."""


@dataclass(frozen=True)
class Rigid:
    """Rigid motion of B buildings about the centre of their footprint."""

    settlement: Array
    """(B,) vertical displacement of the centre, mm, up positive."""
    tilt: Array
    """(B, 2) rise along x and y, mm/m."""

    def field(
        self, index: NDArray[np.intp] | int, x: Array, y: Array, height: Array
    ) -> tuple[Array, Array, Array]:
        """Return vertical, along-x and along-y displacement, mm, at heights in m above the
        foundation.

        A small rotation that lifts the side at +x moves the parts above it towards -x:
        `-tilt * height`.
        """
        tilt_x, tilt_y = self.tilt[index, 0], self.tilt[index, 1]
        return self.settlement[index] + tilt_x * x + tilt_y * y, -tilt_x * height, -tilt_y * height


def draw_rigid(rng: np.random.Generator, count: int) -> Rigid:
    """Draw settlement up to 300 mm and tilt up to 25 mm/m with heavy tails (log-normal); a few
    buildings rise or stay.

    With some mm/m, misplaced points move by more than their noise, and a model has to distinguish
    that from damage.
    """
    median, spread = SETTLEMENT_LAW
    settlement = -np.minimum(median * rng.lognormal(0, spread, count), MOST_SETTLEMENT_MM)
    settlement[rng.random(count) < 0.07] *= -0.2
    settlement[rng.random(count) < 0.1] = 0
    median, spread = TILT_LAW
    size = np.minimum(median * rng.lognormal(0, spread, count), MOST_TILT_MM_M)
    direction = rng.uniform(-np.pi, np.pi, count)
    return Rigid(
        settlement, size[:, None] * np.stack([np.cos(direction), np.sin(direction)], axis=1)
    )


RATE_OF_TOWN_MM_YEAR, TILT_OF_TOWN_MM_M = 0.3, 0.3
"""Scale of the rates of a real town's buildings, and mean of their tilts. Velocities of
EGMS L2b at Ustica (2020 to 2024, two tracks, 23,349 points) have standard deviations of
0.89 and 0.96 mm a year, and of 0.61 and 0.67 by their median absolute deviation: a Laplace
distribution has this ratio. The noise of a simulated track alone gives 0.5 to 0.9 by the
median absolute deviation, and 0.8 to 1.2 with rates and tilts of this size."""


def draw_rigid_of_town(rng: np.random.Generator, count: int, years: float) -> Rigid:
    """Draw the settlement and tilt of `count` buildings over `years` as in a real town:
    nearly all are still."""
    settlement = rng.laplace(0, RATE_OF_TOWN_MM_YEAR * years, count)
    size, direction = rng.exponential(TILT_OF_TOWN_MM_M, count), rng.uniform(-np.pi, np.pi, count)
    return Rigid(
        settlement, size[:, None] * np.stack([np.cos(direction), np.sin(direction)], axis=1)
    )


WARMEST_DAY = 200
"""Day of the year when structures are warmest, about the middle of July."""


@dataclass(frozen=True)
class Thermal:
    """Thermal motion of B buildings."""

    expansion: Array
    """(B,) coefficient of linear expansion, 1/K."""
    temperature: Array
    """(B,) amplitude of the yearly temperature, K."""
    fixed: Array
    """(B, 2) the point in plan that stays in place, m in the building's frame."""
    delay: Array
    """(B,) days by which the structure follows the air."""

    def field(
        self, index: NDArray[np.intp], x: Array, y: Array, height: Array
    ) -> tuple[Array, Array, Array]:
        """Return the amplitude of vertical, along-x and along-y displacement, mm: `a h dT`
        and `a (x - xc) dT`."""
        stretch = 1000 * self.expansion[index] * self.temperature[index]
        return (
            stretch * height,
            stretch * (x - self.fixed[index, 0]),
            stretch * (y - self.fixed[index, 1]),
        )

    def season(self, index: NDArray[np.intp], day_of_year: Array) -> Array:
        """Return the yearly course (b, T) of buildings `index`, from -1 to 1, on days (T,)
        since a first of January."""
        phase = (
            2 * np.pi * (day_of_year[None, :] - WARMEST_DAY - self.delay[index, None]) / DAYS_A_YEAR
        )
        return np.asarray(np.cos(phase), float)


def draw_thermal(rng: np.random.Generator, side: Array) -> Thermal:
    """Draw concrete to steel, 5e-6 to 1.2e-5 /K, under 8 to 12 K a year; fixed near the
    middle of sides (B, 2)."""
    count = len(side)
    return Thermal(
        expansion=rng.uniform(5e-6, 1.2e-5, count),
        temperature=rng.uniform(8, 12, count),
        fixed=side * rng.uniform(-0.25, 0.25, (count, 2)),
        delay=rng.normal(0, 12, count),
    )


LINEAR, SETTLING, ONSET, ACCELERATING, PIECEWISE = range(5)
SHARES = (0.3, 0.25, 0.25, 0.2)
"""Shares of the first four families, for ground that moves."""
LATE, SUDDEN, QUICKENING, SLOWING, PAUSED = range(5)
KINDS = (0.55, 0.15, 0.2, 0.05, 0.05)
"""Shares of the kinds of piecewise courses, for buildings that fail."""
BROKEN = 0.5
"""Share of the buildings whose course is piecewise: it begins near the end, is over within
a day, or changes its speed. Creep before a failure goes on at one speed for years, then
becomes faster (Fukuzono 1985; Voight 1989)."""
LATEST = 0.97
"""Share of the time after which nothing begins: only an epoch or two would be after it."""
AT_ONCE = 0.003
TIMES = (2.0, 10.0)
"""Range of the factor by which a movement becomes faster; log-uniform."""


@dataclass(frozen=True)
class Histories:
    """Time functions of B buildings; times are fractions of the observation."""

    family: NDArray[np.intp]
    """(B,) LINEAR, SETTLING, ONSET, ACCELERATING or PIECEWISE."""
    first: Array
    """(B,) SETTLING: time constant. ONSET: beginning. ACCELERATING: exponent. PIECEWISE:
    time of the first change of speed."""
    second: Array
    """(B,) ONSET: end. PIECEWISE: time of the second change. Unused by the others."""
    reached: Array
    """(B, 2) PIECEWISE: share of the final displacement at these two times. Unused by the
    others."""

    def take(self, index: NDArray[np.intp]) -> Histories:
        """Select the histories of buildings `index`."""
        return Histories(
            self.family[index], self.first[index], self.second[index], self.reached[index]
        )

    def where(self, mask: NDArray[np.bool_], elsewhere: Histories) -> Histories:
        """Return these histories where `mask` (B,) is true, and `elsewhere` for the rest."""
        return Histories(
            np.where(mask, self.family, elsewhere.family),
            np.where(mask, self.first, elsewhere.first),
            np.where(mask, self.second, elsewhere.second),
            np.where(mask[:, None], self.reached, elsewhere.reached),
        )

    def at(self, time: Array) -> Array:
        """Return the share (B, T) of the final displacement reached at times (T,) in 0 to 1."""
        share = np.empty((len(self.first), len(time)))
        for family in range(PIECEWISE + 1):
            rows = self.family == family
            first, second = self.first[rows, None], self.second[rows, None]
            if family == LINEAR:
                share[rows] = time
            elif family == SETTLING:
                share[rows] = np.expm1(-time / first) / np.expm1(-1 / first)
            elif family == ONSET:
                share[rows] = np.clip((time - first) / (second - first), 0, 1)
            elif family == ACCELERATING:
                share[rows] = time**first
            else:
                low, high = self.reached[rows, :1], self.reached[rows, 1:]
                between = low + (high - low) * (time - first) / (second - first)
                after = high + (1 - high) * (time - second) / (1 - second)
                share[rows] = np.where(
                    time < first, low * time / first, np.where(time < second, between, after)
                )
        return share


def draw_histories(rng: np.random.Generator, count: int) -> Histories:
    """Draw linear, `1 - exp(-t / tau)` (tau 0.1 to 1), onset (at 0.05 to 0.6, over by 1) or
    `t^p` (p 1.5 to 3.5)."""
    family = rng.choice(len(SHARES), size=count, p=SHARES)
    beginning = rng.uniform(0.05, 0.6, count)
    settling, exponent = rng.uniform(0.1, 1, count), rng.uniform(1.5, 3.5, count)
    return Histories(
        family=family,
        first=np.choose(family, [np.ones(count), settling, beginning, exponent]),
        second=beginning + rng.uniform(0.2, 1, count) * (1 - beginning),
        reached=np.zeros((count, 2)),
    )


def draw_any_beginning(rng: np.random.Generator, count: int) -> Histories:
    """Draw courses as `draw_histories`, but a share `BROKEN` of them piecewise, of `KINDS`."""
    usual = draw_histories(rng, count)
    kind = rng.choice(len(KINDS), size=count, p=KINDS)
    late_time, sudden_time, turn_time, stop_time = (
        rng.uniform(low, high, count)
        for low, high in ((0.6, LATEST), (0.02, LATEST), (0.3, 0.95), (0.1, 0.6))
    )
    first = np.choose(kind, [late_time, sudden_time, turn_time, turn_time, stop_time])
    duration = np.choose(
        kind,
        [
            rng.uniform(0.3, 1, count) * (1 - late_time),
            np.full(count, AT_ONCE),
            (1 - turn_time) / 2,
            (1 - turn_time) / 2,
            rng.uniform(0.15, 0.35, count),
        ],
    )
    second = np.minimum(first + duration, 1 - 1e-6)
    times = np.where(
        kind == SLOWING, 1 / log_uniform(rng, *TIMES, count), log_uniform(rng, *TIMES, count)
    )
    # Speed 1 up to `first` and `times` after it: the share reached at `first`.
    turned = first / (first + times * (1 - first))
    level = rng.uniform(0.2, 0.8, count)
    reached = np.stack(
        [
            np.choose(kind, [np.zeros(count), np.zeros(count), turned, turned, level]),
            np.choose(
                kind, [np.ones(count), np.ones(count), (1 + turned) / 2, (1 + turned) / 2, level]
            ),
        ],
        axis=1,
    )
    broken = Histories(np.full(count, PIECEWISE), first, second, reached)
    return broken.where(rng.random(count) < BROKEN, usual)


def passages(rng: np.random.Generator, arrival: Array) -> Histories:
    """Return histories of buildings under which a tunnel passes at times `arrival` (B,), below
    0.7."""
    duration = rng.uniform(0.1, 0.3, len(arrival))
    return Histories(
        np.full(len(arrival), ONSET), arrival, arrival + duration, np.zeros((len(arrival), 2))
    )


@dataclass(frozen=True)
class Motion:
    """Motion of B buildings; displacements in mm over the whole observation, thermal ones
    as amplitude."""

    tunnels: list[Tunnel]
    local: LocalFailures
    failing: Histories
    rigid: Rigid
    sinking: Histories
    response: Response
    passing: Histories
    thermal: Thermal

    def structure_field(
        self, index: NDArray[np.intp], x: Array, y: Array
    ) -> tuple[Array, Array, Array]:
        """Return the noise-free displacement of structures, last epoch less first, on which
        labels are defined."""
        up, along_x, along_y = self.rigid.field(index, x, y, np.zeros_like(x))
        ground = self.response.field(index, x, y)
        reached = self.response.reached[index]
        broken = self.local.field(index, x, y)
        return (
            up + broken[0] + reached * ground[0],
            along_x + broken[1] + reached * ground[1],
            along_y + broken[2] + reached * ground[2],
        )

    def scenario(self, building: int) -> str:
        """Name what happens to a building besides rigid motion and heat."""
        failure, tunnel = bool(self.local.failing[building]), self.response.reached[building]
        if failure:
            return "local_failure_over_tunnel" if tunnel else "local_failure"
        return "tunnel" if tunnel else "intact"


def draw_motion(
    rng: np.random.Generator,
    layout: CityLayout,
    tunnels: list[Tunnel],
    damaged: float,
    mechanisms: Mechanisms,
) -> Motion:
    """Draw the motion of all buildings; a share `damaged` of them has a local failure.

    Args:
        rng: the generator to draw from.
        layout: the buildings.
        tunnels: those of the city, at least one.
        damaged: share of buildings with a local failure.
        mechanisms: what fails there.
    """
    count, side = len(layout.height), layout.frames.side
    failing, sinking = draw_any_beginning(rng, count), draw_any_beginning(rng, count)
    together = rng.random(count) < 0.5
    outline = own_outlines(layout.polygon, layout.frames)
    local = draw_local_failures(rng, side, layout.standing, damaged, mechanisms, outline=outline)
    return Motion(
        tunnels=tunnels,
        local=local,
        failing=failing,
        rigid=draw_rigid(rng, count),
        sinking=failing.where(together, sinking),
        response=draw_response(rng, tunnels, layout.frames),
        passing=passages(rng, arrival(tunnels, layout.frames.centre, layout.extent)),
        thermal=draw_thermal(rng, side),
    )


class SimulatedLabels(NamedTuple):
    """Labels of B buildings."""

    strains: Strains
    mechanism: NDArray[np.intp]
    """(B,) index into `strain.MECHANISMS`, or NONE where nothing fails and no trough reaches."""


def draw_labels(motion: Motion, layout: CityLayout) -> SimulatedLabels:
    """Label all buildings, by the definition in `plumbline.core.strain`, over their footprints.

    A building that no trough reaches is strained by its local failure alone: what else it
    does is rigid motion. Where a trough bends a building in which something fails, the
    larger strain names the mechanism, or they are several.
    """
    side, local = layout.frames.side, motion.local
    outline, reached = (
        own_outlines(layout.polygon, layout.frames),
        np.flatnonzero(motion.response.reached),
    )
    whole = strains(motion.structure_field, side, reached, outline).where(
        motion.response.reached, local.strains
    )
    bent = strains(motion.response.field, side, reached, outline).severity_permille
    failed = local.strains.severity_permille
    mechanism = np.select(
        [bent == 0, bent < SECOND_SHARE * failed, failed < SECOND_SHARE * bent],
        [local.mechanism, local.mechanism, BENDING],
        default=SEVERAL,
    )
    # Two of a kind are one: a trough of its own over a trough.
    return SimulatedLabels(
        whole, np.where((local.mechanism == BENDING) & (mechanism == SEVERAL), BENDING, mechanism)
    )
