"""The families of models, and what each does in a stage: `params.yaml` says which family a project is of."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import yaml

from plumbline.core.errors import InputError


class Family(Protocol):
    """The stages of a family, in the order of the data's way; each reads and writes below `data`."""

    name: str

    def simulate(self, params: Path, data: Path) -> None:
        """Invent what to train on, as products."""

    def ingest(self, params: Path, data: Path, workers: int | None) -> None:
        """Read products."""

    def prepare(self, params: Path, data: Path, workers: int | None) -> None:
        """Make what the network is given."""

    def train(self, params: Path, data: Path) -> None:
        """Fit and calibrate."""

    def compress(self, params: Path, data: Path) -> None:
        """Make it cheaper."""

    def export(self, params: Path, data: Path) -> None:
        """Write ONNX."""

    def validate(self, params: Path, data: Path) -> None:
        """Measure, and apply the gates."""

    def package(self, params: Path, data: Path) -> None:
        """Write the package, if the gates let it."""


def family_in(params: Path) -> Family:
    """The family that a params file says it is of; diagnosis, where it says none.

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


def on_all_devices(options: Any) -> None:
    """With several devices, what follows is done in a process for each."""
    if options.devices > 1 or options.nodes > 1:
        from plumbline.train.distributed.launch import one_process_a_device

        one_process_a_device(options)
