"""Run the stage `train`: make a calibrated model from prepared sequences."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from plumbline.core.console import log
from plumbline.core.files import atomic_folder, sha256_folder, write_json
from plumbline.model.diagnosis import Diagnosis, save_diagnosis
from plumbline.model.network import count_parameters
from plumbline.model.spec import new_spec
from plumbline.params import Params
from plumbline.params.prepare import SEQUENCES
from plumbline.train.calibrate.probabilities import calibrate
from plumbline.train.data.splits import check_lengths, load_splits
from plumbline.train.distributed.strategies import first_alone
from plumbline.train.fit.checkpoints import FREE
from plumbline.train.fit.initial_weights import (
    check_sources,
    first_weights,
    freeze,
    pretrained_folders,
)
from plumbline.train.fit.module import Optimisation
from plumbline.train.fit.trainer import RunInputs, fit
from plumbline.train.monitor.record import write_history

FORM = 3
"""Version of a checkpoint's content; it grows where this code cannot resume a run of former code.

2: the key's bias of attention is not trained. 3: batch size and places of the curves are in it.
"""


def train(prepared: Path, params: Params, out: Path) -> None:
    """Write `model.safetensors`, `model.json`, `metrics.json`, `record.json` and
    `history.csv` into `out`.

    Args:
        prepared: folder of the stage `prepare`.
        params: sections `model`, `train`, and `prepare`, of which only `max_points` has an effect
            here; the rest of `SEQUENCES` is recorded for those who use the model.
        out: folder to write.

    Raises:
        InputError: `prepared` is missing, damaged or cannot be trained on, the params ask
            for what is not there, an alarm stopped the run, or another run is at it.
    """
    check_sources(params.train, out)
    with first_alone("train"):
        _train(prepared, params, out)


def _train(prepared: Path, params: Params, out: Path) -> None:
    splits = load_splits(prepared)
    torch.manual_seed(params.train.seed)  # the first weights are drawn here
    model = Diagnosis(new_spec(params.model, params.prepare.max_points))
    check_lengths(splits, prepared, model.network.spec)
    first_weights(model, splits.train, params.train)
    freeze(model, params.train.freeze)
    counts = count_parameters(model.network)
    log.info("parameters: %s", ", ".join(f"{name} {count}" for name, count in counts.items()))
    settings = {
        "model": params.model.model_dump(),
        "train": params.train.model_dump(),
        "prepare": params.prepare.model_dump(include=set(SEQUENCES)),
    }
    module = Optimisation(model, params.train, params.train)
    data = sha256_folder(prepared)
    key = run_key(data, settings, *pretrained_folders(params.train))
    fitted = fit(
        module,
        splits.train,
        splits.tune,
        RunInputs("train", key, data, params.train.seed, settings),
        params.train.start_from,
    )
    calibrate(fitted.module.model, splits.calibrate)
    write_model(fitted.module, out)
    shutil.rmtree(fitted.checkpoints)


def write_model(
    module: Optimisation, out: Path, beside: Callable[[Path], None] = lambda _: None
) -> None:
    """Write the model, its metrics on the tune split, and record and curve of its run.

    `beside` writes what else belongs there into the folder, before it appears.
    """
    with atomic_folder(out) as folder:
        save_diagnosis(module.model, folder)
        write_history(module.history, module.metrics, folder / "history.csv")
        write_json(
            folder / "metrics.json",
            {
                **module.record["metrics"],
                "epochs": len(module.history),
                "parameters": count_parameters(module.model.network)["total"],
            },
        )
        write_json(folder / "record.json", module.record)
        beside(folder)


def run_key(data_sha256: str, settings: dict[str, Any], *inputs: Path) -> str:
    """Return the hash of a run's data, settings and input folders.

    `FREE` is left out: a run of two processes is that of one process with twice the `accumulate`.
    `FORM` is included: code of another form starts a new run.
    """
    processes = settings["train"].get("devices", 1) * settings["train"].get("nodes", 1)
    hashed: dict[str, Any] = {**settings, "form": FORM}
    hashed["train"] = {name: value for name, value in settings["train"].items() if name not in FREE}
    for name, section in hashed.items():
        if (
            isinstance(section, dict) and "accumulate" in section
        ):  # what counts are the batches of a step
            hashed[name] = {**section, "accumulate": section["accumulate"] * processes}
    digest = hashlib.sha256(json.dumps(hashed, sort_keys=True).encode())
    digest.update(data_sha256.encode())
    for folder in inputs:
        digest.update(sha256_folder(folder).encode())
    return digest.hexdigest()
