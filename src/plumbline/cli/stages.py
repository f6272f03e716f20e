"""One command a stage, in the order of the data's way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from plumbline.cli.options import DATA, PARAMS, ParamsOption, WorkersOption
from plumbline.core.errors import InputError, ParameterError
from plumbline.core.extras import need
from plumbline.core.jobs import one_thread
from plumbline.params import Export, Train, load_params, load_section

app = typer.Typer()


@app.command(epilog="Example: `plumbline simulate`")
def simulate(params: ParamsOption = PARAMS) -> None:
    """Write labelled cities and a showcase, as EGMS and GeoJSON files, into data/simulate."""
    from plumbline.simulate.stage import simulate as run

    run(load_params(params).simulate, DATA / "simulate")


@app.command(epilog="Example: `plumbline ingest` after putting a city's files into data/raw/CITY/")
def ingest(params: ParamsOption = PARAMS, workers: WorkersOption = None) -> None:
    """Read the files of every city in data/simulate/cities and data/raw into points and buildings tables."""
    one_thread()
    from plumbline.sources.city.files import city_folders
    from plumbline.sources.ingest.stage import ingest as run

    given, cities = load_params(params), city_folders(DATA)
    if cities:
        with _named(params):
            given.validate_.check_cities(folder.name for folder in cities)  # else the run would end with it
    run(cities, given.ingest, DATA / "ingest", workers)


@app.command(epilog="Example: `plumbline prepare`")
def prepare(params: ParamsOption = PARAMS, workers: WorkersOption = None) -> None:
    """Assign points to buildings, decouple, and write split sequences into data/prepare."""
    one_thread()
    from plumbline.prepare.stage import prepare as run

    run(DATA / "ingest", load_params(params).prepare, DATA / "prepare", workers)


@app.command(epilog="Example: `plumbline train`; killed and started again, it resumes from its last epoch")
def train(params: ParamsOption = PARAMS) -> None:
    """Train the two-stream network; curves go to TensorBoard (.plumbline/tensorboard) and MLflow."""
    need("pipeline", "train")
    given = load_params(params)
    _on_all_devices(given.train)
    from plumbline.train.stage import train as run

    run(DATA / "prepare", given, DATA / "train")


@app.command(epilog="Example: `plumbline compress`")
def compress(params: ParamsOption = PARAMS) -> None:
    """Prune channels of the trained network and fine-tune what is left."""
    need("pipeline", "compress")
    given = load_params(params)
    _on_all_devices(given.train)
    from plumbline.compress.stage import compress as run

    run(DATA / "prepare", DATA / "train", given, DATA / "compress")


def _on_all_devices(losses: Train) -> None:
    """With several, what follows is done in a process for each."""
    if losses.devices > 1 or losses.nodes > 1:
        from plumbline.train.distributed.launch import one_process_a_device

        one_process_a_device(losses)


@app.command(
    epilog="Example: `plumbline export`; `plumbline export --model athens_model --output athens_onnx` for one model"
)
def export(
    model: Annotated[
        str | None, typer.Option(help="Only this: the folder of a trained or merged model, or `pretrained`.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="With --model: folder to write. One of ours is replaced.")] = None,
    params: ParamsOption = PARAMS,
) -> None:
    """Write the networks as ONNX files: float32, pruned, and pruned in fp16 and in int8.

    With --model one network in float32 and in fp16; int8 needs the buildings that it was trained on.
    """
    if (model is None) != (output is None):
        raise InputError("export: give --model and --output, or neither.")
    if model is not None and output is not None:
        need("torch", "export --model")
        from plumbline.export.stage import export_model
        from plumbline.serve.adapt.base_model import base_of

        section = load_section(params, "export", Export) if params != PARAMS or params.is_file() else None
        export_model(base_of(model), section or Export(), output)
        return
    need("pipeline", "export")
    from plumbline.export.stage import export as run

    run(DATA / "prepare", DATA / "train", DATA / "compress", load_params(params).export, DATA / "export")


@app.command(epilog="Example: `plumbline validate`, then read data/validate/gate.json")
def validate(params: ParamsOption = PARAMS) -> None:
    """Measure every artifact on the test split beside the engineer's baseline, and apply the gates.

    Ends with 0 whatever the verdict: the evidence is the result. `plumbline package` is what refuses.
    """
    need("pipeline", "validate")
    from plumbline.validate.stage import validate as run

    given = load_params(params)
    with _named(params):
        run(
            DATA / "prepare",
            DATA / "train",
            DATA / "compress",
            DATA / "export",
            given.validate_,
            given.prepare,
            DATA / "validate",
        )


@app.command(epilog="Example: `plumbline package`; exit code 3: a gate refused")
def package(params: ParamsOption = PARAMS) -> None:
    """Write the model package into data/package, if every gate was passed."""
    need("pipeline", "package")
    from plumbline.release.package import package as run

    run(DATA / "prepare", DATA / "export", DATA / "validate", load_params(params), DATA / "package")


@contextmanager
def _named(params: Path) -> Iterator[None]:
    """Before what is said of a parameter, the name of the file that it stands in."""
    try:
        yield
    except ParameterError as error:
        raise InputError(f"{params}: {error}") from None
