"""What a city's buildings really do: failure, rigid motion, the ground's pull, heat; and the label that follows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from plumbline.console import track
from plumbline.simulate.draw import log_uniform
from plumbline.simulate.hinge import Hinges, draw_hinges
from plumbline.simulate.layout import Layout
from plumbline.simulate.response import Response, draw_response
from plumbline.simulate.rigid import Rigid, draw_rigid
from plumbline.simulate.temporal import Histories, draw_histories, passages
from plumbline.simulate.thermal import Thermal, draw_thermal
from plumbline.simulate.trough import Tunnel, arrival, draw_tunnels
from plumbline.strain import Field, Strain, structure_strain

Array = NDArray[np.float64]
TARGET_PERMILLE = (0.1, 6.0)
"""Range of the strain of a local failure by itself; log-uniform."""
UPWARD_SHARE = 0.1


@dataclass(frozen=True)
class Motion:
    """Motion of B buildings; displacements in mm over the whole observation, thermal ones as amplitude."""

    tunnels: list[Tunnel]
    hinges: Hinges
    failing: Histories
    rigid: Rigid
    sinking: Histories
    response: Response
    passing: Histories
    thermal: Thermal

    def structure_field(self, building: int) -> Field:
        """Noise-free displacement of one structure, last epoch less first: what its label is defined on."""

        def field(x: Array, y: Array) -> tuple[Array, Array, Array]:
            up, along_x, along_y = self.rigid.field(building, x, y, np.zeros_like(x))
            up = up + self.hinges.up(building, x, y)
            if self.response.reached[building]:
                ground = self.response.field(building, x, y)
                up, along_x, along_y = up + ground[0], along_x + ground[1], along_y + ground[2]
            return up, along_x, along_y

        return field

    def scenario(self, building: int) -> str:
        """What happens to a building besides rigid motion and heat."""
        failure, tunnel = self.hinges.drop[building] != 0, self.response.reached[building]
        if failure:
            return "local_failure_over_tunnel" if tunnel else "local_failure"
        return "tunnel" if tunnel else "intact"


def draw_motion(rng: np.random.Generator, layout: Layout, damaged: float) -> Motion:
    """Draw the motion of all buildings; a share `damaged` of them has a local failure."""
    count, side = len(layout.height), layout.frames.side
    tunnels = draw_tunnels(rng, layout.extent)
    failing, sinking = draw_histories(rng, count), draw_histories(rng, count)
    together = rng.random(count) < 0.5
    return Motion(
        tunnels=tunnels,
        hinges=scaled_to_target(rng, draw_hinges(rng, side, layout.standing), damaged),
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


def scaled_to_target(rng: np.random.Generator, hinges: Hinges, damaged: float) -> Hinges:
    """Scale the drops so that the hinge alone strains its building by a log-uniform target.

    The strain of a purely vertical field grows in proportion to it, so one evaluation is enough.
    """
    count = len(hinges.drop)
    failed = rng.random(count) < damaged
    target = log_uniform(rng, *TARGET_PERMILLE, count)
    factor = np.where(rng.random(count) < UPWARD_SHARE, -1.0, 1.0) * target
    drop = np.zeros(count)
    for building in np.flatnonzero(failed).tolist():
        drop[building] = hinges.drop[building] * factor[building] / hinge_strain(hinges, building).severity_permille
    return replace(hinges, drop=drop)


def hinge_strain(hinges: Hinges, building: int) -> Strain:
    """Strain of a building by its local failure alone."""

    def field(x: Array, y: Array) -> tuple[Array, Array, Array]:
        still = np.zeros_like(x)
        return hinges.up(building, x, y), still, still

    return structure_strain(field, *(2 * hinges.half[building]))


def draw_labels(motion: Motion, side: Array, what: str) -> list[Strain]:
    """Labels of all buildings with sides (B, 2) in m, by the definition in `plumbline.strain`."""
    labels = (structure_strain(motion.structure_field(i), *side[i]) for i in range(len(side)))
    return list(track(labels, len(side), what))
