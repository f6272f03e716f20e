"""Choose the initial weights of a run, and freeze those that it must not change."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from fnmatch import fnmatch
from pathlib import Path

from safetensors import SafetensorError
from torch import Tensor

from plumbline import pretrained
from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.model.diagnosis import Diagnosis
from plumbline.model.weights import read_weights, take_older_buffers, take_older_names
from plumbline.params import Train
from plumbline.prepare.features.shards import SequenceSet
from plumbline.train.data.statistics import STANDARDISATION, fit_statistics
from plumbline.train.fit.compatibility import check_preparation, check_spec

CHECKPOINT, RANDOM = "checkpoint", "random"
HEADS = {f"heads.{name}_head": f"{name}_weight" for name in ("quadrant", "severity", "accepted", "level", "mechanism")}
"""Beginnings of the names of what one loss alone moves, and the weight of that loss."""


def check_sources(losses: Train, out: Path) -> None:
    """Refuse entries of `train.start_from` that would be ignored, before anything is read.

    Args:
        losses: section `train`.
        out: folder that the stage writes.

    Raises:
        InputError: a misspelt word, or the stage's own folder.
    """
    words = (CHECKPOINT, pretrained.NAME, RANDOM)
    for source in losses.start_from:
        if source in words:
            continue
        folder = Path(source)
        if folder.name == source and not folder.exists():
            near = get_close_matches(source, words, n=1, cutoff=0.5)
            raise InputError(
                f"train.start_from: {source!r} found, which is no folder here, nor one of {', '.join(words)}. "
                + (f"Is {near[0]} meant? " if near else "")
                + f"A folder that need not be there is written as ./{source}."
            )
        if folder.resolve().is_relative_to(out.resolve()):
            raise InputError(
                f"train.start_from: {source} is where this stage writes its own model, and DVC empties it before the "
                "stage begins. Copy it elsewhere, and name the copy."
            )


def first_weights(model: Diagnosis, train: SequenceSet, losses: Train, position: str = "") -> None:
    """Fit the statistics, and take pretrained weights if `train.start_from` names any before `random`.

    Pretrained weights come with the standardisation they were trained with; what was seen in training, by which
    buildings unlike it are recognised, is that of `train`. A checkpoint is found later, by the trainer.

    Args:
        model: whose weights are set.
        train: the training split.
        losses: section `train`.
        position: `model.position`, for messages.

    Raises:
        InputError: nothing that `start_from` names is there, or it is a package, or another network.
    """
    for source in losses.start_from:
        if source == CHECKPOINT:
            continue
        if source == RANDOM:
            fit_statistics(model, train)
            log.info("weights: drawn at random with train.seed %d", losses.seed)
            return
        folder = _folder(source)
        if (folder / "model.safetensors").is_file():
            load_pretrained(model, folder, position)
            limit = model.get_buffer("severity_limit").clone()
            fit_statistics(model, train, standardisation=False)
            model.get_buffer("severity_limit").clamp_(min=limit)
            log.info("weights: pretrained, from %s", folder)
            return
        if (folder / "manifest.json").is_file():
            raise InputError(
                f"train.start_from: {folder} is a model package, whose network is pruned and not trained on. Name "
                f"the folder of a trained model, as a copy of data/train, or `{pretrained.NAME}`."
            )
        log.warning("train.start_from: %s has no model.safetensors; the next of the list is tried", folder)
    if losses.start_from == [CHECKPOINT]:
        fit_statistics(model, train)  # overwritten by the checkpoint; `resume.resumed` sees to it that there is one
        return
    raise InputError(f"train.start_from: {losses.start_from} found, and none of it is there. Add `random`.")


def pretrained_folders(losses: Train) -> list[Path]:
    """Return the model folders that the run depends on."""
    folders = [_folder(source) for source in losses.start_from if source not in (CHECKPOINT, RANDOM)]
    return [folder for folder in folders if folder.is_dir()]


def _folder(source: str) -> Path:
    return pretrained.MODEL if source == pretrained.NAME else Path(source)


def load_pretrained(model: Diagnosis, folder: Path, position: str = "") -> None:
    """Take the weights and the standardisation of a trained model of the same network; see `compatibility`.

    One that was saved by an older Plumbline is taken as `load_diagnosis` takes it.

    Raises:
        InputError: a file is damaged, or the network another.
    """
    check_spec(folder, model.network.spec, position)
    check_preparation(folder)
    try:
        found = read_weights(folder / "model.safetensors")
    except (SafetensorError, OSError) as error:
        raise InputError(f"{folder / 'model.safetensors'}: not readable ({error}).") from None
    take_older_buffers(model, found, "")
    take_older_names(model.network, found, "network.")
    wanted = model.state_dict()
    _compare(folder, found, wanted)
    taken = {name: value for name, value in found.items() if name.startswith("network.") or name in STANDARDISATION}
    model.load_state_dict({**wanted, **taken, "severity_limit": found["severity_limit"]})


def _compare(folder: Path, found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    for name in [*wanted, *found]:
        shapes = [tuple(state[name].shape) if name in state else None for state in (found, wanted)]
        if shapes[0] != shapes[1]:
            there, here = ("nothing" if shape is None else f"shape {shape}" for shape in shapes)
            raise InputError(
                f"train.start_from: {folder}: {name}: {there} found, {here} needed. "
                "Its model.json says otherwise: the folder is damaged. Take it out of the list."
            )


def check_learns(model: Diagnosis, losses: Train) -> None:
    """Refuse a run in which losses cannot move any weight, so that only weight decay would.

    Raises:
        InputError: all that is not frozen belongs to heads whose losses have no weight.
    """
    names = [name for name, value in model.network.named_parameters() if value.requires_grad]
    still = {head: key for head, key in HEADS.items() if not getattr(losses, key)}
    if not all(name.startswith(tuple(still)) for name in names):
        return
    own = {head: key for head, key in still.items() if any(name.startswith(head) for name in names)}
    raise InputError(
        f"train.freeze, train.{', train.'.join(own.values())}: only {' and '.join(own)} is trained, and "
        f"{' and '.join(own.values())} is 0, so nothing is learnt; give it a weight, or freeze less."
    )


def freeze(model: Diagnosis, patterns: list[str], section: str = "train", tell: bool = True) -> None:
    """Freeze the network parameters with names that fit a pattern.

    Args:
        model: whose parameters these are.
        patterns: `freeze` of the section of that name.
        section: see `patterns`.
        tell: whether to log how many are left.

    Raises:
        InputError: a pattern fits none, or nothing is left to train.
    """
    parameters = dict(model.network.named_parameters())
    for pattern in patterns:
        fitting = [name for name in parameters if fnmatch(name, pattern)]
        if not fitting:
            parts = ", ".join(sorted({name.split(".")[0] for name in parameters}))
            raise InputError(f"{section}.freeze: {pattern!r} fits no parameter. Their names begin with: {parts}.")
        for name in fitting:
            parameters[name].requires_grad_(False)
    count = sum(p.numel() for p in parameters.values() if p.requires_grad)
    if not count:
        raise InputError(f"{section}.freeze: every parameter is frozen; nothing is left to train.")
    if patterns and tell:
        log.info("%d of %d parameters are trained", count, sum(p.numel() for p in parameters.values()))
