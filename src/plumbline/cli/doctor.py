"""Find what is wrong with this installation and how to mend it: `plumbline doctor`."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from plumbline.cli.options import RARE, print_table

app = typer.Typer()
GIB = 2**30


@app.command(epilog="Example: `plumbline doctor`, or `plumbline doctor --json`")
def doctor(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print all findings as JSON.")] = False,
    seconds: Annotated[
        float, typer.Option(min=1, help="Time that a check may take; more on a busy machine.", rich_help_panel=RARE)
    ] = 60.0,
    free: Annotated[
        float, typer.Option(min=0, max=1e6, help="GiB to be free on every disk, besides a run.", rich_help_panel=RARE)
    ] = 1.0,
) -> None:
    """Check this installation, and the project in the working directory; say how to mend what is wrong.

    Ends with 0 where there is no fault, else with 2. Nothing is changed, and the champion stays.
    """
    from plumbline.doctor.examine import document, examine, faults, lines, table
    from plumbline.doctor.finding import Place

    root = context.find_root().command
    results = examine(Place(frozenset(getattr(root, "commands", ())), seconds, int(free * GIB)))
    if as_json:
        typer.echo(json.dumps(document(results), indent=2))
    elif sys.stdout.isatty():
        print_table(table(results))
    else:
        typer.echo("\n".join(lines(results)))
    if count := faults(results):
        if not as_json:
            typer.echo(f"{count} {'fault' if count == 1 else 'faults'}", err=True)
        raise typer.Exit(2)
