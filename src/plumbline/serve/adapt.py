"""A user's own points, footprints and labels in, an adapter out; and an adapter with its base as one model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import geopandas
import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from plumbline import pretrained
from plumbline.console import log
from plumbline.errors import InputError
from plumbline.export.onnx import export_onnx
from plumbline.export.package import MANIFEST, Manifest, check_replaced, verify_package, write_package
from plumbline.files import read_json, told_unwritten
from plumbline.model.diagnosis import load_diagnosis, save_diagnosis
from plumbline.params import Export, Ingest, Prepare
from plumbline.params.adapt import Adapt
from plumbline.params.prepare import SEQUENCES
from plumbline.prepare.buildings import prepare_buildings
from plumbline.prepare.tile import label
from plumbline.serve.outputs import check_inputs
from plumbline.serve.predict import NOTHING, read_tracks
from plumbline.sources.buildings import read_buildings
from plumbline.sources.labels import read_labels
from plumbline.sources.overlap import check_overlap
from plumbline.strain import category
from plumbline.train.adapt import TooFewLabels
from plumbline.train.adapt import adapt as fit
from plumbline.train.adapter import About, Adapted, Adapter, base_hash, check_name, load_adapter, save_adapter

ADAPTERS = Path("adapters")
"""Where adapters are kept, one folder each."""
LEVEL_SHOWN = 0.5
"""Of a level, from which labels speak for it rather than against."""
NO_GATE = {"verdict": "not asked", "rules": []}
"""In the manifest of a merged model."""


def adapt(
    points: Sequence[Path], buildings: Path, labels: Path, model: str, name: str, params: Adapt,
    prepare: Prepare | None = None, ingest: Ingest = NOTHING, format_: str | None = None,
    root: Path = ADAPTERS, id_column: str | None = None, layer: str | None = None,
) -> About:  # fmt: skip
    """Write `ROOT/NAME`, an adapter of `model` for the buildings that have labels.

    Args:
        points, ingest, format_: see `read_tracks`.
        buildings: footprints. labels: csv, see `read_labels`.
        model: `pretrained`, or the folder of a trained model.
        name: of the adapter; one of that name is replaced.
        params: section `adapt`.
        prepare: section `prepare` of the user's file, if it has one. Where the model says how its scatterers were
            prepared, that counts, and only `max_strain_error_permille` is taken from here.
        root: folder of the adapters.
        id_column, layer: see `read_buildings`; without, what `ingest` says of the file.

    Raises:
        InputError: anything given is missing, damaged or does not fit together, or there are too few labels.
    """
    check_name(name)
    check_inputs([*points, buildings, labels])
    base_folder = base_of(model)
    base = load_diagnosis(base_folder)
    known = read_labels(labels)
    tracks = read_tracks(points, ingest, format_)
    footprints = read_buildings(buildings, tracks[0].crs, id_column, layer, ingest.footprints)
    check_overlap(tracks, footprints, ", ".join(map(str, points)), str(buildings))
    _check_labelled(footprints, set(known["building_id"]), labels, buildings)
    prepare = _prepare_of(base_folder, prepare).model_copy(update={"max_points": base.network.spec.max_length})
    prepared = prepare_buildings(tracks, footprints, prepare, name)
    sequences, has_label = label(prepared.sequences, known)
    rows = np.flatnonzero(has_label)
    if len(rows) < len(known):
        log.info("%s: %d of %d labelled buildings have points enough", labels, len(rows), len(known))
    middle = footprints.geometry.centroid
    centre = np.column_stack([middle.x, middle.y])[prepared.footprint][rows]
    try:
        adapter = fit(base, base_hash(base_folder), sequences.take(rows), centre, params, name, prepare)
    except TooFewLabels as error:
        raise InputError(f"{labels}: {error}") from None
    with told_unwritten(root / name):
        save_adapter(adapter, root / name)
    _tell(adapter.about, root / name)
    _warn_of_one_kind(labels, sequences.severity[rows])
    return adapter.about


def merge(name: str, model: str, output: Path, root: Path = ADAPTERS) -> Manifest:
    """Write base and adapter as one model: a package for `predict`, and a trained model's folder for `export`.

    Its manifest says that no gate was asked: the registry will not promote it.

    Raises:
        InputError: there is no such adapter, it is of another base, or `output` holds something else.
    """
    check_replaced(output, NO_GATE)
    check_name(name)
    adapter, base_folder = load_adapter(adapter_folder(name, root)), base_of(model)
    changed = Adapted(base_folder).use(adapter)
    changed.preparation = min(changed.preparation, adapter.about.preparation)
    with told_unwritten(output), TemporaryDirectory() as temporary:
        folder = Path(temporary)
        save_diagnosis(changed, folder)
        export_onnx(changed, folder / "model.onnx", Export().opset)
        files = {path: folder / path for path in ("model.onnx", "model.safetensors", "model.json")}
        return write_package(files, _package(adapter, changed.preparation), _card(adapter.about), output)


def base_of(model: str) -> Path:
    """Folder of the trained model that `--model` names.

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


def adapter_folder(name: str, root: Path = ADAPTERS) -> Path:
    """Folder of an adapter.

    Raises:
        InputError: there is none of that name.
    """
    if not (root / name).is_dir():
        there = ", ".join(sorted(path.name for path in root.glob("*") if path.is_dir())) or "none"
        raise InputError(f"{root / name}: no such adapter; {there} found. See `plumbline adapters list`.")
    return root / name


def _prepare_of(base: Path, given: Prepare | None) -> Prepare:
    """How to prepare scatterers for an adapter of `base`: as they were for it."""
    told = _told_by(base)
    if told is None:
        if given is None:
            log.warning(
                "%s: does not say how the model's scatterers were prepared; the defaults are taken. If it was trained "
                "with others, give its section prepare by --params FILE.", base,
            )  # fmt: skip
        return given or Prepare()
    if given is None:
        return told
    own = {key: getattr(told, key) for key in SEQUENCES}
    if "max_strain_error_permille" not in given.model_fields_set:
        own["max_strain_error_permille"] = told.max_strain_error_permille
    other = [
        f"prepare.{key} {getattr(given, key):g} (the model's {own[key]:g})"
        for key in SEQUENCES
        if key in given.model_fields_set and getattr(given, key) != own[key]
    ]
    if other:
        log.warning("%s: prepared otherwise than the parameters file says: %s; as the model's is taken", base,
                    ", ".join(other))  # fmt: skip
    return given.model_copy(update=own)


def _told_by(base: Path) -> Prepare | None:
    """What the folder of a trained model, or its package, says of how its scatterers were prepared.

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


def _check_labelled(footprints: geopandas.GeoDataFrame, labelled: set[str], labels: Path, buildings: Path) -> None:
    unknown = sorted(labelled - {*footprints["building_id"], *footprints.attrs.get("left_out", ())})
    if unknown:
        raise InputError(
            f"{labels}: not in {buildings}: {len(unknown)} of the labelled buildings ({', '.join(unknown[:5])}). "
            "Mend these, or name the footprints' column by --id-column. Labels and footprints must be of one city."
        )


def _warn_of_one_kind(labels: Path, severity: NDArray[np.float32]) -> None:
    """Say so where all labels are of one category: then no held-out building can show what the adapter has lost."""
    kinds = np.unique(category(severity))
    if len(kinds) == 1:
        log.warning(
            "%s: all %d labels are of category %d: from these a model learns to say it of every building, and no "
            "held-out one speaks against it. Label buildings of other categories too.",
            labels, len(severity), kinds[0],
        )  # fmt: skip


def _tell(about: About, folder: Path) -> None:
    for what, unit in (("quadrant_accuracy", ""), ("severity_mae", " permille")):
        log.info("held out: %s %.3f%s by the base, %.3f%s adapted", what.replace("_", " "), about.before[what], unit,
                 about.after[what], unit)  # fmt: skip
    calibrated = {"temperature": about.temperature_calibrated, "interval": about.interval_calibrated}
    kept = " and ".join(name for name, done in calibrated.items() if not done)
    if kept:
        log.info("%d labels: too few to calibrate the %s anew; kept as in the base", about.labels, kept)
    if about.level < LEVEL_SHOWN and not about.part:
        log.warning("held-out buildings do not show that the base was wrong: hardly anything is changed but statistics")
    level = f"severities brought {about.level:.0%} of the way to the labels' level"
    part = f"{about.part:g} of the low-rank changes of {about.parameters} parameters ({about.share:.1%} of the network)"
    log.info("%s: %d labels; %s; %s kept", folder, about.labels, level, part if about.part else "no low-rank change")


def _package(adapter: Adapter, preparation: int) -> dict[str, object]:
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


def _card(about: About) -> str:
    return "\n".join(
        [
            f"# Plumbline, adapted: {about.name}",
            "",
            f"A trained model with an adapter fitted to {about.labels} labelled buildings; held out one part after "
            "another, they say:",
            "",
            "| | base | adapted |",
            "|---|---|---|",
            *(f"| {key} | {about.before[key]:.3f} | {about.after[key]:.3f} |" for key in about.before),
            "",
            "No gate was asked: it is not a released model. A judgement is a reason to look at a building, not a "
            "survey of it.",
            "",
        ]
    )
