"""Find the first weights, and check that they fit.

Shapes do not tell: with other heads, another pooling of the same width or another preparation of the points they are
the same, and the answers are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from fnmatch import fnmatch
from pathlib import Path

from pydantic import ValidationError
from safetensors import SafetensorError
from torch import Tensor

from plumbline import pretrained
from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import read_json
from plumbline.model.diagnosis import Diagnosis
from plumbline.model.spec import LONGEST_LEARNED, NetworkSpec
from plumbline.model.weights import read_weights, told_preparation
from plumbline.params import Train
from plumbline.params.plugins import ATTENTION, POSITION
from plumbline.params.train import BY_LENGTH, FitOptions
from plumbline.prepare.features.definition import PREPARATION
from plumbline.prepare.features.shards import SequenceSet
from plumbline.train.data.splits import STANDARDISATION, fit_statistics

NAMED = {
    "distance_channels": "model.channels",
    "slope_channels": "model.channels",
    "distance_hidden": "model.blocks",
    "slope_hidden": "model.blocks",
    "geometry_width": "model.hidden",
    "max_length": "prepare.max_points",
}
"""Field of a spec -> the parameter that it comes from, where that has another name."""
FREE = ("dropout", "checkpoint_activations")
"""Fields that change how a network is trained, and not what it answers."""


def check_spec(folder: Path, needed: NetworkSpec, position: str) -> None:
    """Refuse a model with another network than `needed`.

    Args:
        folder: of the trained model.
        needed: the network that the parameters ask for.
        position: `model.position`, as it stands there.

    Raises:
        InputError: its `model.json` is missing or damaged, or says something else; the message names each parameter.
    """
    path = folder / "model.json"
    try:
        found = NetworkSpec.model_validate(read_json(path))
    except ValidationError as error:
        raise InputError(f"{path}: not readable as the widths of a network ({error}).") from None
    other = differences(found, needed)
    if not other:
        return
    listed = dict.fromkeys(f"{NAMED.get(k, f'model.{k}')}: {there} found, {here} needed" for k, there, here in other)
    why = ""
    if position == BY_LENGTH and any(key == "position" for key, *_ in other):
        why = (
            f" (position is {BY_LENGTH}, which is learned up to prepare.max_points {LONGEST_LEARNED}: "
            f"{found.max_length} found, {needed.max_length} needed)"
        )
    do = "Give these the values that this model was trained with"
    if not _is_whole(found):
        do = "It is pruned, and no values make such a network: name the model that it was pruned from"
    raise InputError(f"train.start_from: {folder}: {'; '.join(listed)}{why}. {do}, or take it out of the list.")


def differences(found: NetworkSpec, needed: NetworkSpec) -> list[tuple[str, object, object]]:
    """Return the fields that change the meaning of equal weights, with both values."""
    free = set(FREE)
    mixes = [ATTENTION[spec.attention] is not None and bool(spec.attention_layers) for spec in (found, needed)]
    if all(mixes):
        free.add("attention")  # all kernels give the same answers
    if not any(mixes):
        free |= {"attention", "heads", "position", "max_attention_length", "max_length"}
    longest = max(found.max_length, needed.max_length)
    if min(found.max_attention_length, needed.max_attention_length) >= longest:
        free.add("max_attention_length")  # no building is left out by either
    if _any_length(found.position) and _any_length(needed.position):
        free.add("max_length")
    counted = _is_whole(found) and _is_whole(needed)  # widths then follow from the channels, which are said as well
    said = {
        name: (_said(found, name, counted), _said(needed, name, counted))
        for name in NetworkSpec.model_fields
        if name not in free
    }
    return [(name, there, here) for name, (there, here) in said.items() if there != here]


def check_preparation(folder: Path) -> None:
    """Refuse a model trained on points that were prepared in another way, by `features.PREPARATION`.

    Raises:
        InputError: it was, or its weights are not readable.
    """
    said = told_preparation(folder)
    if said is None:
        log.warning("%s: does not say how its points were prepared; taken to be as they are now", folder)
    elif said != PREPARATION:
        raise InputError(
            f"train.start_from: {folder}: trained on points that were prepared in another way ({said}, now "
            f"{PREPARATION}): its inputs meant something else. Take it out of the list, and train anew."
        )


def _is_whole(spec: NetworkSpec) -> bool:
    """Return whether all widths are those of an unpruned network with these parameters."""
    width = spec.distance_channels
    layers = {(layer.inner, layer.feedforward) for layer in spec.attention_layers}
    return {spec.slope_channels, *spec.distance_hidden, *spec.slope_hidden} == {width} and layers <= {
        (2 * width, 4 * width)
    }


def _any_length(position: str) -> bool:
    """Return whether a position code is the same for all lengths of sequences."""
    return bool(getattr(POSITION[position], "any_length", POSITION[position] is None))


def _said(spec: NetworkSpec, name: str, counted: bool) -> object:
    """Return the value of a spec's field; for heads and layers, what is built from it.

    `counted`: say how many blocks and layers there are, as the parameters do, and not their widths.
    """
    if counted and name in ("distance_hidden", "slope_hidden", "attention_layers"):
        return len(getattr(spec, name))
    if name == "attention_layers":
        return [(layer.inner, layer.feedforward) for layer in spec.attention_layers]
    if name == "heads":
        heads = {spec.heads_of(layer) for layer in spec.attention_layers} or {spec.heads}
        return heads.pop() if len(heads) == 1 else [spec.heads_of(layer) for layer in spec.attention_layers]
    return getattr(spec, name)


CHECKPOINT, RANDOM = "checkpoint", "random"


def check_sources(losses: FitOptions, out: Path) -> None:
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

    Raises:
        InputError: a file is damaged, or the network another.
    """
    check_spec(folder, model.network.spec, position)
    check_preparation(folder)
    try:
        found = read_weights(folder / "model.safetensors")
    except (SafetensorError, OSError) as error:
        raise InputError(f"{folder / 'model.safetensors'}: not readable ({error}).") from None
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


def freeze(model: Diagnosis, patterns: list[str], section: str = "train") -> None:
    """Freeze the network parameters with names that fit a pattern.

    Args:
        model: whose parameters these are.
        patterns: `freeze` of the section of that name.
        section: see `patterns`.

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
    if patterns:
        log.info("%d of %d parameters are trained", count, sum(p.numel() for p in parameters.values()))
