"""Add up all motion of a city's buildings: failure, rigid motion, the ground's pull and heat; label the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.params.simulate import Mechanisms
from plumbline.simulate.structure.footprints import own_outlines
from plumbline.simulate.structure.labels import Strains, strains
from plumbline.simulate.structure.layout import CityLayout
from plumbline.simulate.structure.local_failures import (
    BENDING,
    SECOND_SHARE,
    SEVERAL,
    LocalFailures,
    draw_local_failures,
)
from plumbline.simulate.structure.rigid_and_thermal import Rigid, Thermal, draw_rigid, draw_thermal
from plumbline.simulate.structure.time_courses import Histories, draw_histories, passages
from plumbline.simulate.structure.tunnels import Response, Tunnel, arrival, draw_response

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Motion:
    """Motion of B buildings; displacements in mm over the whole observation, thermal ones as amplitude."""

    tunnels: list[Tunnel]
    local: LocalFailures
    failing: Histories
    rigid: Rigid
    sinking: Histories
    response: Response
    passing: Histories
    thermal: Thermal

    def structure_field(self, index: NDArray[np.intp], x: Array, y: Array) -> tuple[Array, Array, Array]:
        """Return the noise-free displacement of structures, last epoch less first, on which labels are defined."""
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
    rng: np.random.Generator, layout: CityLayout, tunnels: list[Tunnel], damaged: float, mechanisms: Mechanisms
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
    failing, sinking = draw_histories(rng, count), draw_histories(rng, count)
    together = rng.random(count) < 0.5
    outline = own_outlines(layout.polygon, layout.frames)
    local = draw_local_failures(rng, side, layout.standing, damaged, mechanisms, outline)
    return Motion(
        tunnels=tunnels,
        local=local,
        failing=failing,
        rigid=draw_rigid(rng, count),
        sinking=Histories(
            np.where(together, failing.family, sinking.family),
            np.where(together, failing.first, sinking.first),
            np.where(together, failing.second, sinking.second),
        ),
        response=draw_response(rng, tunnels, layout.frames),
        passing=passages(rng, arrival(tunnels, layout.frames.centre, layout.extent)),
        thermal=draw_thermal(rng, side),
    )


class Labels(NamedTuple):
    """Labels of B buildings."""

    strains: Strains
    mechanism: NDArray[np.intp]
    """(B,) index into `strain.MECHANISMS`, or NONE where nothing fails and no trough reaches."""


def draw_labels(motion: Motion, layout: CityLayout) -> Labels:
    """Label all buildings, by the definition in `plumbline.core.strain`, over their footprints.

    A building that no trough reaches is strained by its local failure alone: what else it does is rigid motion. Where a
    trough bends a building in which something fails, the larger strain names the mechanism, or they are several.
    """
    side, local = layout.frames.side, motion.local
    outline, which = own_outlines(layout.polygon, layout.frames), np.flatnonzero(motion.response.reached)
    whole = strains(motion.structure_field, side, which, outline).where(motion.response.reached, local.strains)
    bent = strains(motion.response.field, side, which, outline).severity_permille
    failed = local.strains.severity_permille
    mechanism = np.select(
        [bent == 0, bent < SECOND_SHARE * failed, failed < SECOND_SHARE * bent],
        [local.mechanism, local.mechanism, BENDING],
        default=SEVERAL,
    )
    # Two of a kind are one: a trough of its own over a trough.
    return Labels(whole, np.where((local.mechanism == BENDING) & (mechanism == SEVERAL), BENDING, mechanism))
