"""The command line: `plumbline STAGE`, one command a stage, and the commands for released models."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from plumbline.console import console, log, setup_logging
from plumbline.errors import InputError, PlumblineError
from plumbline.jobs import die_with_parent, one_thread
from plumbline.params import FORMATS, load_params
from plumbline.params.export import EngineArtifact, Through

DATA = Path("data")

app = typer.Typer(
    help="Which buildings are being damaged, where and how badly, from InSAR points and building footprints.",
    no_args_is_help=True, rich_markup_mode="markdown", pretty_exceptions_enable=False, add_completion=False,
)  # fmt: skip
release_app = typer.Typer(help="The registry of released models: promote, roll back, list.", no_args_is_help=True)
app.add_typer(release_app, name="release")
adapters_app = typer.Typer(help="Adapters that `plumbline adapt` made: list, merge.", no_args_is_help=True)
app.add_typer(adapters_app, name="adapters")

ParamsOption = Annotated[Path, typer.Option("--params", help="Parameters file.", metavar="FILE")]
PARAMS = Path("params.yaml")
PointsOption = Annotated[
    list[Path], typer.Option("--points", help="Point product of any known format; give one a track.")
]
BuildingsOption = Annotated[
    Path, typer.Option("--buildings", help="Footprints: any vector file with polygons and a CRS.")
]
PackageOption = Annotated[
    str, typer.Option("--model", help="`pretrained` (comes with Plumbline), `champion`, or the folder of a package.")
]
FormatOption = Annotated[
    str | None,
    typer.Option("--format", help=f"Read the points as one of {', '.join(FORMATS)}; else the content decides."),
]
ProductsOption = Annotated[
    Path | None,
    typer.Option("--params", help="Parameters file whose ingest.products says what the points' files do not."),
]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", min=1, help="Processes; one a core without. The result is the same.")
]


def main() -> None:
    """Entry point: errors meant for the user end with their exit code and one message, without a traceback."""
    setup_logging("--verbose" in sys.argv)
    # Before torch is loaded: threads that spin for long while they wait make training many times slower when another
    # process wants the same cores (docs/decisions/0004).
    os.environ.setdefault("GOMP_SPINCOUNT", "100000")
    try:
        _die_with_dvc()
        app(prog_name="plumbline")  # also where it was started as `python -m plumbline`
    except PlumblineError as error:
        log.error("%s", error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        log.error("interrupted")
        sys.exit(130)


@app.callback()
def _options(verbose: Annotated[bool, typer.Option("--verbose", help="Say more.")] = False) -> None:
    """Options before the command; `--verbose` is read before logging is set up."""


@app.command(epilog="Example: `plumbline simulate`")
def simulate(params: ParamsOption = PARAMS) -> None:
    """Write labelled cities and a showcase, as EGMS and GeoJSON files, into data/simulate."""
    from plumbline.simulate.stage import simulate as run

    run(load_params(params).simulate, DATA / "simulate")


@app.command(epilog="Example: `plumbline ingest` after putting a city's files into data/raw/CITY/")
def ingest(params: ParamsOption = PARAMS, workers: WorkersOption = None) -> None:
    """Read the files of every city in data/simulate/cities and data/raw into points and buildings tables."""
    one_thread()
    from plumbline.sources.city import city_folders
    from plumbline.sources.ingest import ingest as run

    run(city_folders(DATA), load_params(params).ingest, DATA / "ingest", workers)


@app.command(epilog="Example: `plumbline prepare`")
def prepare(params: ParamsOption = PARAMS, workers: WorkersOption = None) -> None:
    """Assign points to buildings, decouple, and write split sequences into data/prepare."""
    one_thread()
    from plumbline.prepare.stage import prepare as run

    run(DATA / "ingest", load_params(params).prepare, DATA / "prepare", workers)


@app.command(epilog="Example: `plumbline train`; killed and started again, it resumes from its last epoch")
def train(params: ParamsOption = PARAMS) -> None:
    """Train the two-stream network; curves go to TensorBoard (.plumbline/tensorboard) and MLflow."""
    from plumbline.train.stage import train as run

    run(DATA / "prepare", load_params(params), DATA / "train")


@app.command(epilog="Example: `plumbline compress`")
def compress(params: ParamsOption = PARAMS) -> None:
    """Prune channels of the trained network and fine-tune what is left."""
    from plumbline.compress.stage import compress as run

    run(DATA / "prepare", DATA / "train", load_params(params), DATA / "compress")


@app.command(epilog="Example: `plumbline export`")
def export(params: ParamsOption = PARAMS) -> None:
    """Write the networks as ONNX files: float32, pruned, and pruned in fp16 and in int8."""
    from plumbline.export.stage import export as run

    run(DATA / "prepare", DATA / "train", DATA / "compress", load_params(params).export, DATA / "export")


@app.command(epilog="Example: `plumbline validate`, then read data/validate/gate.json")
def validate(params: ParamsOption = PARAMS) -> None:
    """Measure every artifact on the test split beside the engineer's baseline, and apply the gates.

    Ends with 0 whatever the verdict: the evidence is the result. `plumbline package` is what refuses.
    """
    from plumbline.validate.stage import validate as run

    given = load_params(params)
    run(
        DATA / "prepare", DATA / "train", DATA / "compress", DATA / "export", given.validate_,
        given.prepare.max_strain_error_permille, DATA / "validate",
    )  # fmt: skip


@app.command(epilog="Example: `plumbline package`; exit code 3: a gate refused")
def package(params: ParamsOption = PARAMS) -> None:
    """Write the model package into data/package, if every gate was passed."""
    from plumbline.release.package import package as run

    run(DATA / "prepare", DATA / "export", DATA / "validate", load_params(params), DATA / "package")


@app.command(
    epilog="Example: `plumbline predict --points A.zip --points B.zip --buildings F.geojson --output OUT.gpkg "
    "--map MAP.html`"
)
def predict(
    points: PointsOption,
    buildings: BuildingsOption,
    output: Annotated[Path, typer.Option(help="Predictions: .csv, .gpkg, .geojson or .parquet.")],
    model: PackageOption = "pretrained",
    map_path: Annotated[Path | None, typer.Option("--map", help="Also draw a map: an HTML file.")] = None,
    artifact: Annotated[str | None, typer.Option(help="Model of the package: `pruned`, `fp16` or `int8`.")] = None,
    format_: FormatOption = None,
    params: ProductsOption = None,
) -> None:
    """Judge every footprint from your own points: quadrant, severity with its interval, or why not."""
    from plumbline.release.promotion import resolve_model
    from plumbline.serve.predict import predict as run
    from plumbline.serve.predictions import check_output

    check_output(output)
    products = load_params(params).ingest.products if params else None
    run(points, buildings, resolve_model(model), output, map_path, artifact, products, format_)


@app.command(
    epilog="Example: `plumbline explain --points A.zip --points B.zip --buildings F.geojson --building B0000012 "
    "--output REASONS.gpkg --plan PLAN.html`"
)
def explain(
    points: PointsOption,
    buildings: BuildingsOption,
    output: Annotated[Path, typer.Option(help="Scatterers: .csv, .gpkg, .geojson or .parquet.")],
    model: PackageOption = "pretrained",
    building: Annotated[
        list[str] | None, typer.Option(help="building_id to explain; give more by repeating. All judged ones without.")
    ] = None,
    plan: Annotated[Path | None, typer.Option(help="Also draw the buildings' plans: an HTML file.")] = None,
    format_: FormatOption = None,
    params: ProductsOption = None,
) -> None:
    """Say which scatterers and which features moved each judgement, and by how much."""
    from plumbline.release.promotion import resolve_model
    from plumbline.serve.explain import explain as run
    from plumbline.serve.predictions import check_output

    check_output(output)
    products = load_params(params).ingest.products if params else None
    run(points, buildings, resolve_model(model), output, building or (), plan, products, format_)


@app.command(
    epilog="Example: `plumbline adapt --points A.zip --points B.zip --buildings F.geojson --labels labels.csv "
    "--name athens`"
)
def adapt(
    points: PointsOption,
    buildings: BuildingsOption,
    labels: Annotated[Path, typer.Option(help="Severity and quadrant of 20 or more of the buildings: csv.")],
    name: Annotated[str, typer.Option(help="Of the adapter; it is written to adapters/NAME.")],
    model: Annotated[str, typer.Option(help="`pretrained`, or the folder of a trained model.")] = "pretrained",
    format_: FormatOption = None,
    params: Annotated[Path | None, typer.Option(help="Parameters file: sections adapt, prepare, ingest.")] = None,
) -> None:
    """Adapt a trained model to a new city or sensor from a few labelled buildings."""
    from plumbline.params.adapt import Adapt
    from plumbline.serve.adapt import adapt as run

    given = load_params(params) if params else None
    section, prepare = (given.adapt, given.prepare) if given else (Adapt(), None)
    run(points, buildings, labels, model, name, section, prepare, given.ingest.products if given else None, format_)


@app.command(epilog="Example: `plumbline tensorrt data/package --output engines --artifact fp16`")
def tensorrt(
    package: Annotated[Path, typer.Argument(help="Folder of a model package.", metavar="PACKAGE_DIR")],
    output: Annotated[Path, typer.Option(help="Folder for engines; each gets a folder of its own in it.")],
    artifact: Annotated[EngineArtifact, typer.Option(help="Model of the package.")] = "fp16",
    through: Annotated[Through, typer.Option(help="From the ONNX file, or from torch by torch-tensorrt.")] = "onnx",
    batch: Annotated[int, typer.Option(min=1, help="Buildings at a time at most.")] = 256,
) -> None:
    """Build a TensorRT engine of a released model, for this machine's GPU; needs the extra `trt`."""
    from plumbline.export.tensorrt.build import build_from_package as run

    run(package, output, artifact, through, batch)


@adapters_app.command("list", epilog="Example: `plumbline adapters list`")
def list_adapters() -> None:
    """List the adapters in the folder `adapters`, with what they were worth on held-out buildings."""
    from plumbline.serve.adapt import ADAPTERS
    from plumbline.train.adapter import list_adapters as run

    table = Table("name", "base", "labels", "quadrant accuracy", "severity error, permille")
    for about in run(ADAPTERS):
        quadrant, error = (
            f"{about.before[key]:.3f} -> {about.after[key]:.3f}" for key in ("quadrant_accuracy", "severity_mae")
        )
        table.add_row(about.name, about.base_sha256[:12], str(about.labels), quadrant, error)
    typer.echo(_plain(table), nl=False)


@adapters_app.command(epilog="Example: `plumbline adapters merge athens --output athens_model`")
def merge(
    name: Annotated[str, typer.Argument(help="Name of the adapter.")],
    output: Annotated[Path, typer.Option(help="Folder to write: a model for `predict`, `export` and `train`.")],
    model: Annotated[str, typer.Option(help="The model that was adapted.")] = "pretrained",
) -> None:
    """Write an adapter and its base as one model."""
    from plumbline.serve.adapt import merge as run

    log.info("%s: version %s", output, run(name, model, output).version)


@release_app.command(epilog="Example: `plumbline release promote data/package`")
def promote(
    package: Annotated[Path, typer.Argument(help="Folder of a model package.", metavar="PACKAGE_DIR")],
    again: Annotated[bool, typer.Option("--again", help="Also if this version was rolled back before.")] = False,
    params: ParamsOption = PARAMS,
) -> None:
    """Register a package and make it the champion, if it is not worse than the present one on the same test data."""
    from plumbline.release.promotion import promote as run

    section = load_params(params).validate_

    def compare(candidate: Path, champion: Path) -> None:
        from plumbline.release.compare import compare_with_champion  # seconds to load, and seldom needed

        compare_with_champion(candidate, champion, DATA / "prepare", section)

    done = run(package, compare, again=again)
    if done.changed:
        former = f"; it was {done.former.version}" if done.former else ""
        log.info("champion is now %s%s", done.champion.version, former)
    else:
        log.info("%s is the champion already; nothing was registered", done.champion.version)


@release_app.command(epilog="Example: `plumbline release rollback`")
def rollback(params: ParamsOption = PARAMS) -> None:
    """Make the champion before the present one the champion again."""
    from plumbline.release.promotion import rollback as run

    done = run(load_params(params).package.name)
    log.info("champion is %s again%s", done.champion.version, f"; it was {done.former.version}" if done.former else "")


@release_app.command("list", epilog="Example: `plumbline release list`")
def list_versions(params: ParamsOption = PARAMS) -> None:
    """List the registered packages, the newest first."""
    from plumbline.release.promotion import list_versions as run

    versions = run(load_params(params).package.name)
    if not versions:
        log.info("nothing was released yet")
    table = Table("number", "version", "registered", "champion")
    for item in versions:
        table.add_row(
            str(item.number), item.version, f"{item.registered:%Y-%m-%d %H:%M} UTC", "champion" if item.champion else ""
        )
    typer.echo(_plain(table), nl=False)


def _plain(table: Table) -> str:
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def _die_with_dvc() -> None:
    """Under DVC, end when DVC does: a stage whose DVC was killed would go on unseen and write into its folder."""
    if "DVC_STAGE" in os.environ and not die_with_parent():
        raise InputError("DVC ended before this stage began.")
