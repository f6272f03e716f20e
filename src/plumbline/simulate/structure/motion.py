"""Join all that a city's buildings do: failure, rigid motion, the ground's pull and heat; and label the result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plumbline.simulate.structure.failures import Hinges, draw_hinges, scaled_to_target
from plumbline.simulate.structure.footprints import own_outlines
from plumbline.simulate.structure.labels import Strains, strains
from plumbline.simulate.structure.layout import CityLayout
from plumbline.simulate.structure.rigid_and_thermal import Rigid, Thermal, draw_rigid, draw_thermal
from plumbline.simulate.structure.time_courses import Histories, draw_histories, passages
from plumbline.simulate.structure.tunnels import Response, Tunnel, arrival, draw_response

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Motion:
    """Motion of B buildings; displacements in mm over the whole observation, thermal ones as amplitude."""

    tunnels: list[Tunnel]
    hinges: Hinges
    broken: Strains
    """(B,) strain of the hinges alone."""
    failing: Histories
    rigid: Rigid
    sinking: Histories
    response: Response
    passing: Histories
    thermal: Thermal

    def structure_field(self, index: NDArray[np.intp], x: Array, y: Array) -> tuple[Array, Array, Array]:
        """Noise-free displacement of structures, last epoch less first: what their labels are defined on."""
        up, along_x, along_y = self.rigid.field(index, x, y, np.zeros_like(x))
        ground = self.response.field(index, x, y)
        reached = self.response.reached[index]
        broken = self.hinges.field(index, x, y)
        return (
            up + broken[0] + reached * ground[0],
            along_x + broken[1] + reached * ground[1],
            along_y + broken[2] + reached * ground[2],
        )

    def scenario(self, building: int) -> str:
        """What happens to a building besides rigid motion and heat."""
        failure, tunnel = self.hinges.drop[building] != 0, self.response.reached[building]
        if failure:
            return "local_failure_over_tunnel" if tunnel else "local_failure"
        return "tunnel" if tunnel else "intact"


def draw_motion(rng: np.random.Generator, layout: CityLayout, tunnels: list[Tunnel], damaged: float) -> Motion:
    """Draw the motion of all buildings; a share `damaged` of them has a local failure.

    Args:
        rng: the generator to draw from.
        layout: the buildings.
        tunnels: those of the city, at least one.
        damaged: share of buildings with a local failure.
    """
    count, side = len(layout.height), layout.frames.side
    failing, sinking = draw_histories(rng, count), draw_histories(rng, count)
    together = rng.random(count) < 0.5
    outline = own_outlines(layout.polygon, layout.frames)
    hinges, broken = scaled_to_target(rng, draw_hinges(rng, side, layout.standing), damaged, outline)
    return Motion(
        tunnels=tunnels,
        hinges=hinges,
        broken=broken,
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


def draw_labels(motion: Motion, layout: CityLayout) -> Strains:
    """Labels of all buildings, by the definition in `plumbline.core.strain`, over their footprints.

    A building that no trough reaches is strained by its hinge alone: what else it does is rigid motion.
    """
    reached = motion.response.reached
    outline = own_outlines(layout.polygon, layout.frames)
    whole = strains(motion.structure_field, layout.frames.side, np.flatnonzero(reached), outline)
    return Strains(
        np.where(reached, whole.severity_permille, motion.broken.severity_permille),
        np.where(reached, whole.quadrant, motion.broken.quadrant),
    )
