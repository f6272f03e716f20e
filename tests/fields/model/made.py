"""A denoiser made up for tests: tiny, and with weights that all matter."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from plumbline.fields.model.denoiser import DenoiserSpec, FieldDenoiser
from plumbline.fields.model.sampling import DenoisingModel


def make_denoiser(channels: tuple[int, ...] = (8, 16), seed: int = 0) -> FieldDenoiser:
    """In evaluation mode; its last layer, which training begins with at 0, is drawn too."""
    torch.manual_seed(seed)
    model = FieldDenoiser(DenoiserSpec(channels=channels, layers=1, train_steps=40, schedule="squaredcos_cap_v2"))
    torch.nn.init.normal_(model.unet.conv_out.weight, std=0.1)
    return model.eval()


def make_inputs(model: FieldDenoiser, batch: int, rows: int, columns: int, seed: int = 0) -> tuple[torch.Tensor, ...]:
    """Noisy fields, steps and conditions."""
    generator = torch.Generator().manual_seed(seed)
    noisy = torch.randn(batch, 2, rows, columns, generator=generator)
    conditions = torch.randn(batch, len(model.spec.conditions), rows, columns, generator=generator)
    return noisy, torch.randint(0, 40, (batch,), generator=generator), conditions


def change_module(model: FieldDenoiser, weights: dict[str, NDArray[np.float32]]) -> None:
    """Give a network without adapters these weights, in place."""
    model.load_state_dict({name: torch.from_numpy(values) for name, values in weights.items()}, strict=False)


def alike(inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """The same step and conditions for all samples."""
    noisy, step, conditions = inputs
    return noisy, step[:1].expand(len(noisy)), conditions[:1].expand(len(noisy), -1, -1, -1)


def answer(model: DenoisingModel, inputs: tuple[torch.Tensor, ...]) -> NDArray[np.float32]:
    """Of a model in ONNX Runtime to one window of several samples."""
    noisy, step, conditions = (part.numpy() for part in inputs)
    return model.denoise(noisy, int(step[0]), conditions[0])
