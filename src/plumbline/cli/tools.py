"""Run `triton`, `tensorrt` and `doctor`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from plumbline.cli.options import RARE, Commands, PackageArgument
from plumbline.core.errors import InputError
from plumbline.params.compress import EngineArtifact, Through

app = Commands()


@app.command(epilog="Example: `plumbline triton data/package --output triton_models`")
def triton(
    package: PackageArgument,
    output: Annotated[
        Path, typer.Option(help="Model repository to write: a folder. One of ours is replaced.")
    ],
    max_batch_size: Annotated[
        int, typer.Option(min=1, max=65536, help="Buildings a batch at most.")
    ] = 64,
    max_queue_delay_us: Annotated[
        int,
        typer.Option(
            min=0,
            max=1_000_000,
            help="How long a request waits for others, microseconds.",
            rich_help_panel=RARE,
        ),
    ] = 500,
    gpu: Annotated[bool, typer.Option("--gpu", help="Run on GPUs; on the CPU without.")] = False,
    tensorrt: Annotated[
        bool, typer.Option("--tensorrt", help="With --gpu: by TensorRT where it can.")
    ] = False,
    instances: Annotated[
        int, typer.Option(min=1, max=64, help="Copies of each model.", rich_help_panel=RARE)
    ] = 1,
    threads: Annotated[
        int,
        typer.Option(
            min=0,
            max=1024,
            help="Threads of a copy on the CPU; 0: one for each core.",
            rich_help_panel=RARE,
        ),
    ] = 0,
) -> None:
    """Write a model repository of the Triton Inference Server: a model for each ONNX file
    of a package."""
    from plumbline.export.triton import TritonSettings, write_repository
    from plumbline.release.resolve import resolve_model

    if tensorrt and not gpu:
        raise InputError(
            "--tensorrt: TensorRT needs a GPU. Give --gpu as well.",
            key="option.tensorrt_without_gpu",
        )
    if threads and gpu:
        raise InputError(
            "--threads: applies to a copy on the CPU only. Leave out --threads or --gpu.",
            key="option.threads_with_gpu",
        )
    settings = TritonSettings(max_batch_size, max_queue_delay_us, gpu, tensorrt, instances, threads)
    write_repository(resolve_model(package), output, settings)


@app.command(epilog="Example: `plumbline tensorrt data/package --output engines --artifact fp16`")
def tensorrt(
    package: PackageArgument,
    output: Annotated[
        Path, typer.Option(help="Folder for engines; each gets a folder of its own in it.")
    ],
    artifact: Annotated[EngineArtifact, typer.Option(help="Model of the package.")] = "fp16",
    through: Annotated[
        Through,
        typer.Option(
            help="From the ONNX file, or from torch by torch-tensorrt.", rich_help_panel=RARE
        ),
    ] = "onnx",
) -> None:
    """Build a TensorRT engine of a released model, for this machine's GPU; needs the extra
    `trt`."""
    from plumbline.export.tensorrt.build import build_from_package as run
    from plumbline.release.resolve import resolve_model

    run(resolve_model(package), output, artifact, through)


@app.command(epilog="Example: `plumbline doctor`, or `plumbline doctor --json`")
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print all findings as JSON.")] = False,
    free: Annotated[
        float,
        typer.Option(
            min=0,
            max=1e6,
            help="GiB to be free on every disk, besides a run.",
            rich_help_panel=RARE,
        ),
    ] = 1.0,
) -> None:
    """Check this installation, and the project in the working directory; show how to mend
    what is wrong.

    Ends with 0 where there is no fault, else with 2. Nothing is changed.
    """
    from plumbline.doctor.examine import checks, count_faults, document, examine, lines

    results = examine(checks(int(free * 2**30)))
    typer.echo(json.dumps(document(results), indent=2) if as_json else "\n".join(lines(results)))
    if count := count_faults(results):
        if not as_json:
            typer.echo(f"{count} {'fault' if count == 1 else 'faults'}", err=True)
        raise typer.Exit(2)
