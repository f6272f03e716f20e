"""The command that restores a displacement field."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from plumbline.cli.options import RARE, FormatOption, PointsCommand, PointsOption, ProductsOption
from plumbline.core.errors import InputError
from plumbline.params import Ingest, load_ingest

app = typer.Typer()
TABLES = (".csv", ".gpkg", ".geojson", ".parquet")


@app.command(
    cls=PointsCommand,
    epilog="Example: `plumbline restore --points A.zip B.zip --output FIELD.tif --picture FIELD.png`",
)
def restore(
    points: PointsOption,
    output: Annotated[Path, typer.Option(help="Cloud Optimized GeoTIFF to write.")],
    steps: Annotated[int, typer.Option(min=1, max=10_000, help="Steps of restoring; 50: the careful choice.")] = 25,
    samples: Annotated[int, typer.Option(min=2, max=256, help="Fields that are drawn.")] = 16,
    cell: Annotated[float, typer.Option(min=2.0, max=1000.0, help="Side of a cell, m.")] = 10.0,
    adapter: Annotated[
        list[str] | None,
        typer.Option(help="NAME or NAME=WEIGHT of an adapter: noise, atmosphere, unwrapping, sparse. May be repeated."),
    ] = None,
    buildings: Annotated[Path | None, typer.Option(help="Footprints: read the field off at each.")] = None,
    buildings_output: Annotated[
        Path | None, typer.Option(help="Table of the footprints: .csv, .gpkg, .geojson or .parquet.")
    ] = None,
    picture: Annotated[Path | None, typer.Option(help="Also draw field, uncertainty and points: a PNG file.")] = None,
    model: Annotated[str, typer.Option(help="`pretrained`, `champion`, or a package's folder.")] = "pretrained",
    seed: Annotated[int, typer.Option(min=0, help="Of the samples.", rich_help_panel=RARE)] = 0,
    format_: FormatOption = None,
    params: ProductsOption = None,
) -> None:
    """Restore the displacement between your own points, with how sure it is, as a GeoTIFF."""
    if (buildings is None) != (buildings_output is None):
        raise InputError("--buildings and --buildings-output: give both, or neither.")
    if buildings_output is not None and buildings_output.suffix.lower() not in TABLES:
        raise InputError(f"--buildings-output {buildings_output}: one of {', '.join(TABLES)} needed.")
    from plumbline.release.resolve import resolve_fields
    from plumbline.serve.restoration.restore import Asked
    from plumbline.serve.restoration.restore import restore as run
    from plumbline.sources.city.point_files import point_files

    ingest = load_ingest(params) if params else Ingest()
    asked = Asked(steps, samples, cell, tuple(adapter or ()), seed)
    run(
        point_files(points),
        resolve_fields(model),
        output,
        asked,
        ingest,
        format_,
        buildings,
        buildings_output,
        picture,
    )
