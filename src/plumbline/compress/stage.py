"""Run the stage `compress`: prune the trained network, fine-tune the rest, calibrate it again."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import torch

from plumbline.compress.prune import channel_shares, prune, shallower, slopes
from plumbline.compress.sensitivity import draw, scan
from plumbline.core.console import log
from plumbline.core.files import sha256_folder, write_csv
from plumbline.model.diagnosis import load_diagnosis
from plumbline.model.network import count_parameters
from plumbline.params import Params
from plumbline.params.prepare import SEQUENCES
from plumbline.train.calibrate.probabilities import calibrate
from plumbline.train.data.splits import check_lengths, load_splits
from plumbline.train.distributed.strategies import first_alone, threads
from plumbline.train.fit.initial_weights import freeze
from plumbline.train.fit.module import Optimisation
from plumbline.train.fit.trainer import RunInputs, fit
from plumbline.train.stage import run_key, write_model


def compress(prepared: Path, trained: Path, params: Params, out: Path) -> None:
    """Write the pruned model into `out`, in the same form as the stage `train`.

    Beside it `sensitivity.csv` and `.svg`, unless `compress.sensitivity` is 0.

    Args:
        prepared: folder of the stage `prepare`.
        trained: folder of the stage `train`.
        params: sections `compress`, and of `train` the losses, the seed and the threads; of
            `prepare`, `SEQUENCES` are told to who uses the model.
        out: folder to write.

    Raises:
        InputError: an input folder is missing or damaged, `compress.freeze` leaves nothing
            to train or names what is not there, buildings are longer than the network
            takes, the curriculum has nothing to begin with, the params ask for devices that
            are not there, or another run is at it.
    """
    with first_alone("compress"):
        _compress(prepared, trained, params, out)


def _compress(prepared: Path, trained: Path, params: Params, out: Path) -> None:
    section = params.compress
    splits = load_splits(prepared)
    teacher = load_diagnosis(trained)
    check_lengths(splits, prepared, teacher.network.spec, trained)
    settings = {
        "compress": section.model_dump(),
        "train": params.train.model_dump(),
        "prepare": params.prepare.model_dump(include=set(SEQUENCES)),
    }
    data = sha256_folder(prepared)
    torch.set_num_threads(threads(params.train))
    options = {"batches": section.importance_batches, "seed": params.train.seed}
    start = (
        shallower(teacher, section.blocks, splits.train, params.train, **options)
        if section.blocks is not None
        else teacher
    )
    gradients = slopes(start, splits.train, params.train, **options)
    model = prune(
        start,
        channel_shares(start, section),
        gradients,
        importance=section.importance,
        heads=section.heads,
        multiple=section.multiple,
    )
    n_before, n_after = (count_parameters(m.network)["total"] for m in (teacher, model))
    log.info(
        "pruned: %d of %d parameters left (%.0f %%)", n_after, n_before, 100 * n_after / n_before
    )
    freeze(model, section.freeze, "compress")
    if params.train.freeze and not section.freeze:
        log.info(
            "train.freeze does not act here: all that pruning left is trained, but for "
            "compress.freeze"
        )
    fitted = fit(
        Optimisation(
            model,
            section,
            params.train,
            teacher=teacher,
            distil_weight=section.distil_weight,
            section="compress",
        ),
        splits.train,
        splits.tune,
        RunInputs("compress", run_key(data, settings, trained), data, params.train.seed, settings),
    )
    calibrate(fitted.module.model, splits.calibrate)
    sample = np.random.default_rng(params.train.seed).permutation(len(splits.tune))[
        : section.sensitivity
    ]
    rows = (
        scan(start, gradients, section.importance, splits.tune.take(np.sort(sample)))
        if section.sensitivity
        else []
    )

    def write_scan(folder: Path) -> None:
        if rows:
            write_csv(rows, folder / "sensitivity.csv")
            (folder / "sensitivity.svg").write_text(draw(rows), encoding="utf-8")

    write_model(fitted.module, out, write_scan)
    shutil.rmtree(fitted.checkpoints)
