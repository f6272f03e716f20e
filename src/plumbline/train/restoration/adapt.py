"""Train an adapter for each domain of degradation; of the denoiser itself only few weights change, late in the run."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import write_json
from plumbline.model.restoration.adapter_files import SUFFIX, write_adapter
from plumbline.model.restoration.adapters import adapter_parts, add_adapter, late_parameters
from plumbline.model.restoration.denoiser import FieldDenoiser, count_parameters, load_denoiser
from plumbline.model.restoration.spread import FILE as SPREAD
from plumbline.model.restoration.spread import read_spread
from plumbline.params.restoration import AdapterFields, RestorationParams
from plumbline.prepare.restoration.scenes import SceneSet
from plumbline.train.fit.trainer import run
from plumbline.train.restoration.calibrate import TorchDenoiser, calibrate
from plumbline.train.restoration.choose import choose
from plumbline.train.restoration.crops import CropData
from plumbline.train.restoration.module import FieldOptimisation
from plumbline.train.stage import run_key

ADAPTERS = "adapters"


class AdapterOptimisation(FieldOptimisation):
    """Fits an adapter; the weights `late` join after a share of the epochs. Checkpoints hold only these."""

    def __init__(self, model: FieldDenoiser, params: AdapterFields, late: dict[str, Tensor]) -> None:
        super().__init__(model, params, "adapt")
        self.strict_loading = False
        self._late = list(late.values())
        self._begins = params.unfreeze_from * params.epochs
        for parameter in self._late:
            parameter.requires_grad_(True)

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        """Hold the late weights until their epoch."""
        if self.current_epoch < self._begins:
            for parameter in self._late:
                parameter.grad = None

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep only the trained parameters."""
        super().on_save_checkpoint(checkpoint)
        trained = {name for name, parameter in self.named_parameters() if parameter.requires_grad}
        checkpoint["state_dict"] = {k: v for k, v in checkpoint["state_dict"].items() if k in trained}

    def load_state_dict(self, state_dict: Any, strict: bool = False, assign: bool = False) -> Any:
        """Restore the saved parameters; the others are the base's."""
        return nn.Module.load_state_dict(self, state_dict, strict=False, assign=assign)


def train_adapter(
    base: Path, domain: str, splits: dict[str, SceneSet], params: RestorationParams, data_sha256: str, out: Path
) -> dict[str, Any]:
    """Write `NAME.safetensors` and the spread `NAME.json` of one adapter into `out`; find out whether it is shipped.

    Args:
        base: folder of the trained denoiser and its spread. domain: name of the adapter. splits: scenes, by `SPLITS`.
        params: all; `adapt`, `train`, `restore` and the cell are used. data_sha256: of the prepared data.
        out: folder, which exists.

    Returns:
        Figures for the record: share of parameters that are trained, seconds an epoch, bytes, and those of `choose`.

    Raises:
        InputError: there are no scenes of the domain.
    """
    train, tune, held = (splits[name].of_domain(domain) for name in ("train", "tune", "calibrate"))
    if not len(train) or not len(tune) or not len(held):
        raise InputError(
            f"adapt.domains: no scene of {domain} to train on, to choose by or to calibrate on. "
            "Give it scenes in simulate.scenes."
        )
    model = load_denoiser(base)
    whole = count_parameters(model)
    add_adapter(model, domain, params.adapt.rank, params.adapt.alpha)
    late = late_parameters(model, params.adapt.unfreeze)
    before = {name: parameter.detach().clone() for name, parameter in late.items()}
    module = AdapterOptimisation(model, params.adapt, late)
    settings = {"adapt": params.adapt.model_dump(), "train": params.train.model_dump(), "domain": domain}
    began = time.monotonic()
    done = run(
        module,
        lambda folder, going_on: CropData(train, tune, params.adapt),
        name=f"adapt-{domain}",
        key=run_key(data_sha256, settings, base),
        data_sha256=data_sha256,
        seed=params.adapt.seed,
        settings=settings,
    )
    parts, scaling = adapter_parts(done.module.model, domain, before)
    path = out / f"{domain}{SUFFIX}"
    write_adapter(parts, scaling, path)
    cell_m = params.simulate.cell_m
    spread = calibrate(done.module.model, held, params.restore, params.adapt.seed, cell_m)
    write_json(out / f"{domain}.json", spread.model_dump())
    without = TorchDenoiser(load_denoiser(base)), read_spread(base / SPREAD)
    choice = choose(domain, without, (TorchDenoiser(done.module.model), spread), tune, params)
    shutil.rmtree(done.checkpoints)
    trained = done.module.record["parameters"]["trained"]
    figures = {
        "trained_share": trained / whole,
        "seconds_an_epoch": (time.monotonic() - began) / max(1, len(done.module.history)),
        "bytes": path.stat().st_size,
        **done.module.record["metrics"],
        **choice,
    }
    log.info(
        "adapter %s: %.1f %% of the parameters, %d bytes", domain, 100 * figures["trained_share"], figures["bytes"]
    )
    return figures
