"""List what can run a model on this machine: ONNX Runtime on each of its devices, and torch eager."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import onnxruntime
from numpy.typing import NDArray

from plumbline.core.jobs import cores
from plumbline.export.answers import Answers, Released
from plumbline.export.inputs import signature
from plumbline.export.runtime import CPU
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE
from plumbline.validate.measure import run_torch

if TYPE_CHECKING:
    from plumbline.model.diagnosis import Diagnosis

ON_GPU = {"CUDAExecutionProvider": "CUDA", "TensorrtExecutionProvider": "TensorRT"}
"""Providers that are measured too, where ONNX Runtime lists them."""


@dataclass(frozen=True)
class Runtime:
    """One way to run an ONNX file."""

    name: str
    provider: str
    threads: int
    """Within an operator; on a GPU they matter little."""


def thread_counts() -> list[int]:
    """Return one, two and all cores, as far as this machine has them."""
    return sorted({count for count in (1, 2, cores()) if count <= cores()})


def runtimes() -> list[Runtime]:
    """List ONNX Runtime on the CPU with each of `thread_counts`, and on the available devices of `ON_GPU`."""
    found = [Runtime(f"ONNX Runtime CPU, {_threads(count)}", CPU, count) for count in thread_counts()]
    listed = onnxruntime.get_available_providers()
    return found + [Runtime(f"ONNX Runtime {ON_GPU[key]}", key, cores()) for key in ON_GPU if key in listed]


class Eager(Released):
    """The network itself under torch eager."""

    def __init__(self, model: Diagnosis, threads: int) -> None:
        self.name = f"torch eager, {_threads(threads)}"
        self.signature = signature(
            {"distance": len(DISTANCE), "slope": len(SLOPE), "geometry": len(GEOMETRY)},
            [],
            max_length=model.network.spec.max_length,
        )
        self._model, self._count = model, threads

    def execute(self, inputs: Mapping[str, NDArray[Any]]) -> Answers:
        """Return the outputs. This changes torch's number of threads for the whole process."""
        import torch

        torch.set_num_threads(self._count)
        return run_torch(self._model, dict(inputs))


def _threads(count: int) -> str:
    return f"{count} thread" + ("s" if count > 1 else "")
