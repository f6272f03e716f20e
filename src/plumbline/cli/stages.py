"""Run one command per stage, in order of the data flow; `params.yaml` sets the family of models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from plumbline.cli.families import family_in
from plumbline.cli.options import DATA, PARAMS, Commands, ParamsOption, WorkersOption
from plumbline.core.errors import InputError
from plumbline.core.extras import need
from plumbline.core.jobs import one_thread
from plumbline.params import Export, load_section

app = Commands()


@app.command(epilog="Example: `plumbline simulate`")
def simulate(params: ParamsOption = PARAMS) -> None:
    """Write labelled cities and a showcase, as EGMS and GeoJSON files, into data/simulate."""
    family_in(params).run("simulate", params, DATA)


@app.command(epilog="Example: `plumbline ingest` after putting a city's files into data/raw/CITY/")
def ingest(params: ParamsOption = PARAMS, workers: WorkersOption = None) -> None:
    """Read the files of every city in data/simulate/cities and data/raw into points and
    buildings tables."""
    one_thread()
    family_in(params).run("ingest", params, DATA, workers=workers)


@app.command(epilog="Example: `plumbline prepare`")
def prepare(params: ParamsOption = PARAMS, workers: WorkersOption = None) -> None:
    """Assign points to buildings, decouple, and write split sequences into data/prepare."""
    one_thread()
    family_in(params).run("prepare", params, DATA, workers=workers)


@app.command(
    epilog="Example: `plumbline train`; killed and started again, it resumes from its last epoch"
)
def train(params: ParamsOption = PARAMS) -> None:
    """Train the two-stream network; curves go to TensorBoard (.plumbline/tensorboard) and
    MLflow."""
    family_in(params).run("train", params, DATA)


@app.command(epilog="Example: `plumbline compress`")
def compress(params: ParamsOption = PARAMS) -> None:
    """Prune channels of the trained network and fine-tune what is left."""
    family_in(params).run("compress", params, DATA)


@app.command(
    epilog="Example: `plumbline export`; `plumbline export --model athens_model --output "
    "athens_onnx` for one model"
)
def export(
    model: Annotated[
        str | None,
        typer.Option(help="Only this: the folder of a trained or merged model, or `pretrained`."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="With --model: folder to write. One of ours is replaced.")
    ] = None,
    params: ParamsOption = PARAMS,
) -> None:
    """Write the networks as ONNX files: float32, pruned, and pruned in fp16 and in int8.

    With --model one network in float32 and in fp16; int8 needs the buildings that it was
    trained on.
    """
    if (model is None) != (output is None):
        raise InputError(
            "export: give --model and --output, or neither.", key="option.half_of_pair"
        )
    if model is not None and output is not None:
        need("torch", "export --model")
        from plumbline.export.stage import export_model
        from plumbline.serve.adapt import base_of

        section = (
            load_section(params, "export", Export) if params != PARAMS or params.is_file() else None
        )
        export_model(base_of(model), section or Export(), output)
        return
    family_in(params).run("export", params, DATA)


@app.command(epilog="Example: `plumbline validate`")
def validate(params: ParamsOption = PARAMS) -> None:
    """Measure every artifact on the test split beside the engineer's baseline."""
    family_in(params).run("validate", params, DATA)


@app.command(epilog="Example: `plumbline gate`, then read data/gate/gate.json")
def gate(params: ParamsOption = PARAMS) -> None:
    """Judge what `validate` measured by the rules of the section `gate`, without a model.

    Ends with 0 whatever the verdict: the verdict is the result. `plumbline approve` is what
    refuses.
    """
    family_in(params).run("gate", params, DATA)


@app.command(epilog="Example: `plumbline approve`; exit code 3: a gate refused")
def approve(params: ParamsOption = PARAMS) -> None:
    """Approve the exported models, if every gate was passed; else data/package stays as it is."""
    family_in(params).run("approve", params, DATA)


@app.command(epilog="Example: `plumbline package`; exit code 3: these models were not approved")
def package(params: ParamsOption = PARAMS) -> None:
    """Write the model package of what was approved into data/package."""
    family_in(params).run("package", params, DATA)
