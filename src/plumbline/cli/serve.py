"""Run the commands that apply a model to a user's own points and footprints."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from plumbline.cli.judging import Judging
from plumbline.cli.options import (
    PARAMS,
    RARE,
    BuildingsOption,
    Commands,
    ParamsOption,
    PointsCommand,
    PointsOption,
    ProductsOption,
    VerifyKeyOption,
    Without,
    WorkersOption,
)
from plumbline.core.console import log, warn
from plumbline.core.errors import InputError, PlumblineError, SignatureRefused
from plumbline.core.extras import install, is_installed, need
from plumbline.core.jobs import one_thread
from plumbline.params import (
    Adapt,
    Package,
    Params,
    Prepare,
    ReadingOptions,
    Score,
    is_partial,
    load_ingest,
    load_params,
    load_section,
)

app = Commands()


@app.command(
    cls=PointsCommand,
    epilog="Example: `plumbline predict --points A.zip B.zip --buildings F.geojson --output "
    "OUT.gpkg --map MAP.html`",
)
def predict(
    judging: Judging,
    output: Annotated[Path, typer.Option(help="Predictions: .csv, .gpkg, .geojson or .parquet.")],
    map_path: Annotated[
        Path | None, typer.Option("--map", help="Also draw a map: an HTML file.")
    ] = None,
    artifact: Annotated[
        str | None,
        typer.Option(
            help="Model of the package: `pruned`, `fp16` or `int8`.", rich_help_panel=RARE
        ),
    ] = None,
    basemap: Annotated[
        str | None,
        typer.Option(
            help="Address of a base map for the map, with {z}, {x} and {y}. Without, the map "
            "needs no network.",
            metavar="URL",
            rich_help_panel=RARE,
        ),
    ] = None,
) -> None:
    """Judge every footprint from your own points: quadrant, severity with its interval, or why
    not."""
    from plumbline.serve.predict import predict as run
    from plumbline.serve.predictions import check_output

    check_output(output)
    if judging.adapter is not None and artifact is not None:
        raise InputError(
            f"--artifact {artifact}: an adapted model has float32 only. Leave --artifact out.",
            key="option.artifact_with_adapter",
        )
    with judging.request() as request:
        run(replace(request, artifact=artifact), output, map_path, basemap)


@app.command(epilog="Example: `plumbline inspect A.zip B.zip F.geojson --output LOOK.html`")
def inspect(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Point products and footprints, in any order."),
    ],
    options: Annotated[ReadingOptions, Without({"since", "until"})],
    output: Annotated[
        Path | None,
        typer.Option(help="Also write it here, .html with pictures, or .json.", metavar="FILE"),
    ] = None,
    params: ProductsOption = None,
) -> None:
    """Show what files are, how they are understood, and what is doubtful, before a model
    judges by them."""
    from rich.console import Console

    from plumbline.serve.inspect import check_report, look, print_text, write_report
    from plumbline.serve.options import make_reading
    from plumbline.sources.city.files import point_files

    if output is not None:
        check_report(output)
    findings = look(point_files(files, "FILE", footprints=True), make_reading(options, params))
    print_text(findings, Console(soft_wrap=True, highlight=False))
    if output is not None:
        write_report(findings, output)
    if not findings.is_readable:
        raise typer.Exit(InputError.exit_code)


@app.command(
    cls=PointsCommand,
    epilog="Example: `plumbline explain --points A.zip B.zip --buildings F.geojson --building "
    "B0000012 --output REASONS.gpkg --plan PLAN.html`",
)
def explain(
    judging: Judging,
    output: Annotated[Path, typer.Option(help="Scatterers: .csv, .gpkg, .geojson or .parquet.")],
    building: Annotated[
        list[str] | None,
        typer.Option(
            help="building_id to explain; give more by repeating. All judged ones without."
        ),
    ] = None,
    plan: Annotated[
        Path | None, typer.Option(help="Also draw the buildings' plans: an HTML file.")
    ] = None,
) -> None:
    """Show which scatterers and which features moved each judgement, and by how much."""
    need("torch", "explain")
    from plumbline.serve.explain.run import explain as run
    from plumbline.serve.predictions import check_output

    check_output(output)
    with judging.request() as request:
        run(request, output, building or (), plan)


@app.command(
    cls=PointsCommand,
    epilog="Example: `plumbline report --points A.zip B.zip --buildings F.geojson --top 50 "
    "--output REPORT.pdf`",
)
def report(
    judging: Judging,
    output: Annotated[Path, typer.Option(help="Report: .pdf (needs the extra `report`) or .html.")],
    building: Annotated[
        list[str] | None,
        typer.Option(
            help="building_id in the report; give more by repeating. Else the first of the list."
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(min=1, max=500, help="So many, the most probably damaged first; 20 without."),
    ] = None,
    about: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="YAML file with texts for the first page: project, client, author and address; "
            "any.",
        ),
    ] = None,
) -> None:
    """Write a report for print: a map, a list, and a page for each building; the list for
    spreadsheets beside it."""
    from plumbline.serve.report.run import TOP
    from plumbline.serve.report.run import report as run

    if building and top is not None:
        raise InputError(
            f"--top {top} with --building: the report holds either the named buildings or the "
            "first ones.",
            key="option.top_with_building",
        )
    with judging.request() as request:
        run(request, output, building or (), top or TOP, about)


@app.command(
    cls=PointsCommand,
    epilog="Example: `plumbline adapt --points A.zip B.zip --buildings F.geojson --labels "
    "labels.csv --name athens`",
)
def adapt(
    points: PointsOption,
    buildings: BuildingsOption,
    labels: Annotated[
        Path, typer.Option(help="Severity and quadrant of 20 or more of the buildings: csv.")
    ],
    name: Annotated[str, typer.Option(help="Of the adapter; it is written to adapters/NAME.")],
    options: ReadingOptions,
    model: Annotated[
        str, typer.Option(help="`pretrained`, or the folder of a trained model.")
    ] = "pretrained",
    params: Annotated[
        Path | None,
        typer.Option(
            help="Parameters file: sections adapt, prepare, ingest; any.", rich_help_panel=RARE
        ),
    ] = None,
) -> None:
    """Adapt a trained model to a new city or sensor from a few labelled buildings."""
    need("torch", "adapt")
    from plumbline.serve.adapt import adapt as run
    from plumbline.serve.options import make_reading
    from plumbline.sources.city.files import point_files

    section = load_section(params, "adapt", Adapt) if params else None
    prepare = load_section(params, "prepare", Prepare) if params else None
    run(
        point_files(points),
        buildings,
        labels,
        model=model,
        name=name,
        params=section or Adapt(),
        prepare=prepare,
        reading=make_reading(options, params),
    )


def _load_score_params(path: Path) -> Params:
    """Read what `score` needs: the whole file, or one with the sections `score` and `ingest`
    alone."""
    if not is_partial(path):
        return load_params(path)
    return Params.model_construct(
        ingest=load_ingest(path),
        score=load_section(path, "score", Score) or Score(),
        package=load_section(path, "package", Package) or Package(),
    )


@app.command(
    epilog="Example: `plumbline score` after a folder of new products was put into "
    "data/deliveries/CITY/"
)
def score(
    model: Annotated[
        str, typer.Option("--model", help="`champion`, `pretrained`, or the folder of a package.")
    ] = ("champion"),
    params: ParamsOption = PARAMS,
    workers: WorkersOption = None,
    verify_key: VerifyKeyOption = None,
) -> None:
    """Judge every new delivery of points, and report which buildings have changed since the
    last one.

    Ends with 2 where a delivery was set aside, after all others were judged.
    """
    one_thread()
    from plumbline.release.resolve import resolve_model
    from plumbline.serve.score.run import score as run

    values = _load_score_params(params)
    name = values.package.name

    def find_models() -> tuple[Path, Path | None]:
        return resolve_model(model, name, verify_key=verify_key), _find_challenger(name, verify_key)

    outcome = run(values, find_models, workers)
    if outcome.failed:
        raise PlumblineError(
            "failed, and tried again the next time: "
            + "; ".join(f"{name} ({reason})" for name, reason in outcome.failed.items()),
            key="delivery.failed",
        )
    if outcome.aside:
        raise InputError(
            f"set aside: {', '.join(outcome.aside)}. The reasons are above, and in "
            f"{values.score.out}.",
            key="delivery.set_aside",
        )


def _find_challenger(name: str, verify_key: Path | None) -> Path | None:
    """Return the challenger's package, if there is one; None without MLflow.

    A challenger without the required signature is left out. Its answers are never
    published, and the champion's must be.
    """
    if not is_installed("mlflow"):
        log.info("No challenger is looked for: MLflow is not installed (%s).", install("pipeline"))
        return None
    from plumbline.release.promotion import find_challenger

    try:
        return find_challenger(name, verify_key=verify_key)
    except SignatureRefused as error:
        warn("The challenger is left out. %s", error, key="challenger.not_signed")
        return None
