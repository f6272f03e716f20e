"""Run the stage `train` of restoration: make a denoiser, its spread and its adapters from prepared scenes."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import torch

from plumbline.core.console import log
from plumbline.core.files import atomic_folder, sha256_folder, write_json
from plumbline.core.jobs import WORK
from plumbline.model.restoration.adapter_files import CHOICES
from plumbline.model.restoration.denoiser import DenoiserSpec, FieldDenoiser, count_parameters, save_denoiser
from plumbline.model.restoration.spread import FILE as SPREAD
from plumbline.params.restoration import RestorationParams
from plumbline.prepare.restoration.scenes import SPLITS, SceneSet, load_scenes
from plumbline.train.distributed.strategies import check_devices, first_alone, process_number
from plumbline.train.fit.trainer import Fitted, run
from plumbline.train.monitor.record import write_history
from plumbline.train.restoration.adapt import ADAPTERS, train_adapter
from plumbline.train.restoration.calibrate import calibrate
from plumbline.train.restoration.crops import CropData
from plumbline.train.restoration.module import FieldOptimisation
from plumbline.train.stage import run_key

BASE_DOMAIN = "plain"
"""The denoiser is trained on scenes with a little of every degradation; what is strong is an adapter's."""


def train(prepared: Path, params: RestorationParams, out: Path) -> None:
    """Write the denoiser, `spread.json`, `adapters/` with `adapters.json`, and the records of the run into `out`.

    The trained denoiser is kept in `.plumbline` until the adapters are trained, too: a run that was killed in between
    goes on with these.

    Raises:
        InputError: `prepared` is missing or has too few scenes, the machine lacks what the params ask for, an alarm
            stopped the run, or another run is at it.
    """
    with first_alone("train"):
        _train(prepared, params, out)


def _train(prepared: Path, params: RestorationParams, out: Path) -> None:
    splits = {name: load_scenes(prepared / name) for name in SPLITS}
    data = sha256_folder(prepared)
    settings = {"model": params.model.model_dump(), "train": params.train.model_dump()}
    key = run_key(data, settings)
    spread = {"restore": params.restore.model_dump(), "cell_m": params.simulate.cell_m}  # it is calibrated by these
    base = WORK / "restoration" / run_key(data, {**settings, **spread})[:16]
    if not base.is_dir():
        done = _fit(splits, params, data, key, settings)
        with atomic_folder(base) as folder:
            _write_base(done, splits["calibrate"].of_domain(BASE_DOMAIN), params, folder)
        shutil.rmtree(done.checkpoints)
    if process_number():
        sys.exit(0)  # adapters are trained, and the results written, by one process
    figures = {}
    with atomic_folder(out) as folder:
        shutil.copytree(base, folder, dirs_exist_ok=True)
        (folder / ADAPTERS).mkdir()
        for domain in params.adapt.domains:
            figures[domain] = train_adapter(base, domain, splits, params, data, folder / ADAPTERS)
        write_json(folder / CHOICES, figures)
    shutil.rmtree(base)


def _fit(
    splits: dict[str, SceneSet], params: RestorationParams, data: str, key: str, settings: dict[str, Any]
) -> Fitted[FieldOptimisation]:
    check_devices(params.train)
    torch.manual_seed(params.train.seed)  # the first weights are drawn here
    model = FieldDenoiser(DenoiserSpec(**{**params.model.model_dump(), "channels": tuple(params.model.channels)}))
    log.info("parameters: %d", count_parameters(model))
    train, tune = (splits[name].of_domain(BASE_DOMAIN) for name in ("train", "tune"))
    return run(
        FieldOptimisation(model, params.train),
        lambda folder, going_on: CropData(train, tune, params.train),
        name="train",
        key=key,
        data_sha256=data,
        seed=params.train.seed,
        settings=settings,
        start_from=params.train.start_from,
    )


def _write_base(done: Fitted[FieldOptimisation], scenes: SceneSet, params: RestorationParams, folder: Path) -> None:
    module = done.module
    save_denoiser(module.model, folder)
    write_history(module.history, module.metrics, folder / "history.csv")
    write_json(folder / "metrics.json", {**module.record["metrics"], "parameters": count_parameters(module.model)})
    write_json(folder / "record.json", module.record)
    spread = calibrate(module.model, scenes, params.restore, params.train.seed, params.simulate.cell_m)
    write_json(folder / SPREAD, spread.model_dump())
