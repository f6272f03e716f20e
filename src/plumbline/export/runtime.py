"""Run a released model in ONNX Runtime, without torch."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from plumbline.core.errors import InputError
from plumbline.core.extras import list_runtimes
from plumbline.core.jobs import usable_threads
from plumbline.export.answers import Answers, Released, cut_to_longest, split_by_length
from plumbline.export.interface import FLOATS, MASK, NAMES, read_properties, signature

CPU = "CPUExecutionProvider"
ON_CUDA = ("CUDAExecutionProvider", {"use_tf32": "0", "cudnn_conv_algo_search": "HEURISTIC"})
"""float32 is computed as float32; and the fastest convolution is not searched for anew at
each length."""
PROVIDERS: dict[str, list[Any]] = {
    "CUDAExecutionProvider": [ON_CUDA],
    "TensorrtExecutionProvider": ["TensorrtExecutionProvider", ON_CUDA],
}
"""Arguments for a provider whose name is not enough; CUDA runs what TensorRT does not."""


class OnnxModel(Released):
    """An ONNX file in ONNX Runtime. On the CPU each thread has a part of the batch, see
    `split_by_length`."""

    def __init__(self, path: Path, provider: str = CPU, threads: int = 0) -> None:
        """Open a model.

        Args:
            path: the file. provider: ONNX Runtime's name of the device. threads: to work on
                a batch; 0: as many as OMP_NUM_THREADS says, as torch does, else all cores.

        Raises:
            InputError: ONNX Runtime cannot read the file, it is not a model of this
                project, or ONNX Runtime silently took another device.
        """
        _refuse_both_runtimes()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        n_threads = threads or usable_threads()
        self._threads = n_threads if provider == CPU else 1
        options.intra_op_num_threads = 1 if provider == CPU else n_threads
        if provider != CPU:
            with redirect_stdout(sys.stderr):  # it prints what it does not find
                # CUDA's libraries that pip installed; torch, which loads them, may be away
                onnxruntime.preload_dlls()
        try:
            # Only the named providers are used, and nothing is tried again elsewhere: no silent
            # change of device.
            self._session: Any = onnxruntime.InferenceSession(
                str(path), options, providers=PROVIDERS.get(provider, [provider]), enable_fallback=0
            )
        except Exception as error:  # ONNX Runtime raises classes of its own for each sort of damage
            raise InputError(
                f"{path}: ONNX Runtime cannot open it ({error}).", key="onnx.not_opened"
            ) from None
        if self._session.get_providers()[0] != provider:
            raise InputError(
                f"{path}: {provider} did not start, and ONNX Runtime took "
                f"{self._session.get_providers()[0]}. Its libraries are missing or of another "
                "version.",
                key="onnx.provider_not_started",
            )
        shapes = {value.name: value.shape for value in self._session.get_inputs()}
        for kind, names, needed in (
            (
                "outputs",
                tuple(output.name for output in self._session.get_outputs()),
                Answers._fields,
            ),
            ("inputs", tuple(shapes), NAMES),
        ):
            if names != needed:
                raise InputError(
                    f"{path}: {kind} {', '.join(names)} found, {', '.join(needed)} needed.",
                    key="onnx.other_tensors",
                )
        self.about = read_properties(self._session.get_modelmeta().custom_metadata_map, str(path))
        """Metadata of the file."""
        columns = {name: shapes[name][-1] for name in FLOATS}
        self.signature = signature(columns, self.about.inputs, max_length=self.about.max_length)

    @property
    def category_share(self) -> list[float]:
        """Return the category shares of the calibration buildings, to which the
        probabilities of categories refer."""
        return self.about.category_share

    def execute(self, inputs: Mapping[str, NDArray[Any]]) -> Sequence[NDArray[np.float32]]:
        """Return the outputs in the order of `Answers`."""
        batch = split_by_length(inputs[MASK], self._threads) if self._threads > 1 else []
        if len(batch) < 2:
            return self._execute(inputs)
        # Parts are cut as threads become free, so that no more than they work on is held twice.
        outputs_of_parts = list(
            self._workers.map(lambda part: self._execute(cut_to_longest(inputs, part)), batch)
        )
        back = np.argsort(np.concatenate(batch))
        return [np.concatenate(output)[back] for output in zip(*outputs_of_parts, strict=True)]

    def _execute(self, inputs: Mapping[str, NDArray[Any]]) -> Sequence[NDArray[np.float32]]:
        outputs: list[NDArray[np.float32]] = self._session.run(None, dict(inputs))
        return outputs

    @cached_property
    def _workers(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._threads, "answer")


def _refuse_both_runtimes() -> None:
    """Refuse CPU and GPU runtime together: pip puts both into one folder, and either may be
    imported.

    Raises:
        InputError: both are installed.
    """
    if len(list_runtimes()) > 1:
        raise InputError(
            "onnxruntime and onnxruntime-gpu are both installed. Uninstall both, then install "
            "one of them.",
            key="onnxruntime.installed_twice",
        )
