"""Find the first weights, and check that they fit.

The shapes of tensors are no proof: with other heads, another pooling of the same width or another
preparation of the points they are the same, and the answers are not.
"""

from __future__ import annotations

from difflib import get_close_matches
from fnmatch import fnmatch
from pathlib import Path

from pydantic import ValidationError
from safetensors import SafetensorError

from plumbline import pretrained
from plumbline.core.console import log, warn
from plumbline.core.errors import InputError
from plumbline.core.files import read_json
from plumbline.model.diagnosis import Diagnosis
from plumbline.model.spec import NetworkSpec, new_spec
from plumbline.model.weights import read_preparation, read_weights
from plumbline.params import Model, Train
from plumbline.params.plugins import POSITION
from plumbline.params.train import FitOptions
from plumbline.prepare.features.definition import PREPARATION
from plumbline.prepare.features.shards import SequenceSet
from plumbline.train.data.splits import STANDARDISATION, fit_statistics

NAMED = {"max_length": "prepare.max_points"}
"""Value of a network -> the parameter that it comes from, where that is not in section `model`."""


def check_spec(folder: Path, needed: NetworkSpec) -> None:
    """Refuse a model with another network than `needed`.

    Args:
        folder: of the trained model.
        needed: the network that the parameters ask for.

    Raises:
        InputError: its `model.json` is missing or damaged, is of a pruned network, or has
            other values; the message names each parameter.
    """
    path = folder / "model.json"
    try:
        trained = NetworkSpec.model_validate(read_json(path))
    except ValidationError as error:
        raise InputError(
            f"{path}: not readable as the widths of a network ({error}).",
            key="network.unreadable_spec",
        ) from None
    if new_spec(_model_section(trained), trained.max_length) != trained:
        raise InputError(
            f"train.start_from: {folder}: a pruned network, which no values of section model "
            "make. Name the model that "
            "it was pruned from, or take it out of the list.",
            key="start_from.pruned",
        )
    if differing := differences(trained, needed):
        values = "; ".join(
            f"{NAMED.get(name, f'model.{name}')}: {there} found, {here} needed"
            for name, there, here in differing
        )
        raise InputError(
            f"train.start_from: {folder}: {values}. Give these the values that this model was "
            "trained with, or take it "
            "out of the list.",
            key="start_from.other_network",
        )


def differences(trained: NetworkSpec, needed: NetworkSpec) -> list[tuple[str, object, object]]:
    """Return name and both values of the settings that give equal weights other answers."""
    # Change the training of a network, and not its answers.
    free = {"dropout", "checkpoint_activations"}
    if not trained.attention_layers and not needed.attention_layers:
        free |= {"attention", "heads", "max_attention_length", "position", "max_length"}
    elif trained.attention_layers and needed.attention_layers:
        free.add("attention")  # all kernels give the same answers
    if _any_length(trained.position) and _any_length(needed.position):
        free.add("max_length")
    if trained.attention_limit() == needed.attention_limit():
        free.add("max_attention_length")
    there, here = (
        _model_section(spec).model_dump() | {"max_length": spec.max_length}
        for spec in (trained, needed)
    )
    return [
        (name, there[name], here[name])
        for name in here
        if name not in free and there[name] != here[name]
    ]


def _model_section(spec: NetworkSpec) -> Model:
    """Return the section `model` of which `new_spec` makes this network, unless it is pruned."""
    fields = {
        name: getattr(spec, name) for name in Model.model_fields if name in NetworkSpec.model_fields
    }
    counts = {"blocks": len(spec.distance_hidden), "attention_layers": len(spec.attention_layers)}
    return Model.model_construct(**{**fields, "channels": spec.distance_channels, **counts})


def _any_length(position: str) -> bool:
    """Return whether a position code is the same for all lengths of sequences."""
    return bool(getattr(POSITION[position], "any_length", POSITION[position] is None))


def check_preparation(folder: Path) -> None:
    """Refuse a model trained on points that were prepared in another way, by
    `features.PREPARATION`.

    Raises:
        InputError: it was, or its weights are not readable.
    """
    version = read_preparation(folder)
    if version is None:
        warn(
            "%s: its weights name no version of the preparation of points; the present one is "
            "assumed",
            folder,
            key="model.no_preparation_version",
        )
    elif version != PREPARATION:
        raise InputError(
            f"train.start_from: {folder}: trained on points that were prepared in another way "
            f"({version}, now {PREPARATION}): its inputs have another meaning. Take it out of the "
            "list, and train anew.",
            key="model.old_preparation",
        )


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
            suggestions = get_close_matches(source, words, n=1, cutoff=0.5)
            raise InputError(
                f"train.start_from: {source!r} found, which is no folder here, nor one of "
                f"{', '.join(words)}. "
                + (f"Is {suggestions[0]} meant? " if suggestions else "")
                + f"A folder that need not be there is written as ./{source}.",
                key="start_from.unknown_word",
            )
        if folder.resolve().is_relative_to(out.resolve()):
            raise InputError(
                f"train.start_from: {source} is where this stage writes its own model, and DVC "
                "empties it before the "
                "stage begins. Copy it elsewhere, and name the copy.",
                key="start_from.own_output",
            )


def first_weights(model: Diagnosis, train: SequenceSet, losses: Train) -> None:
    """Fit the statistics, and take pretrained weights if `train.start_from` names any
    before `random`.

    Pretrained weights come with the standardisation they were trained with; what was seen
    in training, by which buildings unlike it are recognised, is that of `train`. A
    checkpoint is found later, by the trainer.

    Args:
        model: whose weights are set.
        train: the training split.
        losses: section `train`.

    Raises:
        InputError: nothing that `start_from` names is there, or it is a package, or another
            network.
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
            load_pretrained(model, folder)
            limit = model.get_buffer("severity_limit").clone()
            fit_statistics(model, train, standardisation=False)
            model.get_buffer("severity_limit").clamp_(min=limit)
            log.info("weights: pretrained, from %s", folder)
            return
        if (folder / "manifest.json").is_file():
            raise InputError(
                f"train.start_from: {folder} is a model package, whose network is pruned and not "
                "trained on. Name "
                f"the folder of a trained model, as a copy of data/train, or `{pretrained.NAME}`.",
                key="start_from.package",
            )
        warn(
            "train.start_from: %s has no model.safetensors; the next of the list is tried",
            folder,
            key="start_from.no_weights",
        )
    if losses.start_from == [CHECKPOINT]:
        # Overwritten by the checkpoint; `resume.resumed` sees to it that there is one.
        fit_statistics(model, train)
        return
    raise InputError(
        f"train.start_from: {losses.start_from} found, and none of it is there. Add `random`.",
        key="start_from.none_found",
    )


def pretrained_folders(losses: Train) -> list[Path]:
    """Return the model folders that the run depends on."""
    folders = [
        _folder(source) for source in losses.start_from if source not in (CHECKPOINT, RANDOM)
    ]
    return [folder for folder in folders if folder.is_dir()]


def _folder(source: str) -> Path:
    return pretrained.MODEL if source == pretrained.NAME else Path(source)


def load_pretrained(model: Diagnosis, folder: Path) -> None:
    """Take the weights and the standardisation of a trained model of the same network.

    Raises:
        InputError: a file is damaged, or the network another.
    """
    check_spec(folder, model.network.spec)
    check_preparation(folder)
    path, statistics = folder / "model.safetensors", {}
    for name, value in model.state_dict().items():
        if not name.startswith("network.") and name not in (*STANDARDISATION, "severity_limit"):
            statistics[name] = value.clone()
    try:
        model.load_state_dict(read_weights(path))
    except (SafetensorError, OSError, RuntimeError) as error:
        raise InputError(
            f"{path}: not readable as the weights of its model.json ({error}).",
            key="network.unreadable_weights",
        ) from None
    model.load_state_dict(statistics, strict=False)


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
            raise InputError(
                f"{section}.freeze: {pattern!r} fits no parameter. Their names begin with: "
                f"{parts}.",
                key="freeze.no_match",
            )
        for name in fitting:
            parameters[name].requires_grad_(False)
    count = sum(p.numel() for p in parameters.values() if p.requires_grad)
    if not count:
        raise InputError(
            f"{section}.freeze: every parameter is frozen; nothing is left to train.",
            key="freeze.all_frozen",
        )
    if patterns:
        log.info(
            "%d of %d parameters are trained", count, sum(p.numel() for p in parameters.values())
        )
