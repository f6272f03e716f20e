"""Run the commands that restore a displacement field."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from plumbline.cli.options import (
    RARE,
    Commands,
    PackageOption,
    PointsCommand,
    PointsOption,
    ProductsOption,
    VerifyKeyOption,
    print_table,
)
from plumbline.core.errors import InputError
from plumbline.params import PointsOptions

app = Commands()
fields = Commands(help="Models of fields: their adapters, listed and merged.", no_args_is_help=True)
app.add_typer(fields, name="fields")
TABLES = (".csv", ".gpkg", ".geojson", ".parquet")
AREAS = (".gpkg", ".geojson")


@app.command(
    cls=PointsCommand,
    epilog="Example: `plumbline restore --points A.zip B.zip --output FIELD.tif --bbox "
    "13.16,38.70,13.18,38.71`",
)
def restore(
    points: PointsOption,
    output: Annotated[Path, typer.Option(help="Cloud Optimized GeoTIFF to write.")],
    options: PointsOptions,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1, max=10_000, help="Steps of restoring; without it, as the package was calibrated."
        ),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(min=2, max=256, help="Fields that are drawn; without it, as the package."),
    ] = None,
    cell: Annotated[float, typer.Option(min=2.0, max=1000.0, help="Side of a cell, m.")] = 10.0,
    adapter: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME or NAME=WEIGHT of an adapter: noise, atmosphere, unwrapping, sparse. May "
            "be repeated."
        ),
    ] = None,
    buildings: Annotated[
        Path | None, typer.Option(help="Footprints: read the field off at each.")
    ] = None,
    buildings_output: Annotated[
        Path | None,
        typer.Option(help="Table of the footprints: .csv, .gpkg, .geojson or .parquet."),
    ] = None,
    areas: Annotated[
        Path | None,
        typer.Option(help="Also write the areas that move against the rest: .gpkg or .geojson."),
    ] = None,
    bbox: Annotated[
        str | None,
        typer.Option(
            metavar="WEST,SOUTH,EAST,NORTH", help="Restore only this part: degrees, WGS 84."
        ),
    ] = None,
    yearly: Annotated[
        bool,
        typer.Option(
            "--yearly", help="Also write the change within each calendar year: FIELD_2021.tif, ..."
        ),
    ] = False,
    picture: Annotated[
        Path | None, typer.Option(help="Also draw field, uncertainty and points: a PNG file.")
    ] = None,
    model: PackageOption = "pretrained",
    seed: Annotated[int, typer.Option(min=0, help="Of the samples.", rich_help_panel=RARE)] = 0,
    workers: Annotated[
        int,
        typer.Option(
            min=1, max=1024, help="Processes; for an extent of many windows.", rich_help_panel=RARE
        ),
    ] = 1,
    verify_key: VerifyKeyOption = None,
    params: ProductsOption = None,
) -> None:
    """Restore the displacement between your own points, with how sure it is, as a GeoTIFF."""
    if (buildings is None) != (buildings_output is None):
        raise InputError(
            "--buildings and --buildings-output: give both, or neither.", key="option.half_of_pair"
        )
    if buildings_output is not None and buildings_output.suffix.lower() not in TABLES:
        raise InputError(
            f"--buildings-output {buildings_output}: one of {', '.join(TABLES)} needed.",
            key="output.other_format",
        )
    if areas is not None and areas.suffix.lower() not in AREAS:
        raise InputError(
            f"--areas {areas}: one of {', '.join(AREAS)} needed.", key="output.other_format"
        )
    from plumbline.fields.restore.field import parse_box
    from plumbline.fields.restore.plan import RestoreOptions
    from plumbline.fields.restore.restore import restore as run
    from plumbline.release.resolve import resolve_fields
    from plumbline.serve.options import make_reading
    from plumbline.sources.city.files import point_files

    restore_options = RestoreOptions(
        steps,
        samples,
        cell,
        tuple(adapter or ()),
        seed,
        parse_box(bbox) if bbox is not None else None,
    )
    run(
        point_files(points),
        resolve_fields(model, verify_key),
        output,
        restore_options,
        make_reading(options, params),
        buildings=buildings,
        buildings_output=buildings_output,
        picture=picture,
        workers=workers,
        areas=areas,
        yearly=yearly,
    )


@fields.command("adapters", epilog="Example: `plumbline fields adapters`")
def list_adapters(model: PackageOption = "pretrained") -> None:
    """List the adapters of a package of fields, each for one kind of degradation."""
    from plumbline.fields.model.adapter_files import ADAPTERS, WEIGHTS
    from plumbline.fields.release.package import adapters_in, verify_fields
    from plumbline.release.resolve import resolve_fields

    folder = resolve_fields(model)
    verify_fields(folder)
    table = Table("adapter", "bytes", box=None)
    for name in adapters_in(folder):
        table.add_row(name, str((folder / ADAPTERS / name / WEIGHTS).stat().st_size))
    print_table(table)


@fields.command(
    epilog="Example: `plumbline fields merge --adapter noise=0.7 --adapter sparse=0.3 --output "
    "merged.onnx`"
)
def merge(
    adapter: Annotated[list[str], typer.Option(help="NAME or NAME=WEIGHT; may be repeated.")],
    output: Annotated[Path, typer.Option(help="ONNX file to write.")],
    model: PackageOption = "pretrained",
) -> None:
    """Write one denoising step with adapters merged into its weights, for applications that
    run ONNX themselves."""
    from plumbline.fields.release.package import merge_adapters
    from plumbline.release.resolve import resolve_fields

    if output.suffix != ".onnx":
        raise InputError(
            f"--output {output}: an ONNX file is written; give a name that ends in .onnx.",
            key="output.other_format",
        )
    merge_adapters(resolve_fields(model), adapter, output)
