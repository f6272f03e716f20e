"""Find the trained model that an adapter is for, and how its points were prepared."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from plumbline import pretrained
from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import read_json
from plumbline.export.package import MANIFEST, verify_package
from plumbline.params import Prepare
from plumbline.params.prepare import JUDGED, SEQUENCES


def base_of(model: str) -> Path:
    """Return the folder of the trained model that `--model` names.

    Raises:
        InputError: there is none.
    """
    folder = pretrained.MODEL if model == pretrained.NAME else Path(model)
    if not (folder / "model.safetensors").is_file():
        raise InputError(
            f"--model {model}: no model.safetensors in {folder}. Give `{pretrained.NAME}`, or the folder of a trained "
            "model, as data/train."
        )
    return folder


def prepare_of(base: Path, given: Prepare | None) -> Prepare:
    """Return how to prepare scatterers for an adapter of `base`: in the same way as for `base`."""
    told = _told_by(base)
    if told is None:
        if given is None:
            log.warning(
                "%s: does not say how the model's scatterers were prepared; the defaults are taken. If it was trained "
                "with others, give its section prepare by --params FILE.",
                base,
            )
        return given or Prepare()
    if given is None:
        return told
    own = {key: getattr(told, key) for key in SEQUENCES}
    limits = {key: getattr(told, key) for key in JUDGED if key not in given.model_fields_set}
    other = [
        f"prepare.{key} {getattr(given, key):g} (the model's {own[key]:g})"
        for key in SEQUENCES
        if key in given.model_fields_set and getattr(given, key) != own[key]
    ]
    if other:
        log.warning(
            "%s: prepared otherwise than the parameters file says: %s; as the model's is taken", base, ", ".join(other)
        )
    return given.model_copy(update=own | limits)


def _told_by(base: Path) -> Prepare | None:
    """Return how the scatterers were prepared, from the model's record or its package's manifest.

    Raises:
        InputError: the package is not whole, or the record not readable.
    """
    package = pretrained.PACKAGE if base.resolve() == pretrained.MODEL.resolve() else base
    if (package / MANIFEST).is_file():
        return verify_package(package).prepare
    record = base / "record.json"
    params = read_json(record).get("params", {}) if record.is_file() else {}
    if "prepare" not in params:
        return None
    try:
        return Prepare.model_validate(params["prepare"])
    except ValidationError as error:
        raise InputError(f"{record}: params.prepare: {error.errors()[0]['msg']}. Train the model again.") from None
