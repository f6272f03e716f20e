"""Where houses stand: on square plots, in districts that have one direction of streets each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from benchmarks.makers.seventh.building import draw_building, is_read_alike
from benchmarks.makers.seventh.settings import Array, Kind
from benchmarks.makers.seventh.structure import Structure, draw_structure
from benchmarks.makers.seventh.trough import draw_tunnel

PLOT_M = 85.0
DISTRICT = 8
"""Plots along its side."""
TUNNELS = 2


@dataclass(frozen=True)
class Town:
    """B houses."""

    origin: Array
    """(2,) easting and northing of the south-western corner, m, in EPSG:3035."""
    side_m: float
    structures: list[Structure]


def draw_town(generator: Generator, kind: Kind, buildings: int) -> Town:
    """A town of so many houses, with all that moves them."""
    plots = int(np.ceil(np.sqrt(buildings)))
    origin = np.array(
        [4_330_000.0 + 20_000 * generator.integers(0, 5), 2_800_000.0 + 100_000 * generator.integers(0, 5)]
    )
    street = generator.uniform(-np.pi / 4, np.pi / 4, (plots // DISTRICT + 1, plots // DISTRICT + 1))
    tunnels = [draw_tunnel(generator, origin, plots, PLOT_M) for _ in range(TUNNELS)]
    structures: list[Structure] = []
    while len(structures) < buildings:
        row, column = divmod(len(structures), plots)
        plot = origin + PLOT_M * np.array([column + 0.5, row + 0.5])
        building, failing = draw_building(generator, plot, street[row // DISTRICT, column // DISTRICT])
        outline = building.outline()
        if is_read_alike(building, outline):
            structures.append(draw_structure(generator, kind, tunnels, building, failing, outline))
    return Town(origin, plots * PLOT_M, structures)
