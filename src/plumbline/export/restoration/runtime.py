"""Run the denoiser by ONNX Runtime, with or without an adapter, and without torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import numpy_helper

from plumbline.core.errors import InputError
from plumbline.model.restoration.diffusion import Float, alphas_cumulative
from plumbline.prepare.restoration.conditions import CHANNELS

CPU = "CPUExecutionProvider"
Change = Mapping[str, NDArray[np.float32]]
"""What an adapter adds to the weights of these names."""


class FieldModel:
    """A denoiser that is ready to restore."""

    def __init__(self, path: Path, change: Change | None = None, provider: str = CPU, threads: int = 0) -> None:
        """Open a model.

        Args:
            path: the ONNX file. change: of an adapter, see `adapter_files.weight_changes`. provider: ONNX Runtime's
                name of the device. threads: to compute with; 0: all cores.

        Raises:
            InputError: the file is not a denoiser of this version, or the adapter is of another.
        """
        try:
            model = onnx.load(path)
            spec = json.loads({item.key: item.value for item in model.metadata_props}["spec"])
            self.alphas = alphas_cumulative(spec["schedule"], int(spec["train_steps"]))
            self.multiple = 2 ** (len(spec["channels"]) - 1)
            conditions = tuple(spec["conditions"])
        except Exception as error:  # protobuf, JSON and our own keys fail in classes of their own
            detail = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InputError(f"{path}: not readable as a denoiser of fields ({detail}).") from None
        if conditions != CHANNELS:
            raise InputError(f"{path}: made for other conditions than this version of Plumbline describes.")
        if change:
            change_weights(model, change, path)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = threads
        # Threads that wait for one another by spinning take the time of whoever else runs on a small machine.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session: Any = onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=[provider], enable_fallback=0
            )
        except Exception as error:
            raise InputError(f"{path}: ONNX Runtime cannot open it ({error}).") from None
        if self._session.get_providers()[0] != provider:
            raise InputError(f"{path}: {provider} did not start. Its libraries are missing or of another version.")

    def denoise(self, noisy: Float, step: int, conditions: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return (B, F, H, W) the clean field; `conditions` (C, H, W) are the same for all samples."""
        batch = np.broadcast_to(conditions, (len(noisy), *conditions.shape))
        steps = np.full(len(noisy), step, np.int64)
        given = {
            "noisy": noisy.astype(np.float32, copy=False),
            "step": steps,
            "conditions": np.ascontiguousarray(batch),
        }
        clean: NDArray[np.float32] = self._session.run(None, given)[0]
        return clean


def change_weights(model: onnx.ModelProto, change: Change, path: Path) -> None:
    """Add an adapter's change to the weights of a graph, in place.

    Raises:
        InputError: a weight of the adapter is not in the graph, as in int8, or has another shape.
    """
    named = {tensor.name: tensor for tensor in model.graph.initializer}
    for name, added in change.items():
        tensor = named.get(name) or named.get(f"{name}.half")
        if tensor is None or tuple(tensor.dims) != added.shape:
            raise InputError(
                f"{path}: has no weights {name} of shape {added.shape}, which the adapter changes. Adapters fit the "
                "float32 and fp16 models of the package that they were trained on."
            )
        values = numpy_helper.to_array(tensor)
        tensor.CopyFrom(numpy_helper.from_array((values + added).astype(values.dtype), tensor.name))
