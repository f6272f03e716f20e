"""Run the commands that look at a place, as of past dates, along a line or beside levels,
and at known damage."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from plumbline.cli.judging import Judging
from plumbline.cli.options import (
    Commands,
    PointsCommand,
    PointsOption,
    ProductsOption,
    Without,
    print_table,
)
from plumbline.core.errors import InputError
from plumbline.params import PointsOptions

if TYPE_CHECKING:
    import pandas as pd

app = Commands()


@app.command(
    cls=PointsCommand,
    epilog="Example: `plumbline replay --points A.zip B.zip --buildings F.geojson --every 180d "
    "--damage-rate 0.01 --output REPLAY.gpkg`",
)
def replay(
    judging: Judging,
    every: Annotated[
        str, typer.Option(metavar="DAYS", help="Step from the last epoch back, as 180d.")
    ],
    output: Annotated[
        Path, typer.Option(help="Table of the buildings: .csv, .gpkg, .geojson or .parquet.")
    ],
    threshold: Annotated[
        float, typer.Option(min=0, max=1, help="A building is flagged from this p_damaged on.")
    ] = 0.5,
) -> None:
    """Judge every footprint as of past dates: when it would have been flagged, and how many
    flags to expect."""
    from plumbline.serve.predictions import check_output
    from plumbline.serve.replay import replay as run

    check_output(output)
    days = re.fullmatch(r"\s*0*([1-9]\d{0,4})d\s*", every)
    if days is None:
        raise InputError(
            f"--every {every}: a number of days from 1 to 99999 with the letter d needed, as 180d.",
            key="option.no_days",
        )
    with judging.request() as request:
        run(request, output, int(days[1]), threshold)


@app.command(
    cls=PointsCommand,
    epilog="Example: `plumbline section --line '13.17,38.70 13.19,38.71' --points A.zip B.zip "
    "--predictions OUT.gpkg --output SECTION.csv --picture SECTION.svg`",
)
def section(
    line: Annotated[
        str,
        typer.Option(
            metavar="FILE|COORDINATES",
            help="Vector file with one line, or 'LON,LAT LON,LAT ...' (WGS 84).",
        ),
    ],
    points: PointsOption,
    output: Annotated[
        Path, typer.Option(metavar="FILE", help="Table of what lies along the line: .csv.")
    ],
    options: PointsOptions,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also draw it: .svg.")
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Of `plumbline predict`: the buildings that the line crosses."
        ),
    ] = None,
    field: Annotated[
        Path | None, typer.Option(metavar="FILE", help="GeoTIFF of `plumbline restore`.")
    ] = None,
    within: Annotated[
        float,
        typer.Option(min=0.1, max=10_000, help="Points up to this far from the line count, m."),
    ] = 25,
    params: ProductsOption = None,
) -> None:
    """Cut a cross section: points, buildings and a field along a line, as a table and a picture."""
    from plumbline.serve.options import make_reading
    from plumbline.serve.place.section import cut

    cut(
        line,
        points,
        output,
        within_m=within,
        picture=picture,
        predictions=predictions,
        field=field,
        reading=make_reading(options, params),
    )


NOT_IN_COMPARE = Without(
    {
        "since",
        "until",
        "causes",
        "adapter",
        "min_quadrant_confidence",
        "damage_rate_by",
        "verify_key",
    }
)


@app.command(
    cls=PointsCommand,
    epilog="Example: `plumbline compare --points A.zip B.zip --buildings F.geojson --levelling "
    "levels.csv --output COMPARE.csv`",
)
def compare(
    judging: Annotated[Judging, NOT_IN_COMPARE],
    levelling: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="Levelled heights or settlements of points at dates: csv."
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Table of the buildings: .csv or .gpkg; a picture .svg is put beside.",
        ),
    ],
    levelling_std_mm: Annotated[
        float,
        typer.Option(
            min=0.001, max=1000, help="Standard deviation of a height, where the file does not say."
        ),
    ] = 0.3,
    map_path: Annotated[
        Path | None,
        typer.Option("--map", help="Also draw a map with the levelled points: an HTML file."),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also write levelled severities as labels of `adapt`: .csv."
        ),
    ] = None,
) -> None:
    """Compare settlement, tilt and strain by radar with those by levelling."""
    from plumbline.serve.compare.agreement import format_agreement
    from plumbline.serve.compare.run import compare as run

    with judging.request() as request:
        compared = run(
            request, levelling, output, labels=labels, map_path=map_path, std_mm=levelling_std_mm
        )
    print_table(_summarise(compared.table))
    typer.echo(format_agreement(compared))


MAX_ROWS = 20
"""Largest number of buildings in a printed table."""


def _summarise(table: pd.DataFrame) -> Table:
    """Return the first buildings of a comparison with their main figures, radar | levelling."""
    verdicts = {True: "yes", False: "no"}
    printed = Table(
        "building",
        "settlement, mm",
        "tilt, mm/m",
        "strain, permille",
        "agree",
        title="Radar | levelling",
    )
    figures = (("settlement", "mm"), ("tilt", "mm_m"), ("severity", "permille"))
    for _, row in table.head(MAX_ROWS).iterrows():
        cells = [
            f"{row[f'{name}_{unit}']:.1f} | {row[f'levelled_{name}_{unit}']:.1f}"
            for name, unit in figures
        ]
        agree = [verdicts.get(row[f"{name}_agrees"], "-") for name, _ in figures]
        printed.add_row(
            str(row["building_id"]), *(cell.replace("nan", "-") for cell in cells), " ".join(agree)
        )
    return printed
