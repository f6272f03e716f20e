"""Run the stage `train` of restoration: prepared scenes in, a denoiser, its adapters and its calibrated spread out."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch

from plumbline.core.console import log
from plumbline.core.files import atomic_folder, sha256_folder, write_json
from plumbline.model.restoration.denoiser import DenoiserSpec, FieldDenoiser, count_parameters, save_denoiser
from plumbline.params.restoration import RestorationParams
from plumbline.prepare.restoration.scenes import load_scenes
from plumbline.train.distributed.strategies import check_devices
from plumbline.train.fit.trainer import run
from plumbline.train.monitor.record import write_history
from plumbline.train.restoration.crops import CropData
from plumbline.train.restoration.module import FieldOptimisation
from plumbline.train.stage import run_key


def train_base(prepared: Path, params: RestorationParams, out: Path) -> None:
    splits = {name: load_scenes(prepared / name).of_domain("plain") for name in ("train", "tune")}
    torch.manual_seed(params.train.seed)
    spec = DenoiserSpec(**{**params.model.model_dump(), "channels": tuple(params.model.channels)})
    model = FieldDenoiser(spec)
    log.info("parameters: %d", count_parameters(model))
    settings = {"model": params.model.model_dump(), "train": params.train.model_dump()}
    data = sha256_folder(prepared)
    module = FieldOptimisation(model, params.train)
    check_devices(params.train)
    done = run(
        module,
        lambda folder, going_on: CropData(splits["train"], splits["tune"], params.train),
        name="train",
        key=run_key(data, settings),
        data_sha256=data,
        seed=params.train.seed,
        settings=settings,
        start_from=params.train.start_from,
    )
    with atomic_folder(out) as folder:
        save_denoiser(done.module.model, folder)
        write_history(done.module.history, done.module.metrics, folder / "history.csv")
        write_json(folder / "metrics.json", {**done.module.record["metrics"], "parameters": count_parameters(model)})
        write_json(folder / "record.json", done.module.record)
    shutil.rmtree(done.checkpoints)
