"""Run `bench`, `triton`, `tensorrt` and `doctor`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plumbline.cli.options import (
    DATA,
    POINTS,
    RARE,
    Commands,
    FormatOption,
    PackageArgument,
    PointsCommand,
    ProductsOption,
    SinceOption,
    UntilOption,
    print_table,
    reading_of,
)
from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.extras import install, is_installed
from plumbline.params.compress import EngineArtifact, Through

if TYPE_CHECKING:
    from plumbline.export.package import Manifest
    from plumbline.sources.city.in_memory import Reading
    from plumbline.sources.files.opened import OpenedFile
    from plumbline.validate.bench import BenchInputs

app = Commands()
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
    since: SinceOption = None,
    until: UntilOption = None,
    params: ProductsOption = None,
) -> None:
    """Measure every artifact of a package under every runtime of this machine.

    Without --prepared and --points it takes data/prepare/test where that is, and else random inputs.
    """
    from plumbline.core.files import write_json
    from plumbline.export.package import open_package
    from plumbline.export.weights import load_network
    from plumbline.release.resolve import resolve_model
    from plumbline.sources.city.files import point_files
    from plumbline.train.monitor.record import hardware
    from plumbline.validate.bench import BATCHES, advice, bench_document, bench_table
    from plumbline.validate.bench import bench as run

    _check(prepared, points, buildings, labels)
    given = {"--format": format_, "--since": since, "--until": until, "--params": params}
    for option, value in given.items():
        if value is not None and not points:
            raise InputError(f"{option}: it says how --points and --buildings are read. Give those as well.")
    reading = reading_of(params, format_, since=since, until=until)
    files = point_files(points or ())
    folder = resolve_model(package)
    if json_path is not None:
        _check_json(json_path, folder, [*(file.path for file in files), *filter(None, (buildings, labels, params))])
    manifest, _ = open_package(folder)
    reference = load_network(folder) if is_installed("torch") else None
    if reference is None:
        log.info("PyTorch is not installed and so not measured (%s)", install("torch"))
    inputs = _own(files, buildings, labels, manifest, reading) if files and buildings else _prepared(prepared, folder)
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
    from plumbline.validate.bench import prepared_inputs, random_inputs

    if prepared is not None:
        return prepared_inputs(prepared)
    if (DATA / "prepare" / "test").is_dir():
        return prepared_inputs(DATA / "prepare")
    log.warning("no --prepared, no --points, and no data/prepare/test: random inputs, and so no accuracy")
    return random_inputs(read_trained(package))


def _own(
    points: Sequence[OpenedFile],
    buildings: Path,
    labels: Path | None,
    manifest: Manifest,
    reading: Reading,
) -> BenchInputs:
    """Prepare the user's own buildings as the package needs them; with labels, only the labelled ones."""
    import numpy as np

    from plumbline.prepare.buildings import prepare_buildings
    from plumbline.prepare.tiles import label
    from plumbline.serve.predictions import check_inputs
    from plumbline.sources.city.in_memory import Say, read_city_files
    from plumbline.sources.city.labels import match_footprints, read_labels
    from plumbline.validate.bench import chosen

    check_inputs([*(file.path for file in points), buildings, *([labels] if labels else [])])
    known = read_labels(labels) if labels else None
    city = read_city_files(points, buildings, reading, Say.NOTHING)
    if labels is not None and known is not None:
        known = match_footprints(known, city.footprints, labels, buildings)
    sequences = prepare_buildings(city.points, city.footprints, manifest.prepare).sequences
    if known is None:
        return chosen(sequences, str(buildings))
    sequences, has_label = label(sequences, known)
    return chosen(sequences.take(np.flatnonzero(has_label)), f"{buildings} with {labels}")


@app.command(epilog="Example: `plumbline triton data/package --output triton_models`")
def triton(
    package: PackageArgument,
    output: Annotated[Path, typer.Option(help="Model repository to write: a folder. One of ours is replaced.")],
    max_batch_size: Annotated[int, typer.Option(min=1, max=65536, help="Buildings a batch at most.")] = 64,
    max_queue_delay_us: Annotated[
        int,
        typer.Option(
            min=0, max=1_000_000, help="How long a request waits for others, microseconds.", rich_help_panel=RARE
        ),
    ] = 500,
    gpu: Annotated[bool, typer.Option("--gpu", help="Run on GPUs; on the CPU without.")] = False,
    tensorrt: Annotated[bool, typer.Option("--tensorrt", help="With --gpu: by TensorRT where it can.")] = False,
    instances: Annotated[int, typer.Option(min=1, max=64, help="Copies of each model.", rich_help_panel=RARE)] = 1,
    threads: Annotated[
        int,
        typer.Option(min=0, max=1024, help="Threads of a copy on the CPU; 0: one for each core.", rich_help_panel=RARE),
    ] = 0,
) -> None:
    """Write a model repository of the Triton Inference Server: a model for each ONNX file of a package."""
    from plumbline.export.triton import Settings, write_repository
    from plumbline.release.resolve import resolve_model

    if tensorrt and not gpu:
        raise InputError("--tensorrt: TensorRT needs a GPU. Give --gpu as well.")
    if threads and gpu:
        raise InputError("--threads: of a copy on the CPU. Leave it out, or --gpu.")
    settings = Settings(max_batch_size, max_queue_delay_us, gpu, tensorrt, instances, threads)
    write_repository(resolve_model(package), output, settings)


@app.command(epilog="Example: `plumbline tensorrt data/package --output engines --artifact fp16`")
def tensorrt(
    package: PackageArgument,
    output: Annotated[Path, typer.Option(help="Folder for engines; each gets a folder of its own in it.")],
    artifact: Annotated[EngineArtifact, typer.Option(help="Model of the package.")] = "fp16",
    through: Annotated[
        Through, typer.Option(help="From the ONNX file, or from torch by torch-tensorrt.", rich_help_panel=RARE)
    ] = "onnx",
    batch: Annotated[int, typer.Option(min=1, help="Buildings at a time at most.", rich_help_panel=RARE)] = 256,
) -> None:
    """Build a TensorRT engine of a released model, for this machine's GPU; needs the extra `trt`."""
    from plumbline.export.tensorrt.build import build_from_package as run
    from plumbline.release.resolve import resolve_model

    run(resolve_model(package), output, artifact, through, batch)


GIB = 2**30


@app.command(epilog="Example: `plumbline doctor`, or `plumbline doctor --json`")
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print all findings as JSON.")] = False,
    free: Annotated[
        float, typer.Option(min=0, max=1e6, help="GiB to be free on every disk, besides a run.", rich_help_panel=RARE)
    ] = 1.0,
) -> None:
    """Check this installation, and the project in the working directory; say how to mend what is wrong.

    Ends with 0 where there is no fault, else with 2. Nothing is changed.
    """
    from plumbline.doctor.examine import checks, count_faults, document, examine, lines

    results = examine(checks(int(free * GIB)))
    typer.echo(json.dumps(document(results), indent=2) if as_json else "\n".join(lines(results)))
    if count := count_faults(results):
        if not as_json:
            typer.echo(f"{count} {'fault' if count == 1 else 'faults'}", err=True)
        raise typer.Exit(2)
