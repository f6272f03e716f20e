"""Measure the speed, size and accuracy of a package on this machine: `plumbline bench`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plumbline.cli.options import (
    DATA,
    POINTS,
    RARE,
    FormatOption,
    PackageArgument,
    PointsCommand,
    ProductsOption,
    print_table,
)
from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.extras import install, is_installed
from plumbline.params import Ingest, load_ingest

if TYPE_CHECKING:
    from plumbline.export.package import Manifest
    from plumbline.validate.bench.inputs import BenchInputs

app = typer.Typer()
TABLE_WIDTH = 200


@app.command(
    cls=PointsCommand, epilog="Example: `plumbline bench pretrained --prepared data/prepare --json bench.json`"
)
def bench(
    package: PackageArgument,
    prepared: Annotated[
        Path | None, typer.Option(help="Folder of the stage `prepare`, or of one split, to take buildings from.")
    ] = None,
    points: Annotated[
        list[Path] | None,
        typer.Option(metavar=POINTS, help="Else your own point products, a track each: files, a folder or a pattern."),
    ] = None,
    buildings: Annotated[Path | None, typer.Option(help="Footprints that belong to --points.")] = None,
    labels: Annotated[Path | None, typer.Option(help="Labels of these buildings, for the accuracy: csv.")] = None,
    json_path: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write all figures.")] = None,
    batch: Annotated[
        list[int] | None,
        typer.Option(
            min=1, help="Batch to measure; give more by repeating. 1, 16, 64, 256 without.", rich_help_panel=RARE
        ),
    ] = None,
    rounds: Annotated[
        int,
        typer.Option(min=1, help="Turns of each contender; more are slower and steadier.", rich_help_panel=RARE),
    ] = 3,
    format_: FormatOption = None,
    params: ProductsOption = None,
) -> None:
    """Measure every artifact of a package under every runtime of this machine.

    Without --prepared and --points it takes data/prepare/test where that is, and else random inputs.
    """
    from plumbline.core.files import write_json
    from plumbline.export.package import open_package
    from plumbline.export.weights import load_network
    from plumbline.release.resolve import resolve_model
    from plumbline.sources.city.point_files import point_files
    from plumbline.train.monitor.record import hardware
    from plumbline.validate.bench.run import BATCHES
    from plumbline.validate.bench.run import bench as run
    from plumbline.validate.bench.summary import advice, bench_document, bench_table

    _check(prepared, points, buildings, labels)
    for option, value in (("--format", format_), ("--params", params)):
        if value is not None and not points:
            raise InputError(f"{option}: it says how --points and --buildings are read. Give those as well.")
    points = point_files(points) if points else None
    folder = resolve_model(package)
    if json_path is not None:
        _check_json(json_path, folder, [*(points or ()), *filter(None, (buildings, labels, params))])
    manifest, _ = open_package(folder)
    reference = load_network(folder) if is_installed("torch") else None
    if reference is None:
        log.info("PyTorch is not installed and so not measured (%s)", install("torch"))
    if points and buildings:
        inputs = _own(points, buildings, labels, manifest, params, format_)
    else:
        inputs = _prepared(prepared, folder)
    machine = hardware()
    rows = run(folder, manifest, reference, inputs, sorted(set(batch or BATCHES)), rounds)
    said = advice(rows, manifest.default_model)
    if json_path is not None:
        write_json(json_path, bench_document(rows, manifest, inputs, machine, said))
    print_table(bench_table(rows, manifest, inputs, machine), TABLE_WIDTH)
    for sentence in said:
        typer.echo(sentence)


def _check(prepared: Path | None, points: Sequence[Path] | None, buildings: Path | None, labels: Path | None) -> None:
    if prepared is not None and (points or buildings or labels):
        raise InputError("--prepared goes with neither --points, --buildings nor --labels. Give one or the other.")
    if bool(points) != (buildings is not None):
        there, missing = ("--points", "--buildings") if points else ("--buildings", "--points")
        raise InputError(f"{there} was given and {missing} was not. Give both, or neither.")
    if labels is not None and not points:
        raise InputError("--labels: they belong to --points and --buildings. Give those as well.")


def _check_json(path: Path, package: Path, inputs: Sequence[Path]) -> None:
    """Refuse an unusable path for the figures, before minutes of measuring."""
    if package.resolve() in path.resolve().parents:
        raise InputError(f"--json {path}: is inside the model package, which must stay as it is. Give another folder.")
    if path.resolve() in {other.resolve() for other in inputs}:
        raise InputError(f"--json {path}: is one of the inputs, which would be overwritten. Give another name.")
    if path.is_dir() or not path.resolve().parent.is_dir():
        raise InputError(f"--json {path}: must be a file in a folder that is there.")


def _prepared(prepared: Path | None, package: Path) -> BenchInputs:
    from plumbline.export.weights import read_trained
    from plumbline.validate.bench.inputs import prepared_inputs, random_inputs

    if prepared is not None:
        return prepared_inputs(prepared)
    if (DATA / "prepare" / "test").is_dir():
        return prepared_inputs(DATA / "prepare")
    log.warning("no --prepared, no --points, and no data/prepare/test: random inputs, and so no accuracy")
    return random_inputs(read_trained(package))


def _own(
    points: Sequence[Path],
    buildings: Path,
    labels: Path | None,
    manifest: Manifest,
    params: Path | None,
    format_: str | None,
) -> BenchInputs:
    """Prepare the user's own buildings as the package needs them; with labels, only the labelled ones."""
    import numpy as np

    from plumbline.prepare.buildings import prepare_buildings
    from plumbline.prepare.tile import label
    from plumbline.serve.outputs import check_inputs
    from plumbline.sources.city.labels import match_footprints, read_labels
    from plumbline.sources.in_memory import Say, read_city_files
    from plumbline.validate.bench.inputs import chosen

    check_inputs([*points, buildings, *([labels] if labels else [])])
    known = read_labels(labels) if labels else None
    ingest = load_ingest(params) if params else Ingest()
    city = read_city_files(points, buildings, ingest, format_, say=Say.NOTHING)
    if labels is not None and known is not None:
        known = match_footprints(known, city.footprints, labels, buildings)
    sequences = prepare_buildings(city.points, city.footprints, manifest.prepare).sequences
    if known is None:
        return chosen(sequences, str(buildings))
    sequences, has_label = label(sequences, known)
    return chosen(sequences.take(np.flatnonzero(has_label)), f"{buildings} with {labels}")
