"""The stage `compress`: prune the trained network, fine-tune what is left, calibrate it anew."""

from __future__ import annotations

import shutil
from pathlib import Path

from plumbline.compress.prune import prune
from plumbline.console import log
from plumbline.model.diagnosis import load_diagnosis
from plumbline.model.network import count_parameters
from plumbline.params import Params
from plumbline.prepare.shards import load_shards
from plumbline.train.calibrate import calibrate
from plumbline.train.fit import fit
from plumbline.train.module import Optimisation
from plumbline.train.stage import run_key, write_model


def compress(prepared: Path, trained: Path, params: Params, out: Path) -> None:
    """Write the pruned model into `out`, in the same form as the stage `train` does.

    Args:
        prepared: folder of the stage `prepare`.
        trained: folder of the stage `train`.
        params: sections `compress`, and of `train` the losses, the seed and the threads.
        out: folder to write.

    Raises:
        InputError: an input folder is missing or damaged.
    """
    section = params.compress
    splits = {name: load_shards(prepared / name) for name in ("train", "tune", "calibrate")}
    teacher = load_diagnosis(trained)
    model = prune(
        teacher, splits["train"], params.train, section.pruning_ratio, section.importance_batches, params.train.seed
    )
    before, after = (count_parameters(m.network)["total"] for m in (teacher, model))
    log.info("pruned: %d of %d parameters left (%.0f %%)", after, before, 100 * after / before)
    settings = {"compress": section.model_dump(), "train": params.train.model_dump()}
    module = Optimisation(model, section, params.train, teacher=teacher, distil_weight=section.distil_weight)
    checkpoints = fit(
        module, splits["train"], splits["tune"], name="compress", key=run_key(prepared, settings, trained),
        seed=params.train.seed, settings=settings,
    )  # fmt: skip
    calibrate(model, splits["calibrate"])
    write_model(model, module, out)
    shutil.rmtree(checkpoints)
