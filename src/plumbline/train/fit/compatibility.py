"""Check that a trained model's weights have the same meaning in the network of the parameters.

Shapes do not tell: with other heads, another pooling of the same width or another preparation of the points they are
the same, and the answers are not.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import read_json
from plumbline.model.position import LONGEST_LEARNED
from plumbline.model.spec import NetworkSpec
from plumbline.model.weights import told_preparation
from plumbline.params.model import BY_LENGTH
from plumbline.params.plugins import ATTENTION, POSITION
from plumbline.prepare.features.definition import PREPARATION

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
