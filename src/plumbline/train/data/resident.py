"""A small data set kept on the device whole: a batch is gathered there, and nothing is sent in a step.

Shape legend: N scatterers of all buildings, B buildings, L places, F features.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plumbline.params import Train
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE
from plumbline.prepare.features.shards import SequenceSet
from plumbline.train.data.batches import Batch, Buildings

SHARE = 0.25
"""Of the device's free memory, what the data may take."""


def is_resident(train: SequenceSet, losses: Train, device: torch.device) -> bool:
    """Whether `train.resident` asks for it, or (`auto`) the device is a GPU with room for the data."""
    if losses.resident == "never" or losses.perturbs or losses.padding != "mask":
        return False
    if losses.resident == "always":
        return True
    if device.type != "cuda":
        return False
    return data_bytes(train) < SHARE * torch.cuda.mem_get_info(device)[0]


def data_bytes(train: SequenceSet) -> int:
    """What the arrays take, in float32."""
    return 4 * (int(np.sum(train.length)) * (len(DISTANCE) + len(SLOPE)) + len(train) * (len(GEOMETRY) + 6))


class Resident(Buildings):
    """As `Buildings`, with unperturbed features in `device`'s memory."""

    def __init__(self, table: Buildings, device: torch.device) -> None:
        super().__init__(table.sequences, table.losses, table.sampler)
        parts = getattr(table.sequences, "parts", (table.sequences,))
        arrays = {
            name: torch.cat([torch.from_numpy(np.array(getattr(part, name))) for part in parts]).to(device)
            for name in ("distance", "slope", "geometry")
        }
        self.distance_NF, self.slope_NF, self.geometry_BF = arrays["distance"], arrays["slope"], arrays["geometry"]
        ends = np.cumsum(self.length)
        self.start_B, self.length_B, self.severity_B, self.quadrant_B = (
            torch.from_numpy(np.array(values)).to(device)
            for values in (ends - self.length, self.length, self.severity, self.quadrant)
        )
        self.weight_B = torch.ones(len(ends)) if self.weight is None else torch.from_numpy(self.weight)
        self.weight_B = self.weight_B.to(device)

    def rows(self, index: NDArray[np.intp], own: NDArray[np.intp]) -> Batch:
        """As `Buildings.rows`, gathered on the device."""
        width = int(self.length[index[own]].max(initial=1))
        index_B = torch.from_numpy(index[own])
        if self.start_B.is_cuda:
            index_B = index_B.pin_memory()  # from elsewhere the GPU would be waited for
        index_B = index_B.to(self.start_B.device, non_blocking=True)
        place_L = torch.arange(width, device=self.start_B.device)
        mask_BL = place_L < self.length_B[index_B][:, None]
        source_BL = torch.where(mask_BL, self.start_B[index_B][:, None] + place_L, 0)
        return Batch(
            _gather(self.distance_NF, source_BL, mask_BL), _gather(self.slope_NF, source_BL, mask_BL),
            self.geometry_BF[index_B], mask_BL, self.severity_B[index_B], self.quadrant_B[index_B],
            self.weight_B[index_B],
        )  # fmt: skip


def _gather(values_NF: Tensor, source_BL: Tensor, mask_BL: Tensor) -> Tensor:
    return values_NF[source_BL].masked_fill(~mask_BL[..., None], 0)
