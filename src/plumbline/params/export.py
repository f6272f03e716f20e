"""Section `export`."""

from __future__ import annotations

from pydantic import Field

from plumbline.params.section import Section


class Export(Section):
    """ONNX and int8."""

    opset: int = Field(default=20, ge=18, le=22)
    calibration_batches: int = Field(default=8, ge=2)
    calibration_batch_size: int = Field(default=64, ge=1)
