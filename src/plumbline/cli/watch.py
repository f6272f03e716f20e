"""Run the commands that look at a place, as of past dates or along a line, and at buildings of known damage."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from plumbline.cli.options import (
    AdapterOption,
    BuildingsOption,
    CausesOption,
    FormatOption,
    IdColumnOption,
    LayerOption,
    PackageOption,
    PointsCommand,
    PointsOption,
    ProductsOption,
    RateByOption,
    RateOption,
    SinceOption,
    SureOption,
    UntilOption,
    VerifyKeyOption,
    reading_of,
)
from plumbline.cli.serve import package_folder
from plumbline.core.errors import InputError

app = typer.Typer()


@app.command(
    cls=PointsCommand,
    epilog="Example: `plumbline replay --points A.zip B.zip --buildings F.geojson --every 180d --damage-rate 0.01 "
    "--output REPLAY.gpkg`",
)
def replay(
    points: PointsOption,
    buildings: BuildingsOption,
    every: Annotated[str, typer.Option(metavar="DAYS", help="Step from the last epoch back, as 180d.")],
    output: Annotated[Path, typer.Option(help="Table of the buildings: .csv, .gpkg, .geojson or .parquet.")],
    threshold: Annotated[float, typer.Option(min=0, max=1, help="A building is flagged from this p_damaged on.")] = 0.5,
    model: PackageOption = "pretrained",
    id_column: IdColumnOption = None,
    damage_rate: RateOption = "auto",
    causes: CausesOption = None,
    adapter: AdapterOption = None,
    layer: LayerOption = None,
    format_: FormatOption = None,
    min_quadrant_confidence: SureOption = None,
    damage_rate_by: RateByOption = "place",
    since: SinceOption = None,
    until: UntilOption = None,
    verify_key: VerifyKeyOption = None,
    params: ProductsOption = None,
) -> None:
    """Judge every footprint as of past dates: when it would have been flagged, and how many flags to expect."""
    from plumbline.serve.base_rate import given_rate
    from plumbline.serve.options import Options
    from plumbline.serve.predictions import check_output
    from plumbline.serve.replay import Watch
    from plumbline.serve.replay import replay as run
    from plumbline.sources.city.files import point_files

    check_output(output)
    watch = Watch(_step(every), threshold)
    reading = reading_of(params, format_, id_column, layer, since, until)
    by_place = damage_rate_by == "place"
    options = Options(reading, min_quadrant_confidence, given_rate(damage_rate), causes, by_place)
    files = point_files(points)
    with package_folder(model, adapter, verify_key) as package:
        run(files, buildings, package, output, watch, options)


def _step(text: str) -> int:
    """Return the days of a step written as `180d`.

    Raises:
        InputError: it is written otherwise, or is no step.
    """
    found = re.fullmatch(r"(\d{1,5})d", text.strip())
    if found is None or not int(found[1]):
        raise InputError(f"--every {text}: a number of days from 1 to 99999 with the letter d needed, as 180d.")
    return int(found[1])


@app.command(
    cls=PointsCommand,
    epilog="Example: `plumbline section --line '13.17,38.70 13.19,38.71' --points A.zip B.zip --predictions OUT.gpkg "
    "--output SECTION.csv --picture SECTION.svg`",
)
def section(
    line: Annotated[
        str,
        typer.Option(metavar="FILE|COORDINATES", help="Vector file with one line, or 'LON,LAT LON,LAT ...' (WGS 84)."),
    ],
    points: PointsOption,
    output: Annotated[Path, typer.Option(metavar="FILE", help="Table of what lies along the line: .csv.")],
    picture: Annotated[Path | None, typer.Option(metavar="FILE", help="Also draw it: .svg.")] = None,
    predictions: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Of `plumbline predict`: the buildings that the line crosses.")
    ] = None,
    field: Annotated[Path | None, typer.Option(metavar="FILE", help="GeoTIFF of `plumbline restore`.")] = None,
    within: Annotated[
        float, typer.Option(min=0.1, max=10_000, help="Points up to this far from the line count, m.")
    ] = 25,
    format_: FormatOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    params: ProductsOption = None,
) -> None:
    """Cut a cross section: points, buildings and a field along a line, as a table and a picture."""
    from plumbline.serve.place.section import cut

    reading = reading_of(params, format_, None, None, since, until)
    cut(line, points, output, picture, predictions, field, within, reading)


@app.command(epilog="Example: `plumbline cases --output docs/real.md`")
def cases(
    output: Annotated[Path, typer.Option(metavar="FILE", help="Page to write: Markdown.")],
    draws: Annotated[int, typer.Option(min=2, max=200, help="Copies of each building, with noise of their own.")] = 50,
    model: PackageOption = "pretrained",
) -> None:
    """Judge published buildings by their levels, and as radar would see them, beside what was observed."""
    import datetime

    from plumbline.cases.judge import judge_cases
    from plumbline.cases.page import write_page
    from plumbline.core.files import check_writable

    check_writable(output)
    with package_folder(model, None, None) as package:
        write_page(judge_cases(package, draws), output, datetime.datetime.now(datetime.UTC).date())
