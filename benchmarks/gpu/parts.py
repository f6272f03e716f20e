"""All parts of the run, in their order: those that others build on first, the cheap ones before the dear ones.

A part loads what it needs only when it runs, so that a library that is missing is one part's trouble.
"""

from __future__ import annotations

import importlib

from benchmarks.gpu.results import Found, Work
from benchmarks.gpu.runner import Part


def _of(module: str, function: str, *given: str) -> Part:
    """Return a part of another module; with `given`, the one that the function makes of it."""

    def part(work: Work) -> Found:
        named = getattr(importlib.import_module(f"benchmarks.gpu.{module}"), function)
        found: Found = (named(*given) if given else named)(work)
        return found

    return part


PARTS: dict[str, Part] = {
    "kernels": _of("attention", "kernels"),
    "ragged": _of("attention", "ragged"),
    "checkpointing": _of("attention", "checkpointing"),
    "restore": _of("restore", "restore"),
    "data": _of("training", "data"),
    **{
        f"training-{name}": _of("training", "training", name)
        for name in ("float32", "bf16", "fp16", "bf16-compiled", "bf16-compiled-ragged", "bf16-sent")
    },
    "onnxruntime": _of("runtimes", "onnx_runtime"),
    **{f"tensorrt-{name}": _of("runtimes", "tensorrt", name) for name in ("fp16", "int8")},
    **{f"roofline-{name}": _of("attention", "roofline", name) for name in ("bf16", "fp16", "fp32")},
    **{name: _of("marked", "tests", name) for name in ("tests-kernels", "tests-training", "tests-tensorrt")},
}
