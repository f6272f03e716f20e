"""Draw what moves in a scene, and how each movement goes in time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import ndtr

from benchmarks.makers.fields.edges import draw_embankment, draw_fault, draw_slide
from benchmarks.makers.fields.settings import MOVEMENTS, Array
from benchmarks.makers.fields.subsidence import (
    Drawn,
    Form,
    draw_basin,
    draw_curved_trough,
    draw_sinkhole,
    draw_source,
    draw_trough,
)
from benchmarks.makers.fields.town import Town, draw_moving_buildings

FORMS: dict[str, Callable[[Generator], Drawn]] = {
    "trough": draw_trough,
    "curved_trough": draw_curved_trough,
    "sinkhole": draw_sinkhole,
    "pressure_source": draw_source,
    "basin": draw_basin,
    "fault": draw_fault,
    "embankment": draw_embankment,
    "slide": draw_slide,
}
BUILDINGS = "buildings"
KINDS = (*FORMS, BUILDINGS)
SINKING = ("trough", "curved_trough", "passage"), ("embankment", "consolidation")


class Course(NamedTuple):
    """How much of a movement has happened, by the share of the time that is over: 0 at 0, 1 at 1."""

    kind: str
    first: float = 1.0
    second: float = 1.0

    def at(self, share: Array) -> Array:
        """Return (E,) of shares (E,)."""
        begin, end = self._raw(np.array([0.0, 1.0]))
        return np.asarray((self._raw(share) - begin) / (end - begin))

    def _raw(self, share: Array) -> Array:
        if self.kind == "relaxing":  # Knothe (1953): the rate goes with what is left
            return np.asarray(-np.exp(-share / self.first))
        if self.kind == "consolidation":  # Terzaghi's theory in the closed form of Sivaram and Swamee (1977)
            factor = 4 * self.first * share / np.pi
            return np.asarray(np.sqrt(factor) / (1 + factor**2.8) ** 0.179)
        if self.kind == "passage":  # a face that passes: Attewell and Woodman (1982) in time
            return np.asarray(ndtr((share - self.first) / self.second))
        if self.kind == "accelerating":
            return np.asarray(share**self.first)
        return share  # steady


COURSES = ("steady", "relaxing", "consolidation", "passage", "accelerating")


class Movement(NamedTuple):
    """One cause of movement."""

    kind: str
    form: Form
    course: Course
    about: dict[str, object]


def draw_course(generator: Generator, kind: str | None = None) -> Course:
    """Draw a course of a kind, or of any."""
    kind = kind or COURSES[int(generator.integers(len(COURSES)))]
    first, second = generator.random(2)
    if kind == "relaxing":
        return Course(kind, 0.15 + 0.85 * first)
    if kind == "consolidation":
        return Course(kind, 0.3 + 1.2 * first)
    if kind == "passage":
        return Course(kind, 0.25 + 0.5 * first, 0.05 + 0.1 * second)
    return Course(kind, 1.3 + 1.7 * first) if kind == "accelerating" else Course(kind)


def draw_movements(generator: Generator, town: Town) -> list[Movement]:
    """Draw 1 to 4 movements of different kinds; troughs and embankments often have the course of their cause."""
    count = int(generator.integers(MOVEMENTS[0], MOVEMENTS[1] + 1))
    movements = []
    for kind in generator.choice(KINDS, count, replace=False):
        form, about = draw_moving_buildings(generator, town) if kind == BUILDINGS else FORMS[kind](generator)
        own = next((course for *kinds, course in SINKING if kind in kinds), None)
        course = draw_course(generator, own if generator.random() < 0.5 else None)
        movements.append(Movement(str(kind), form, course, about))
    return movements


def total(movements: Sequence[Movement], place: Array) -> Array:
    """Return the whole change (N, 3) east, north and up at places (N, 2), mm."""
    return np.asarray(sum((movement.form(place) for movement in movements), np.zeros((len(place), 3))))
