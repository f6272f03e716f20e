"""Build engines for this machine's GPU: `plumbline tensorrt`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from plumbline.cli.options import RARE, PackageArgument
from plumbline.params.export import EngineArtifact, Through

app = typer.Typer()


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
