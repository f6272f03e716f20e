"""Make an adapter from a user's own labels, and merge it into a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from plumbline import pretrained
from plumbline.core.console import log, warn
from plumbline.core.errors import InputError
from plumbline.core.files import (
    check_place,
    check_writable,
    read_json,
    report_write_errors,
    sha256_file,
    sha256_folder,
)
from plumbline.core.strain import category
from plumbline.export.onnx import export_onnx
from plumbline.export.package import (
    MANIFEST,
    PREDICTIONS,
    Manifest,
    check_replaced,
    verify_package,
    write_package,
)
from plumbline.export.second_graph import export_predictions
from plumbline.model.diagnosis import load_diagnosis, save_diagnosis
from plumbline.params import Export, Prepare, without_audit
from plumbline.params.prepare import JUDGED, SEQUENCES
from plumbline.params.serve import Adapt
from plumbline.prepare.buildings import prepare_buildings
from plumbline.prepare.features.definition import PREPARATION
from plumbline.prepare.tiles import label
from plumbline.serve.predictions import check_inputs
from plumbline.sources.city.in_memory import AS_THEY_ARE, Reading, Say, read_city_files
from plumbline.sources.city.labels import match_footprints, read_labels
from plumbline.sources.city.window import Window
from plumbline.sources.files.opened import AnyFile, as_file
from plumbline.train.adapt.adapter import (
    ABOUT,
    ADAPTERS,
    WEIGHTS,
    AboutAdapter,
    Adapted,
    Adapter,
    base_hash,
    check_name,
    load_adapter,
    save_adapter,
    shown,
)
from plumbline.train.adapt.fit import TooFewLabels
from plumbline.train.adapt.fit import adapt as fit
from plumbline.train.monitor.record import surroundings, versions


def base_of(model: str) -> Path:
    """Return the folder of the trained model that `--model` names.

    Raises:
        InputError: there is none.
    """
    folder = pretrained.MODEL if model == pretrained.NAME else Path(model)
    if not (folder / "model.safetensors").is_file():
        raise InputError(
            f"--model {model}: no model.safetensors in {folder}. Give `{pretrained.NAME}`, or "
            "the folder of a trained "
            "model, as data/train.",
            key="model.missing",
        )
    return folder


def prepare_of(base: Path, stated: Prepare | None) -> Prepare:
    """Return how to prepare scatterers for an adapter of `base`: in the same way as for `base`.

    `stated`: section `prepare` of the user's file; its limits of what is judged count.
    """
    recorded = _read_recorded_prepare(base)
    if recorded is None and stated is None:
        warn(
            "%s: has no record of how its scatterers were prepared; the defaults are taken. If "
            "it was trained "
            "with others, give its section prepare by --params FILE.",
            base,
            key="model.unknown_preparation",
        )
    if recorded is None or stated is None:
        return recorded or stated or Prepare()
    differences = [
        f"prepare.{key} {getattr(stated, key):g} (the model's {getattr(recorded, key):g})"
        for key in SEQUENCES
        if key in stated.model_fields_set and getattr(stated, key) != getattr(recorded, key)
    ]
    if differences:
        warn(
            "%s: prepared otherwise than in the parameters file: %s; the model's values are taken",
            base,
            ", ".join(differences),
            key="model.prepared_otherwise",
        )
    keys = [*SEQUENCES, *(key for key in JUDGED if key not in stated.model_fields_set)]
    return stated.model_copy(update={key: getattr(recorded, key) for key in keys})


def _read_recorded_prepare(base: Path) -> Prepare | None:
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
        return Prepare.model_validate(without_audit(params["prepare"]))
    except ValidationError as error:
        raise InputError(
            f"{record}: params.prepare: {error.errors()[0]['msg']}. Train the model again.",
            key="model.damaged_record",
        ) from None


LEVEL_SHOWN = 0.5
"""Smallest share of the way to the labels' level at which held-out buildings support the change."""


def adapt(
    points: Sequence[AnyFile],
    buildings: Path,
    labels: Path,
    *,
    model: str,
    name: str,
    params: Adapt,
    prepare: Prepare | None = None,
    reading: Reading = AS_THEY_ARE,
    root: Path = ADAPTERS,
) -> AboutAdapter:
    """Write `ROOT/NAME`: an adapter of `model`, fitted to the labelled buildings.

    Args:
        points: see `read_tracks`. buildings: footprints. labels: csv, see `read_labels`.
        model: `pretrained`, or the folder of a trained model.
        name: of the adapter; one of that name is replaced.
        params: section `adapt`.
        prepare: section `prepare` of the user's file, if it has one. Where the preparation
            of the model's scatterers is recorded, that counts, and only the limits of what
            `predict` judges are taken from here.
        reading: what points and footprints do not say.
        root: folder of the adapters.

    Raises:
        InputError: anything given is missing, damaged or does not fit together, or there
            are too few labels.
    """
    check_name(name)
    _check_place(root / name)
    inputs = [*(as_file(file).path for file in points), buildings, labels]
    check_inputs(inputs)
    base_folder = base_of(model)
    base = load_diagnosis(base_folder)
    if base.preparation != PREPARATION:
        warn(
            "%s: trained on points that were prepared in another way (%d, now %d): labels must "
            "teach that as well. "
            "Better adapt a model that was trained anew.",
            base_folder,
            base.preparation,
            PREPARATION,
            key="model.old_preparation",
        )
    labelled = read_labels(labels, few=True)
    city = read_city_files(points, buildings, reading, Say.OFFSET)
    tracks, footprints = city.points, city.footprints
    labelled = match_footprints(labelled, footprints, labels, buildings)
    prepare = prepare_of(base_folder, prepare).model_copy(
        update={"max_points": base.network.spec.max_length}
    )
    prepared = prepare_buildings(tracks, footprints, prepare, name)
    sequences, has_label = label(prepared.sequences, labelled)
    rows = np.flatnonzero(has_label)
    if len(rows) < len(labelled):
        log.info(
            "%s: %d of %d labelled buildings have points enough", labels, len(rows), len(labelled)
        )
    centroids = footprints.geometry.centroid
    centre = np.column_stack([centroids.x, centroids.y])[prepared.footprint][rows]
    try:
        adapter = fit(
            base,
            base_hash(base_folder),
            sequences.take(rows),
            centre,
            params=params,
            name=name,
            prepare=prepare,
        )
    except TooFewLabels as error:
        raise InputError(f"{labels}: {error}", key=error.key) from None
    about = adapter.about.model_copy(update={"made": _make_record(inputs, params, reading.window)})
    with report_write_errors(root / name):
        save_adapter(replace(adapter, about=about), root / name)
    _log_accuracy(adapter.about, root / name, params, int((sequences.quadrant[rows] >= 0).sum()))
    _warn_of_single_category(labels, sequences.severity[rows])
    return about


def _make_record(inputs: Sequence[Path], params: Adapt, window: Window) -> dict[str, Any]:
    """Return the record of an adapter: SHA-256 of each input, the window, the folder's
    commit, params and machine."""
    return {
        "inputs": {
            str(path): sha256_folder(path) if path.is_dir() else sha256_file(path)
            for path in inputs
        },
        "window": window.record(),
        "params": {"adapt": params.model_dump(mode="json")},
        "versions": versions(),
        **surroundings(),
    }


def _check_place(folder: Path) -> None:
    """Refuse a folder that cannot be written or holds other files, before any work is done."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        kind = "link" if folder.is_symlink() else "file"
        raise InputError(
            f"{folder}: is a {kind}. Give another --name, or move it.", key="adapter.not_a_folder"
        )
    other_names = sorted({path.name for path in folder.glob("*")} - {WEIGHTS, ABOUT})
    if other_names:
        raise InputError(
            f"{folder}: holds something that this command did not write "
            f"({', '.join(other_names[:3])}). Give another "
            "--name, or move it.",
            key="adapter.foreign_files",
        )
    check_place(folder)
    existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    check_writable(existing / ABOUT)


def _warn_of_single_category(labels: Path, severity: NDArray[np.float32]) -> None:
    """Warn if all labels are of one category: cross-validation then misses errors in the others."""
    categories = np.unique(category(severity))
    if len(categories) == 1:
        warn(
            "%s: all %d labels are of category %d: from these a model learns to give it to every "
            "building, and no "
            "held-out one contradicts it. Label buildings of other categories too.",
            labels,
            len(severity),
            categories[0],
            key="labels.one_category",
        )


def _log_accuracy(about: AboutAdapter, folder: Path, params: Adapt, n_with_quadrant: int) -> None:
    """Log the adapter's accuracy before and after, and calibrations that lacked labels.

    `n_with_quadrant`: number of labels that have a quadrant.
    """
    for metric, unit in (("quadrant_accuracy", ""), ("severity_mae", " permille")):
        before, after, title = about.before[metric], about.after[metric], metric.replace("_", " ")
        if before is None or after is None:
            log.info("held out: no %s: no label has a quadrant", title)
            continue
        log.info(
            "held out: %s %.3f%s by the base, %.3f%s adapted", title, before, unit, after, unit
        )
    for is_lacking, labels, part, needed in (
        (
            not about.temperature_calibrated,
            f"{n_with_quadrant} of {about.labels} labels have a quadrant",
            "the temperature",
            params.min_temperature_labels,
        ),
        (
            not about.interval_calibrated,
            f"{about.labels} labels",
            "the interval",
            params.min_interval_labels,
        ),
        (
            about.labels < params.min_lora_labels,
            f"{about.labels} labels",
            "low-rank changes",
            params.min_lora_labels,
        ),
    ):
        if is_lacking:
            log.info("%s, %d are needed to fit %s; as in the base", labels, needed, part)
    if about.level < LEVEL_SHOWN and not about.parameters:
        warn(
            "held-out buildings do not show that the base was wrong: hardly anything is changed "
            "but statistics",
            key="adapter.no_gain",
        )
    level = f"severities brought {about.level:.0%} of the way to the labels' level"
    changed = (
        f"low-rank changes, {about.parameters} values" if about.parameters else "no low-rank change"
    )
    log.info("%s: %d labels; %s; %s", folder, about.labels, level, changed)


NO_GATE = {"verdict": "not asked", "rules": []}
"""Gate in the manifest of a merged model: none was run."""


def merge(name: str, model: str, output: Path, root: Path = ADAPTERS) -> Manifest:
    """Write base and adapter as one model: a package for `predict` that is also a model
    folder for `export`.

    No gate is in its manifest, so the registry will not promote it.

    Raises:
        InputError: there is no such adapter, it is of another base, or `output` is that
            base or holds something else.
    """
    check_replaced(output, NO_GATE)
    check_name(name)
    adapter, base_folder = load_adapter(adapter_folder(name, root)), base_of(model)
    if output.resolve() == base_folder.resolve():
        raise InputError(
            f"{output}: is the model that was adapted, and would be lost. Give another folder.",
            key="output.is_input",
        )
    changed = Adapted(base_folder).use(adapter)
    changed.preparation = min(changed.preparation, adapter.about.preparation)
    with report_write_errors(output), TemporaryDirectory() as temporary:
        folder = Path(temporary)
        save_diagnosis(changed, folder)
        export_onnx(changed, folder / "model.onnx", Export().opset)
        share = [round(float(value), 6) for value in changed.get_buffer("category_share")]
        export_predictions(adapter.about.prepare, share, folder / PREDICTIONS, Export().opset)
        names = ("model.onnx", PREDICTIONS, "model.safetensors", "model.json")
        return write_package(
            {name: folder / name for name in names},
            _describe_package(adapter, changed.preparation),
            _format_card(adapter.about),
            output,
        )


def adapter_folder(name: str, root: Path = ADAPTERS) -> Path:
    """Return the folder of an adapter.

    Raises:
        InputError: there is none of that name.
    """
    if not (root / name).is_dir():
        names = ", ".join(sorted(path.name for path in root.glob("*") if path.is_dir())) or "none"
        raise InputError(
            f"{root / name}: no such adapter; {names} found. See `plumbline adapters list`.",
            key="adapter.missing",
        )
    return root / name


def _describe_package(adapter: Adapter, preparation: int) -> dict[str, object]:
    about = adapter.about
    return {
        "name": about.name,
        "default_model": "model.onnx",
        "prepare": about.prepare.model_dump(),
        "preparation": preparation,
        "hashes": {"base": about.base_sha256, "adapter": about.weights_sha256},
        "metrics": {"before": about.before, "after": about.after},
        "gate": NO_GATE,
        "records": {},
    }


def _format_card(about: AboutAdapter) -> str:
    return "\n".join(
        [
            f"# Plumbline, adapted: {about.name}",
            "",
            f"A trained model with an adapter fitted to {about.labels} labelled buildings. "
            "Figures by cross-validation on these:",
            "",
            "| | base | adapted |",
            "|---|---|---|",
            *(
                f"| {key} | {shown(about.before[key])} | {shown(about.after[key])} |"
                for key in about.before
            ),
            "",
            "No gate tested it, so it is not a released model. A judgement is a reason to look "
            "at a building. It does "
            "not replace a survey.",
            "",
        ]
    )
