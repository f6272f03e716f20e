"""What a part of the run is given and returns, and the list of all parts: those first on which others build."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

BATCHES = (1, 64, 256)


class NotMeasured(Exception):
    """A part that this machine cannot run, for want of a library or of a GPU; says which."""


@dataclass
class Table:
    """Rows of a page. Tables of several parts with one title become one."""

    title: str
    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)


@dataclass
class Found:
    """What the function of a part returns."""

    tables: list[Table]
    failed: str = ""
    """Why the part failed, where it has tables all the same."""


@dataclass
class Work:
    """What the function of a part is given."""

    dry: bool
    folder: Path
    """For its own files; kept between runs."""

    @property
    def device(self) -> str:
        """Name the device to compute on."""
        return "cpu" if self.dry else "cuda"


TRAININGS = ("float32", "bf16", "fp16", "bf16-compiled", "bf16-compiled-ragged")
PARTS = {
    "ragged": ("attention", "ragged", ""),
    "checkpointing": ("attention", "checkpointing", ""),
    "restore": ("restore", "restore", ""),
    "data": ("training", "data", ""),
    **{f"training-{name}": ("training", "training", name) for name in TRAININGS},
    "onnxruntime": ("runtimes", "onnx_runtime", ""),
    **{f"tensorrt-{name}": ("runtimes", "tensorrt", name) for name in ("fp16", "int8")},
}
"""Name of each part -> module, function, and what the function is given to make the part; empty: it is the part."""


def load_part(name: str) -> Callable[[Work], Found]:
    """Load the function of a part, with the libraries that it needs."""
    module, function, given = PARTS[name]
    loaded = getattr(importlib.import_module(f"benchmarks.gpu.{module}"), function)
    part: Callable[[Work], Found] = loaded(given) if given else loaded
    return part
