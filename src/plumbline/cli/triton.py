"""Write a package for the Triton Inference Server: `plumbline triton`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from plumbline.cli.options import RARE, PackageArgument
from plumbline.core.errors import InputError

app = typer.Typer()


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
