"""Run the stages of restoration: a dense field from sparse points."""

from __future__ import annotations

from pathlib import Path

from plumbline.cli.options import on_all_devices
from plumbline.core.extras import need
from plumbline.params.load import load_restoration

name = "restoration"


def simulate(params: Path, data: Path) -> None:
    """See `families.Family`."""
    from plumbline.fields.simulate.stage import simulate as run

    run(load_restoration(params).simulate, data / "simulate")


def ingest(params: Path, data: Path, workers: int | None) -> None:
    """See `families.Family`."""
    from plumbline.fields.simulate.stage import ingest as run

    run(data / "simulate" / "scenes", load_restoration(params).ingest, data / "ingest", workers)


def prepare(params: Path, data: Path, workers: int | None) -> None:
    """See `families.Family`."""
    from plumbline.fields.prepare.stage import prepare as run

    run(data / "ingest", load_restoration(params).prepare, data / "prepare", workers)


def train(params: Path, data: Path) -> None:
    """See `families.Family`."""
    given = load_restoration(params)
    _ready("train")
    on_all_devices(given.train)
    from plumbline.fields.train.stage import train as run

    run(data / "prepare", given, data / "train")


def compress(params: Path, data: Path) -> None:
    """See `families.Family`."""
    _ready("compress")
    from plumbline.fields.release.onnx import compress as run

    run(data / "prepare", data / "train", load_restoration(params), data / "compress")


def export(params: Path, data: Path) -> None:
    """See `families.Family`."""
    _ready("export")
    from plumbline.fields.release.onnx import export as run

    run(data / "prepare", data / "train", load_restoration(params), data / "export")


def validate(params: Path, data: Path) -> None:
    """See `families.Family`."""
    _ready("validate")
    from plumbline.fields.release.validate import validate as run

    run(data / "prepare", data / "export", load_restoration(params), data / "validate")


def package(params: Path, data: Path) -> None:
    """See `families.Family`."""
    _ready("package")
    from plumbline.fields.release.validate import package as run

    run(data / "prepare", data / "export", data / "validate", load_restoration(params), data / "package")


def _ready(stage: str) -> None:
    need("pipeline", stage)
    need("restore", stage)
