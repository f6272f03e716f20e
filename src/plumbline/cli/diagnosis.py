"""Run the stages of diagnosis: which buildings are being damaged, where and how badly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from plumbline.cli.options import on_all_devices
from plumbline.core.errors import InputError, ParameterError
from plumbline.core.extras import need
from plumbline.params import Simulate, is_partial, load_params, load_section

name = "diagnosis"


def simulate(params: Path, data: Path) -> None:
    """See `families.Family`."""
    from plumbline.simulate.stage import simulate as run

    # A file that only makes a city to try commands on needs no other section.
    alone = load_section(params, "simulate", Simulate) if is_partial(params) else None
    run(alone or load_params(params).simulate, data / "simulate")


def ingest(params: Path, data: Path, workers: int | None) -> None:
    """See `families.Family`."""
    from plumbline.sources.city.files import city_folders
    from plumbline.sources.city.ingest import ingest as run

    given, cities = load_params(params), city_folders(data)
    if cities:
        with _named(params):
            given.validate_.check_cities(folder.name for folder in cities)  # else the run would end with it
    run(cities, given.ingest, data / "ingest", workers)


def prepare(params: Path, data: Path, workers: int | None) -> None:
    """See `families.Family`."""
    from plumbline.prepare.stage import prepare as run

    run(data / "ingest", load_params(params).prepare, data / "prepare", workers)


def train(params: Path, data: Path) -> None:
    """See `families.Family`."""
    need("pipeline", "train")
    given = load_params(params)
    on_all_devices(given.train)
    from plumbline.train.stage import train as run

    run(data / "prepare", given, data / "train")


def compress(params: Path, data: Path) -> None:
    """See `families.Family`."""
    need("pipeline", "compress")
    given = load_params(params)
    on_all_devices(given.train)
    from plumbline.compress.stage import compress as run

    run(data / "prepare", data / "train", given, data / "compress")


def export(params: Path, data: Path) -> None:
    """See `families.Family`."""
    need("pipeline", "export")
    from plumbline.export.stage import export as run

    run(data / "prepare", data / "train", data / "compress", load_params(params).export, data / "export")


def validate(params: Path, data: Path) -> None:
    """See `families.Family`."""
    need("pipeline", "validate")
    from plumbline.validate.stage import validate as run

    given = load_params(params)
    prepared, trained, compressed, exported = (data / stage for stage in ("prepare", "train", "compress", "export"))
    with _named(params):
        run(prepared, trained, compressed, exported, given.validate_, given.prepare, data / "validate")


def package(params: Path, data: Path) -> None:
    """See `families.Family`."""
    need("pipeline", "package")
    from plumbline.release.package import package as run

    run(data / "prepare", data / "export", data / "validate", load_params(params), data / "package")


@contextmanager
def _named(params: Path) -> Iterator[None]:
    """Put the file name in front of messages about its parameters."""
    try:
        yield
    except ParameterError as error:
        raise InputError(f"{params}: {error}") from None
