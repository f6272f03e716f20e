"""Parts about answers: ONNX Runtime and TensorRT beside torch eager on the same device, with parity and memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray

from benchmarks.gpu.parts import BATCHES, Found, NotMeasured, Table, Work
from benchmarks.gpu.training import prepared
from plumbline import pretrained
from plumbline.core.errors import InputError
from plumbline.export.answers import Answers, Released
from plumbline.export.interface import signature
from plumbline.export.package import MODELS
from plumbline.export.runtime import CPU, OnnxModel
from plumbline.export.tensorrt.build import build_from_package
from plumbline.export.tensorrt.device import this_device
from plumbline.export.tensorrt.runtime import TensorRTModel
from plumbline.export.weights import load_network
from plumbline.model.diagnosis import Diagnosis
from plumbline.params.compress import EngineArtifact
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE
from plumbline.prepare.features.shards import load_shards
from plumbline.validate.measure import middle_building, parity_figures, run_seconds

PACKAGE = Path(pretrained.__file__).parent / "package"
CUDA = "CUDAExecutionProvider"
BUILDINGS = 2048
"""Most buildings that are answered for."""
LARGEST = {"pruned": (1e-4, 1e-3), "fp16": (5e-3, 2e-2), "int8": (0.15, 1.5)}
"""How far an artifact may be from torch, in probability and permille: the gates of params.yaml."""
COLUMNS = ["runtime", "artifact", "ready in, s", "one building, ms", *(f"B {batch}: buildings/s" for batch in BATCHES),
           "from torch: probability", "permille", "allowed", "GPU memory, MB"]  # fmt: skip


class EagerOn(Released):
    """The network under torch eager on a device; inputs and answers lie in the machine's memory, as of the others."""

    def __init__(self, model: Diagnosis, device: str) -> None:
        self.name = "torch eager"
        widths = {"distance": len(DISTANCE), "slope": len(SLOPE), "geometry": len(GEOMETRY)}
        self.signature = signature(widths, [], max_length=model.network.spec.max_length)
        self._model, self._on = model.to(device), device

    def execute(self, inputs: Mapping[str, NDArray[Any]]) -> Answers:
        """Return the outputs."""
        names = ("distance", "slope", "geometry", "mask")
        given = [torch.from_numpy(np.ascontiguousarray(inputs[name])).to(self._on) for name in names]
        with torch.inference_mode():
            return Answers(*(value.cpu().numpy() for value in self._model(*given)))


class Contenders:
    """Runtimes that answer for the same buildings, and their rows."""

    def __init__(self, title: str, work: Work) -> None:
        self.table, self.beyond = Table(title, COLUMNS), list[str]()
        test = load_shards(prepared(work) / "data" / "prepare" / "test")
        self._inputs = test.take(np.arange(min(BUILDINGS, len(test))))
        self._reference, self._dry = load_network(PACKAGE), work.dry
        self.add("torch eager", "float32", lambda: EagerOn(load_network(PACKAGE), work.device), "pruned")

    def add(self, name: str, artifact: str, start: Callable[[], Released], bound: str) -> None:
        """Measure one; `bound` names its parity."""
        began, free = time.perf_counter(), _free()
        model = start()
        ready = time.perf_counter() - began
        data, seconds = self._inputs, 0.2 if self._dry else 2.0

        def median(inputs: list[Any]) -> float:
            return float(np.median(run_seconds(model, inputs, 200, seconds)))  # type: ignore[arg-type]

        cells = [name, artifact, f"{ready:.1f}", f"{1000 * median([middle_building(data)]):.2f}"]
        drawn = np.random.default_rng(0).permutation(len(data))
        for batch in BATCHES:
            cells.append(f"{batch / median([data.pad(np.resize(drawn, batch))]):,.0f}")
        apart = tuple(parity_figures(self._reference, data, model.answer(data)).values())
        largest = LARGEST[bound]
        if not all(one <= most for one, most in zip(apart, largest, strict=True)):
            self.beyond.append(f"{name} {artifact}")
        used = "–" if self._dry else f"{(free - _free()) / 2**20:,.0f}"
        bounds = " and ".join(f"{most:g}" for most in largest)
        self.table.rows.append([*cells, *(f"{one:.1e}" for one in apart), bounds, used])

    def found(self) -> Found:
        """Return what was measured; failed where an artifact is further from torch than its gate allows."""
        failed = f"further from torch than allowed: {', '.join(self.beyond)}" if self.beyond else ""
        return Found([self.table], failed)


def _free() -> float:
    """Return the free memory of the GPU, bytes."""
    return torch.cuda.mem_get_info()[0] if torch.cuda.is_available() else 0.0


def onnx_runtime(work: Work) -> Found:
    """Measure each file of the shipped package under ONNX Runtime; dry, on the CPU."""
    provider = CPU if work.dry else CUDA
    if provider not in (listed := onnxruntime.get_available_providers()):
        raise NotMeasured(f"ONNX Runtime has {', '.join(listed)} only: install onnxruntime-gpu in onnxruntime's place")
    contenders = Contenders(f"ONNX Runtime ({provider}) beside torch eager", work)
    for file, artifact in MODELS.items():
        start = lambda file=file: OnnxModel(PACKAGE / file, provider)  # noqa: E731
        contenders.add("ONNX Runtime", artifact, start, artifact)
    return contenders.found()


def tensorrt(artifact: EngineArtifact) -> Callable[[Work], Found]:
    """Make the part that builds an engine of an artifact, compares its answers and times it."""

    def part(work: Work) -> Found:
        try:
            this_device()
        except InputError as missing:
            raise NotMeasured(str(missing)) from None
        contenders = Contenders("TensorRT beside torch eager", work)

        def start() -> TensorRTModel:
            return TensorRTModel(build_from_package(PACKAGE, work.folder / "engines", artifact))

        contenders.add("TensorRT", artifact, start, artifact)
        return contenders.found()

    return part
