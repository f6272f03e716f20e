"""What several commands share: where data lies, the options, and how a table is printed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from plumbline.core.console import console
from plumbline.params import FORMATS

DATA = Path("data")
PARAMS = Path("params.yaml")
LEAST_WIDTH = 80
"""Columns that a table gets at least where it is not printed on a terminal."""

ParamsOption = Annotated[Path, typer.Option("--params", help="Parameters file.", metavar="FILE")]
PointsOption = Annotated[
    list[Path], typer.Option("--points", help="Point product of any known format, one track; repeat it for more.")
]
BuildingsOption = Annotated[
    Path, typer.Option("--buildings", help="Footprints: any vector file with polygons and a CRS.")
]
IdColumnOption = Annotated[
    str | None,
    typer.Option(
        "--id-column", metavar="NAME", help="Column of the footprints that identifies a building; else building_id."
    ),
]
LayerOption = Annotated[
    str | None, typer.Option("--layer", metavar="NAME", help="Layer of the footprints' file, where it has several.")
]
PackageOption = Annotated[
    str, typer.Option("--model", help="`pretrained` (comes with Plumbline), `champion`, or the folder of a package.")
]
AdapterOption = Annotated[
    str | None, typer.Option(help="Name of an adapter of that model, see `plumbline adapters list`.")
]
PackageArgument = Annotated[
    str,
    typer.Argument(
        metavar="PACKAGE", help="`pretrained` (comes with Plumbline), `champion`, or the folder of a package."
    ),
]
FormatOption = Annotated[
    str | None,
    typer.Option("--format", help=f"Read the points as one of {', '.join(FORMATS)}; else the content decides."),
]
ProductsOption = Annotated[
    Path | None,
    typer.Option(
        "--params",
        help="Parameters file: section ingest, what the files do not say and which points to leave out.",
    ),
]
SureOption = Annotated[
    float | None,
    typer.Option(
        "--min-quadrant-confidence", min=0, max=1,
        help="Judge a building of 1.1 permille or more where one quadrant is at least so probable, a less damaged one "
        "where one is proportionally less so; 0: all. Else as the model's package says.",
    ),
]  # fmt: skip
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Processes; by default one for each core. The result is the same."),
]


def print_table(table: Table, least_width: int = LEAST_WIDTH) -> None:
    """Print to standard output; where that is no terminal, at least `least_width` wide, so that nothing is cut."""
    used = console if console.is_terminal else Console(width=max(console.width, least_width))
    with used.capture() as capture:
        used.print(table)
    typer.echo(capture.get(), nl=False)
