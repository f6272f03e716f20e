"""Run a released model in TensorRT, on the GPU that its engine was built for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.core.errors import InputError, PlumblineError
from plumbline.export.answers import Answers, Released
from plumbline.export.inputs import NAMES, signature
from plumbline.export.tensorrt.device import this_device
from plumbline.export.tensorrt.engine import PLAN, read_engine, refuse_other


class TensorRTModel(Released):
    """An engine in TensorRT, with the same interface as `OnnxModel`."""

    def __init__(self, folder: Path) -> None:
        """Open an engine that `plumbline tensorrt` built.

        Raises:
            InputError: it is damaged, was built for another GPU or by other versions, or this machine has no GPU.
        """
        engine = read_engine(folder)
        self.about = engine.about
        refuse_other(self.about.key.device, this_device(), folder)
        import tensorrt

        self._runtime = tensorrt.Runtime(tensorrt.Logger(tensorrt.Logger.WARNING))
        self._engine = self._runtime.deserialize_cuda_engine(engine.plan)
        if self._engine is None:
            raise InputError(f"{folder / PLAN}: TensorRT cannot open it. Build the engine again.")
        names = [self._engine.get_tensor_name(i) for i in range(self._engine.num_io_tensors)]
        given = {n for n in names if self._engine.get_tensor_mode(n) == tensorrt.TensorIOMode.INPUT}
        # Outputs by their order: torch-tensorrt gives them names of its own.
        self._outputs = [name for name in names if name not in given]
        if given != set(NAMES) or len(self._outputs) != len(Answers._fields):
            raise InputError(
                f"{folder / PLAN}: tensors {', '.join(names)} found, {', '.join(NAMES)} and "
                f"{len(Answers._fields)} outputs needed."
            )
        self._context = self._engine.create_execution_context()
        self.signature = signature(
            self.about.columns,
            self.about.said.inputs,
            max_length=self.about.said.max_length,
            max_batch=self.about.key.profile.batch[-1],
        )

    def execute(self, inputs: Mapping[str, NDArray[Any]]) -> Sequence[NDArray[np.float32]]:
        """Return the outputs in the order of `Answers`.

        Raises:
            PlumblineError: TensorRT failed.
        """
        import torch

        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        with torch.cuda.stream(stream):
            # Kept until the stream is done: TensorRT knows addresses only.
            given = {name: torch.from_numpy(np.ascontiguousarray(inputs[name])).cuda() for name in NAMES}
            for name, value in given.items():
                self._context.set_input_shape(name, tuple(value.shape))
                self._context.set_tensor_address(name, value.data_ptr())
            taken = [
                torch.empty(tuple(self._context.get_tensor_shape(name)), dtype=torch.float32, device="cuda")
                for name in self._outputs
            ]
            for name, value in zip(self._outputs, taken, strict=True):
                self._context.set_tensor_address(name, value.data_ptr())
            done = self._context.execute_async_v3(stream.cuda_stream)
            stream.synchronize()
        if not done:
            raise PlumblineError("TensorRT did not answer; its own messages say why.")
        return [value.cpu().numpy() for value in taken]
