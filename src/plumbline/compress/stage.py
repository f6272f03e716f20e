"""Run the stage `compress`: prune the trained network, fine-tune the rest, calibrate it again."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import torch

from plumbline.compress.qat import AwareOptimisation
from plumbline.compress.search import Made, Pruning, drawn, made_once, scan, search
from plumbline.core.console import log
from plumbline.core.files import sha256_folder, write_csv
from plumbline.core.jobs import WORK
from plumbline.model.diagnosis import load_diagnosis
from plumbline.model.network import count_parameters
from plumbline.params import Params
from plumbline.params.prepare import SEQUENCES
from plumbline.train.calibrate.probabilities import calibrate
from plumbline.train.data.datamodule import first_epochs
from plumbline.train.data.splits import check_lengths, load_splits
from plumbline.train.distributed.strategies import check_devices, first_alone, threads
from plumbline.train.fit.initial_weights import freeze
from plumbline.train.fit.module import Optimisation
from plumbline.train.fit.trainer import fit
from plumbline.train.stage import run_key, write_model


def compress(prepared: Path, trained: Path, params: Params, out: Path) -> None:
    """Write the pruned model into `out`, in the same form as the stage `train`.

    Beside it `search.csv`, where the ratio was searched, and `sensitivity.csv` and `.svg`, where they are asked for.

    Args:
        prepared: folder of the stage `prepare`.
        trained: folder of the stage `train`.
        params: sections `compress`, and of `train` the losses, the seed and the threads; of `prepare`, `SEQUENCES` are
            told to who uses the model.
        out: folder to write.

    Raises:
        InputError: an input folder is missing or damaged, no network is as small as `compress.target` asks for,
            `compress.freeze` leaves nothing to train or names what is not there, buildings are longer than the network
            takes, the curriculum has nothing to begin with, the params ask for devices that are not there, or another
            run is at it.
    """
    with first_alone("compress"):
        _compress(prepared, trained, params, out)


def _compress(prepared: Path, trained: Path, params: Params, out: Path) -> None:
    section = params.compress
    splits = load_splits(prepared)
    teacher = load_diagnosis(trained)
    check_lengths(splits, prepared, teacher.network.spec, trained)
    # What the fine-tuning would refuse is refused before the search, which takes hours.
    check_devices(params.train, teacher.network.spec.attention)
    first_epochs(splits.train, section, "compress")
    settings = {
        "compress": section.model_dump(),
        "train": params.train.model_dump(),
        "prepare": params.prepare.model_dump(include=set(SEQUENCES)),
    }
    data = sha256_folder(prepared)
    key = run_key(data, settings, trained)
    torch.set_num_threads(threads(params.train))
    tries = WORK / "search" / key[:16]

    def pruning() -> Pruning:
        # With a teacher of its own: that of the fine-tuning has no gradients any more when it is over.
        return Pruning.of(load_diagnosis(trained), splits.train, section, params.train)

    def pruned() -> Made:
        if section.target is None:
            return pruning().shrunk(section.pruning_ratio or 0.0), None
        return search(pruning(), section.target, splits.tune, tries)

    model, rows = made_once(pruned, tries / "pruned")
    before, after = (count_parameters(m.network)["total"] for m in (teacher, model))
    log.info("pruned: %d of %d parameters left (%.0f %%)", after, before, 100 * after / before)
    freeze(model, section.freeze, "compress")
    if params.train.freeze and not section.freeze:
        log.info("train.freeze does not act here: all that pruning left is trained, but for compress.freeze")
    if section.quantisation_aware:
        module: Optimisation = AwareOptimisation(model, section, params.train, teacher, splits.train)
    else:
        module = Optimisation(model, section, params.train, teacher, section.distil_weight, "compress")
    done = fit(
        module,
        splits.train,
        splits.tune,
        name="compress",
        key=key,
        data_sha256=data,
        seed=params.train.seed,
        settings=settings,
    )
    calibrate(done.module.model, splits.calibrate)
    sensitivity = scan(pruning(), splits.tune, section.sensitivity) if section.sensitivity else None

    def tables(folder: Path) -> None:
        if rows:
            write_csv(rows, folder / "search.csv")
        if sensitivity:
            write_csv(sensitivity, folder / "sensitivity.csv")
            (folder / "sensitivity.svg").write_text(drawn(sensitivity), encoding="utf-8")

    write_model(done.module, out, tables)
    shutil.rmtree(done.checkpoints)
    shutil.rmtree(tries, ignore_errors=True)
    with suppress(OSError):  # of other runs there may be some
        tries.parent.rmdir()
