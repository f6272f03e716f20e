"""Run the stage `train` of fields: the denoiser, its spread, its adapters."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from plumbline import pretrained
from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder, sha256_folder, write_json
from plumbline.core.jobs import WORK
from plumbline.fields.model.adapter_files import ADAPTERS
from plumbline.fields.model.adapters import add_adapter, save_adapter, unfrozen_parameters
from plumbline.fields.model.denoiser import (
    PACKED_SPEC,
    PACKED_WEIGHTS,
    DenoiserSpec,
    FieldDenoiser,
    count_parameters,
    load_denoiser,
    save_denoiser,
)
from plumbline.fields.model.spread import SPREAD, read_spread
from plumbline.fields.prepare.conditions import SPLITS, SceneSet, load_scenes
from plumbline.fields.train.calibrate import calibrate
from plumbline.fields.train.module import CropData, FieldOptimisation
from plumbline.params.fields import AdapterFields, RestorationParams
from plumbline.train.distributed.strategies import check_devices, first_alone, process_number
from plumbline.train.fit.initial_weights import CHECKPOINT, RANDOM, check_sources
from plumbline.train.fit.trainer import Fitted, RunInputs, run
from plumbline.train.monitor.record import write_history
from plumbline.train.stage import run_key


class AdapterOptimisation(FieldOptimisation):
    """Fits an adapter; the unfrozen modules join after a share of the epochs. Checkpoints
    hold only these."""

    def __init__(self, model: FieldDenoiser, params: AdapterFields) -> None:
        super().__init__(model, params, "adapt")
        self.strict_loading = False
        self.late, self.late_epoch = (
            unfrozen_parameters(model),
            params.unfreeze_from * params.epochs,
        )

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep only the trained parameters."""
        super().on_save_checkpoint(checkpoint)
        trained = {name for name, parameter in self.named_parameters() if parameter.requires_grad}
        checkpoint["state_dict"] = {
            k: v for k, v in checkpoint["state_dict"].items() if k in trained
        }

    def load_state_dict(self, state_dict: Any, strict: bool = False, assign: bool = False) -> Any:
        """Restore the saved parameters; the others are the base's."""
        return nn.Module.load_state_dict(self, state_dict, strict=False, assign=assign)


def train_adapter(
    base: Path,
    domain: str,
    splits: dict[str, SceneSet],
    params: RestorationParams,
    *,
    data_sha256: str,
    out: Path,
) -> dict[str, Any]:
    """Write one adapter and its spread into the folder `out / domain`.

    Args:
        base: folder of the trained denoiser and its spread. domain: name of the adapter.
        splits: scenes, by `SPLITS`. params: all; `adapt`, `train`, `restore` and the cell are used.
        data_sha256: hash of the prepared data. out: folder, which exists.

    Returns:
        Figures for the record: the share of parameters that are trained, and those of the
            best epoch.

    Raises:
        InputError: there are no scenes of the domain.
    """
    train, tune, calibration = (
        splits[name].of_domain(domain) for name in ("train", "tune", "calibrate")
    )
    if not len(train) or not len(tune) or not len(calibration):
        raise InputError(
            f"adapt.domains: no scene of {domain} to train on, to choose by or to calibrate on. "
            "Give it scenes in simulate.scenes.",
            key="adapter.no_scene",
        )
    model = load_denoiser(base)
    n_parameters = count_parameters(model)
    # The first factors are drawn here, alike in a run that was gone on with.
    torch.manual_seed(params.adapt.seed)
    add_adapter(model, domain, params.adapt.rank, params.adapt.alpha, params.adapt.unfreeze)
    settings = {
        "adapt": params.adapt.model_dump(),
        "train": params.train.model_dump(),
        "domain": domain,
    }
    training = run(
        AdapterOptimisation(model, params.adapt),
        lambda batch_size: CropData(train, tune, params.adapt),
        RunInputs(
            f"adapt-{domain}",
            run_key(data_sha256, settings, base),
            data_sha256,
            params.adapt.seed,
            settings,
        ),
    )
    fitted = training.module.model
    save_adapter(fitted, domain, out)
    start = read_spread(base / SPREAD)  # scenes of one domain are few
    spread = calibrate(
        fitted,
        calibration,
        params.restore,
        seed=params.adapt.seed,
        cell_m=params.simulate.cell_m,
        start=start,
    )
    write_json(out / domain / SPREAD, spread.model_dump())
    shutil.rmtree(training.checkpoints)
    share = training.module.record["parameters"]["trained"] / n_parameters
    log.info("adapter %s: %.1f %% of the parameters", domain, 100 * share)
    return {"trained_share": share, **training.module.record["metrics"]}


def train(prepared: Path, params: RestorationParams, out: Path) -> None:
    """Write the denoiser, `spread.json`, `adapters/` with `adapters.json`, and the records
    of the run into `out`.

    The trained denoiser is kept in `.plumbline` until the adapters are trained, too: a run
    that was killed in between goes on with these.

    Raises:
        InputError: `prepared` is missing or has too few scenes, `adapt.unfreeze` names what
            there is not, the machine lacks what the params ask for, an alarm stopped the
            run, or another run is at it.
    """
    check_sources(params.train, out)
    if params.adapt.domains:  # refuse now what would be refused when the denoiser is trained
        add_adapter(
            _new_denoiser(params),
            "adapter",
            params.adapt.rank,
            params.adapt.alpha,
            params.adapt.unfreeze,
        )
    with first_alone("train"):
        _train(prepared, params, out)


def _train(prepared: Path, params: RestorationParams, out: Path) -> None:
    splits = {name: load_scenes(prepared / name) for name in SPLITS}
    data = sha256_folder(prepared)
    settings = {"model": params.model.model_dump(), "train": params.train.model_dump()}
    key = run_key(data, settings)
    # It is calibrated by these.
    spread = {"restore": params.restore.model_dump(), "cell_m": params.simulate.cell_m}
    base = WORK / "restoration" / run_key(data, {**settings, **spread})[:16]
    if not base.is_dir():
        training = _fit(splits, params, data, key, settings)
        with atomic_folder(base) as folder:
            _write_base(training, splits["calibrate"], params, folder)
        shutil.rmtree(training.checkpoints)
    if process_number():
        sys.exit(0)  # adapters are trained, and the results written, by one process
    figures: dict[str, Any] = {}
    with atomic_folder(out) as folder:
        shutil.copytree(base, folder, dirs_exist_ok=True)
        (folder / ADAPTERS).mkdir()
        for domain in params.adapt.domains:
            figures[domain] = train_adapter(
                base, domain, splits, params, data_sha256=data, out=folder / ADAPTERS
            )
        write_json(folder / "adapters.json", figures)
    shutil.rmtree(base)


def _fit(
    splits: dict[str, SceneSet],
    params: RestorationParams,
    data: str,
    key: str,
    settings: dict[str, Any],
) -> Fitted[FieldOptimisation]:
    check_devices(params.train)
    torch.manual_seed(params.train.seed)  # the first weights are drawn here
    model = _new_denoiser(params)
    log.info("parameters: %d", count_parameters(model))
    _load_first_weights(model, params.train.start_from)
    return run(
        FieldOptimisation(model, params.train),
        lambda batch_size: CropData(splits["train"], splits["tune"], params.train),
        RunInputs("train", key, data, params.train.seed, settings),
        params.train.start_from,
    )


def _new_denoiser(params: RestorationParams) -> FieldDenoiser:
    return FieldDenoiser(DenoiserSpec(**params.model.model_dump()))


def _load_first_weights(model: FieldDenoiser, start_from: Sequence[str]) -> None:
    """Load the weights of the first package in `train.start_from`; `random` keeps the drawn ones.

    Raises:
        InputError: it is no package of fields, or its network is another than `model`.
    """
    named = next((source for source in start_from if source != CHECKPOINT), RANDOM)
    if named == RANDOM:
        return
    folder = pretrained.FIELDS if named == pretrained.NAME else Path(named)
    initial = load_denoiser(folder, PACKED_WEIGHTS, PACKED_SPEC)
    if initial.spec != model.spec:
        raise InputError(
            f"train.start_from: {folder}: network "
            f"{initial.spec.model_dump(exclude={'conditions'})} found, "
            f"{model.spec.model_dump(exclude={'conditions'})} needed. Give `model` these values, "
            "or take it out of the list.",
            key="start_from.other_network",
        )
    model.load_state_dict(initial.state_dict())
    log.info("weights from %s", folder)


def _write_base(
    training: Fitted[FieldOptimisation], scenes: SceneSet, params: RestorationParams, folder: Path
) -> None:
    module = training.module
    save_denoiser(module.model, folder)
    write_history(module.history, module.metrics, folder / "history.csv")
    write_json(
        folder / "metrics.json",
        {**module.record["metrics"], "parameters": count_parameters(module.model)},
    )
    write_json(folder / "record.json", module.record)
    spread = calibrate(
        module.model, scenes, params.restore, seed=params.train.seed, cell_m=params.simulate.cell_m
    )
    write_json(folder / SPREAD, spread.model_dump())
