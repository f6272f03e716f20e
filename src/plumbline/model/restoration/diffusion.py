"""Add noise to fields step by step, and remove it; NumPy only, so that restoring a field does not need torch.

Ho et al. 2020, Denoising diffusion probabilistic models; Song et al. 2021, Denoising diffusion implicit models; Nichol
and Dhariwal 2021 for the cosine schedule. The network says the clean field (`prediction_type="sample"`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.core.errors import InputError

Float = NDArray[np.floating[Any]]
Denoise = Callable[[Float, int], Float]
"""From a noisy field (B, F, H, W) and its step to the clean one."""
SCHEDULES = ("linear", "squaredcos_cap_v2")
LARGEST_BETA = 0.999


def alphas_cumulative(schedule: str, train_steps: int) -> NDArray[np.float64]:
    """Return the share (train_steps,) of the field's variance that is left after each step, falling.

    Args:
        schedule: `linear` (Ho et al., section 4) or `squaredcos_cap_v2` (Nichol and Dhariwal, equation 17).
        train_steps: steps of the diffusion.
    """
    if schedule == "linear":
        beta = np.linspace(1e-4, 0.02, train_steps)
    else:
        edges = np.cos((np.arange(train_steps + 1) / train_steps + 0.008) / 1.008 * np.pi / 2) ** 2
        beta = np.minimum(1 - edges[1:] / edges[:-1], LARGEST_BETA)
    return np.asarray(np.cumprod(1 - beta), float)


def inference_steps(steps: int, train_steps: int) -> NDArray[np.int64]:
    """Return the diffusion steps (steps,) that restoring visits, the noisiest first (`timestep_spacing="trailing"`).

    Raises:
        InputError: more steps are wanted than there are.
    """
    if not 1 <= steps <= train_steps:
        raise InputError(f"--steps {steps}: 1 to {train_steps} needed, the steps that the model was trained for.")
    return np.round(np.arange(train_steps, 0, -train_steps / steps)).astype(np.int64)[:steps] - 1


def restore_steps(
    denoise: Denoise,
    noise: Float,
    alphas: NDArray[np.float64],
    steps: int,
    eta: float,
    fresh: Iterator[Float] | None = None,
) -> Float:
    """Remove the noise: one sample in each row (Song et al., equations 12 and 16).

    Args:
        denoise: the network. noise: (B, F, H, W) standard normal, to begin with.
        alphas: of `alphas_cumulative`. steps: to take.
        eta: share of fresh noise at each step; 0: none. fresh: gives it, standard normal, of the shape of `noise`.
    """
    field, visited = noise, inference_steps(steps, len(alphas))
    for number, step in enumerate(visited):
        here = alphas[step]
        then = alphas[visited[number + 1]] if number + 1 < len(visited) else 1.0
        clean = denoise(field, int(step))
        if then == 1.0:
            return clean
        left = (field - np.sqrt(here) * clean) / np.sqrt(1 - here)
        sigma = eta * np.sqrt((1 - then) / (1 - here) * (1 - here / then))
        field = np.sqrt(then) * clean + np.sqrt(1 - then - sigma**2) * left
        if sigma and fresh is not None:
            field = field + sigma * next(fresh)
        field = np.asarray(field, np.float32)
    return field


def draws(rng: np.random.Generator, shape: tuple[int, ...]) -> Iterator[NDArray[np.float32]]:
    """Yield standard normal fields without end."""
    while True:
        yield rng.standard_normal(shape, np.float32)
