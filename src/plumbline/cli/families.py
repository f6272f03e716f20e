"""Choose the family of models from `params.yaml`, and define what a family does in each stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import yaml

from plumbline.core.errors import InputError


class Family(Protocol):
    """Stages of a family, in order; each reads and writes below `data`."""

    name: str

    def simulate(self, params: Path, data: Path) -> None:
        """Simulate training data, as products."""

    def ingest(self, params: Path, data: Path, workers: int | None) -> None:
        """Read products."""

    def prepare(self, params: Path, data: Path, workers: int | None) -> None:
        """Make the inputs of the network."""

    def train(self, params: Path, data: Path) -> None:
        """Train and calibrate."""

    def compress(self, params: Path, data: Path) -> None:
        """Make the network smaller and faster."""

    def export(self, params: Path, data: Path) -> None:
        """Write ONNX."""

    def validate(self, params: Path, data: Path) -> None:
        """Measure the models, and apply the gates."""

    def package(self, params: Path, data: Path) -> None:
        """Write the package, if every gate was passed."""


def family_in(params: Path) -> Family:
    """Return the family that is set in a params file; diagnosis by default.

    Raises:
        InputError: it says another.
    """
    from plumbline.cli import diagnosis, restoration

    known: dict[str, Any] = {"diagnosis": diagnosis, "restoration": restoration}
    try:
        content = yaml.safe_load(params.read_text(encoding="utf-8"))
    except (OSError, UnicodeError, yaml.YAMLError):
        content = None  # whoever reads it for its values says what is wrong
    name = content.get("family", "diagnosis") if isinstance(content, dict) else "diagnosis"
    if not isinstance(name, str) or name not in known:
        raise InputError(f"{params}: family: {name!r} found, one of {', '.join(known)} needed.")
    found: Family = known[name]
    return found
