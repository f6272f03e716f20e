"""List and merge the adapters that `plumbline adapt` made: `plumbline adapters`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

from plumbline.cli.options import Commands, print_table
from plumbline.core.console import log
from plumbline.core.extras import need

app = Commands(help="Adapters that `plumbline adapt` made: list, merge.", no_args_is_help=True)


@app.command("list", epilog="Example: `plumbline adapters list`")
def list_adapters() -> None:
    """List the adapters in the folder `adapters`, with their figures on buildings that were
    not used to fit."""
    need("torch", "adapters list")
    from plumbline.train.adapt.adapter import ADAPTERS, shown
    from plumbline.train.adapt.adapter import list_adapters as run

    adapters = run(ADAPTERS)
    if not adapters:
        log.info("%s: no adapter here; `plumbline adapt` makes one", ADAPTERS)
    table = Table(
        Column("name", overflow="fold"),
        "base",
        "labels",
        "quadrant accuracy",
        "severity error, permille",
    )
    for about in adapters:
        quadrant, error = (
            shown(None)
            if about.after[key] is None
            else f"{shown(about.before[key])} -> {shown(about.after[key])}"
            for key in ("quadrant_accuracy", "severity_mae")
        )
        table.add_row(about.name, about.base_sha256[:12], str(about.labels), quadrant, error)
    print_table(table)


@app.command(epilog="Example: `plumbline adapters merge athens --output athens_model`")
def merge(
    name: Annotated[str, typer.Argument(help="Name of the adapter.")],
    output: Annotated[
        Path,
        typer.Option(help="Folder to write: a model for `predict`, `explain`, `export --model`."),
    ],
    model: Annotated[str, typer.Option(help="The model that was adapted.")] = "pretrained",
) -> None:
    """Write an adapter and its base as one model."""
    need("torch", "adapters merge")
    from plumbline.serve.adapt import merge as run

    log.info("%s: version %s", output, run(name, model, output).version)
