"""The bars that a GPU judges, each a ratio or a figure of what the parts found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SCATTERERS = (4096, 16384, 65536, 262144)
"""Of a batch at which `ragged` is held against padded SDPA."""
BATCHES = (1, 64, 256)


@dataclass(frozen=True)
class Bar:
    """A figure, or one divided by another, and what it must be."""

    name: str
    figure: str
    by: str = ""
    """The figure that it is divided by; empty: none."""
    least: float | None = None
    most: float | None = None

    def value(self, figures: Mapping[str, float]) -> float | None:
        """Return what was measured; None where a figure is missing or no number."""
        found = figures.get(self.figure)
        base = figures.get(self.by) if self.by else 1.0
        if found is None or not base or found != found or base != base:
            return None
        return found / base

    def met(self, value: float) -> bool:
        """Say whether the bar is reached."""
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def text(self, value: float) -> str:
        """Return the value in words."""
        return f"{value:.2f} times" if self.by else f"{value:.1%}"

    @property
    def needed(self) -> str:
        """Return what is needed in words."""
        return f"at least {self.least:g} times" if self.least is not None else f"at most {self.most:.0%}"


def _ragged(count: int, layout: str) -> Bar:
    how = "without padding" if layout == "ragged" else "in the padded batch that training has"
    name = f"`ragged` {how}, beside padded SDPA: 8 to 64 scatterers a building, {count:,} a batch, bf16"
    return Bar(name, f"ragged.{count}.sdpa.ms", f"ragged.{count}.{layout}.ms", least=2.0)


BARS = [
    *(_ragged(count, "ragged") for count in SCATTERERS),
    *(_ragged(count, "ragged, padded") for count in SCATTERERS),
    Bar("training, bf16 compiled, beside eager float32", "training.bf16-compiled.rate", "training.float32.rate", 5.0),
    Bar("share of that training in the data path", "training.bf16-compiled.between", most=0.05),
    *(
        Bar(f"TensorRT fp16 beside torch eager, buildings a second, batches of {count}",
            f"tensorrt-fp16.{count}.rate", f"tensorrt-fp16.eager.{count}.rate", least=5.0)
        for count in BATCHES
    ),
]  # fmt: skip
