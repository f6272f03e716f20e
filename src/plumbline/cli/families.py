"""List what the families of models do in each stage; `params.yaml` chooses the family."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from plumbline.cli.options import on_all_devices
from plumbline.core.errors import InputError, ParameterError
from plumbline.core.extras import need
from plumbline.core.source_code import check_code
from plumbline.params import Simulate, is_partial, load_params, load_section
from plumbline.params.load import load_restoration

SECTION_ARGUMENTS = ("params", "limits")
"""Names of the arguments of a stage that take the sections of the parameters, in the order
of `Step.sections`."""
LEARNING = ("train", "compress", "export", "validate", "package")
"""Stages that need the extras of their family."""


@dataclass(frozen=True)
class Step:
    """What a family does in one stage: a function of input folders, sections of the
    parameters, and the output."""

    place: str
    """Module and function, loaded when the stage runs: `MODULE:FUNCTION`."""
    reads: tuple[str, ...] = ()
    """Folders below `data`."""
    sections: tuple[str, ...] = ()
    """Sections of the parameters that are arguments; if empty, all parameters are one argument."""
    trains: bool = False
    """True if it trains, on all devices that are set."""
    arguments: Callable[[Path, Path], list[Any]] | None = None
    """Function of the params file and `data` that returns the arguments before the output;
    None: the folders and sections above."""


@dataclass(frozen=True)
class CommandFamily:
    """A family of models."""

    name: str
    load: Callable[[Path], Any]
    """Reads its parameters."""
    extras: tuple[str, ...]
    steps: Mapping[str, Step]

    def run(self, stage: str, params: Path, data: Path, **more: Any) -> None:
        """Run a stage, which reads and writes below `data`; `more`: further arguments, as
        the number of processes.

        Raises:
            InputError: see the stage; or the package that runs is not that of this checkout.
        """
        check_code(stage)
        for extra in self.extras if stage in LEARNING else ():
            need(extra, stage)
        step = self.steps[stage]
        try:
            sections = {} if step.arguments else self._sections(step, params)
            arguments = (
                step.arguments(params, data)
                if step.arguments
                else [data / folder for folder in step.reads]
            )
            module, _, function = step.place.partition(":")
            getattr(importlib.import_module(module), function)(
                *arguments, **sections, out=data / stage, **more
            )
        except ParameterError as error:
            raise InputError(f"{params}: {error}", key=error.key) from None

    def _sections(self, step: Step, params: Path) -> dict[str, Any]:
        loaded = self.load(params)
        if step.trains:
            on_all_devices(loaded.train)
        sections = [getattr(loaded, section) for section in step.sections] or [loaded]
        return dict(zip(SECTION_ARGUMENTS, sections, strict=False))


def _simulation_arguments(params: Path, data: Path) -> list[Any]:
    # A file that only makes a city to try commands on needs no other section.
    section = load_section(params, "simulate", Simulate) if is_partial(params) else None
    return [section or load_params(params).simulate]


def _ingest_arguments(params: Path, data: Path) -> list[Any]:
    from plumbline.sources.city.files import city_folders

    values, cities = load_params(params), city_folders(data)
    if cities:
        values.gate.check_cities(folder.name for folder in cities)  # else the gate fails at the end
    return [cities, values.ingest]


def _approval_arguments(params: Path, data: Path) -> list[Any]:
    family_in(params).load(params)  # only checked: no parameter changes an approval
    return [data / "export", data / "gate"]


DIAGNOSIS = CommandFamily(
    "diagnosis",
    load_params,
    ("pipeline",),
    {
        "simulate": Step("plumbline.simulate.stage:simulate", arguments=_simulation_arguments),
        "ingest": Step("plumbline.sources.city.ingest:ingest", arguments=_ingest_arguments),
        "prepare": Step("plumbline.prepare.stage:prepare", ("ingest",), ("prepare",)),
        "train": Step("plumbline.train.stage:train", ("prepare",), trains=True),
        "compress": Step("plumbline.compress.stage:compress", ("prepare", "train"), trains=True),
        "export": Step(
            "plumbline.export.stage:export", ("prepare", "train", "compress"), ("export",)
        ),
        "validate": Step(
            "plumbline.validate.stage:validate",
            ("prepare", "train", "compress", "export"),
            ("validate_", "prepare"),
        ),
        "gate": Step("plumbline.validate.gate:gate", ("validate",), ("gate",)),
        "approve": Step("plumbline.release.approval:approve", arguments=_approval_arguments),
        "package": Step(
            "plumbline.release.package:package",
            ("prepare", "export", "validate", "gate", "approve"),
        ),
    },
)
RESTORATION = CommandFamily(
    "restoration",
    load_restoration,
    ("pipeline", "restore"),
    {
        "simulate": Step("plumbline.fields.simulate.stage:simulate", (), ("simulate",)),
        "ingest": Step("plumbline.fields.simulate.stage:ingest", ("simulate/scenes",), ("ingest",)),
        "prepare": Step("plumbline.fields.prepare.stage:prepare", ("ingest",), ("prepare",)),
        "train": Step("plumbline.fields.train.stage:train", ("prepare",), trains=True),
        "compress": Step("plumbline.fields.release.onnx:compress", ("prepare", "train")),
        "export": Step("plumbline.fields.release.onnx:export", ("prepare", "train")),
        "validate": Step("plumbline.fields.release.validate:validate", ("prepare", "export")),
        "gate": Step("plumbline.fields.release.gates:gate", ("validate",), ("gate",)),
        "approve": Step("plumbline.release.approval:approve", arguments=_approval_arguments),
        "package": Step(
            "plumbline.fields.release.validate:package",
            ("prepare", "export", "validate", "gate", "approve"),
        ),
    },
)
FAMILIES = {family.name: family for family in (DIAGNOSIS, RESTORATION)}


def family_in(params: Path) -> CommandFamily:
    """Return the family that is set in a params file; diagnosis by default.

    Raises:
        InputError: the file has an unknown family.
    """
    try:
        content = yaml.safe_load(params.read_text(encoding="utf-8"))
    except (OSError, UnicodeError, yaml.YAMLError):
        content = None  # the function that reads the values reports the error
    name = content.get("family", "diagnosis") if isinstance(content, dict) else "diagnosis"
    if not isinstance(name, str) or name not in FAMILIES:
        raise InputError(
            f"{params}: family: {name!r} found, one of {', '.join(FAMILIES)} needed.",
            key="params.unknown_family",
        )
    return FAMILIES[name]
