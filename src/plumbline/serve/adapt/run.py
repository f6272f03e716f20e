"""Make an adapter from a user's own points, footprints and labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import check_writable, sha256_file, sha256_folder, told_unwritten
from plumbline.core.strain import category
from plumbline.model.diagnosis import load_diagnosis
from plumbline.params import Ingest, Prepare
from plumbline.params.adapt import Adapt
from plumbline.prepare.buildings import prepare_buildings
from plumbline.prepare.features.definition import PREPARATION
from plumbline.prepare.tile import label
from plumbline.serve.adapt.base_model import base_of, prepare_of
from plumbline.serve.outputs import check_inputs
from plumbline.sources.city.labels import match_footprints, read_labels
from plumbline.sources.in_memory import NOTHING, Say, read_city_files
from plumbline.train.adapt.adapter import ABOUT, ADAPTERS, WEIGHTS, base_hash, check_name, save_adapter
from plumbline.train.adapt.adapter_file import AboutAdapter
from plumbline.train.adapt.fit_adapter import TooFewLabels
from plumbline.train.adapt.fit_adapter import adapt as fit
from plumbline.train.monitor.record import git_commit, surroundings

LEVEL_SHOWN = 0.5
"""Of a level, from which labels speak for it rather than against."""


def adapt(
    points: Sequence[Path],
    buildings: Path,
    labels: Path,
    model: str,
    name: str,
    params: Adapt,
    prepare: Prepare | None = None,
    ingest: Ingest = NOTHING,
    format_: str | None = None,
    root: Path = ADAPTERS,
    id_column: str | None = None,
    layer: str | None = None,
) -> AboutAdapter:
    """Write `ROOT/NAME`: an adapter of `model`, fitted to the labelled buildings.

    Args:
        points, ingest, format_: see `read_tracks`.
        buildings: footprints. labels: csv, see `read_labels`.
        model: `pretrained`, or the folder of a trained model.
        name: of the adapter; one of that name is replaced.
        params: section `adapt`.
        prepare: section `prepare` of the user's file, if it has one. Where the model says how its scatterers were
            prepared, that counts, and only the limits of what `predict` judges are taken from here.
        root: folder of the adapters.
        id_column, layer: see `read_buildings`; without, what `ingest` says of the file.

    Raises:
        InputError: anything given is missing, damaged or does not fit together, or there are too few labels.
    """
    check_name(name)
    _check_place(root / name)
    check_inputs([*points, buildings, labels])
    base_folder = base_of(model)
    base = load_diagnosis(base_folder)
    if base.preparation != PREPARATION:
        log.warning(
            "%s: trained on points that were prepared in another way (%d, now %d): labels must teach that as well. "
            "Better adapt a model that was trained anew.",
            base_folder,
            base.preparation,
            PREPARATION,
        )
    known = read_labels(labels, few=True)
    city = read_city_files(points, buildings, ingest, format_, id_column, layer, Say.OFFSET)
    tracks, footprints = city.points, city.footprints
    known = match_footprints(known, footprints, labels, buildings)
    prepare = prepare_of(base_folder, prepare).model_copy(update={"max_points": base.network.spec.max_length})
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
    about = adapter.about.model_copy(update={"made": _record([*points, buildings, labels], params)})
    with told_unwritten(root / name):
        save_adapter(replace(adapter, about=about), root / name)
    _tell(adapter.about, root / name, params, int((sequences.quadrant[rows] >= 0).sum()))
    _warn_of_one_kind(labels, sequences.severity[rows])
    return about


def _record(inputs: Sequence[Path], params: Adapt) -> dict[str, Any]:
    """Return the record of an adapter: SHA-256 of each input, the commit of the working folder, params and machine."""
    return {
        "inputs": {str(path): sha256_folder(path) if path.is_dir() else sha256_file(path) for path in inputs},
        "git": git_commit(Path.cwd()),
        "params": {"adapt": params.model_dump(mode="json")},
        **surroundings(),
    }


def _check_place(folder: Path) -> None:
    """Refuse a folder that cannot be written or holds other files, before any work is done."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        kind = "link" if folder.is_symlink() else "file"
        raise InputError(f"{folder}: is a {kind}. Give another --name, or move it.")
    strange = sorted({path.name for path in folder.glob("*")} - {WEIGHTS, ABOUT})
    if strange:
        raise InputError(
            f"{folder}: holds something that this command did not write ({', '.join(strange[:3])}). Give another "
            "--name, or move it."
        )
    place = folder
    while not place.parent.exists():
        place = place.parent
    if not place.parent.is_dir():
        raise InputError(f"{place.parent}: is a file, and adapters are kept in a folder of that name. Move it.")
    check_writable(place)


def _warn_of_one_kind(labels: Path, severity: NDArray[np.float32]) -> None:
    """Warn if all labels are of one category: held-out buildings then cannot show errors in the others."""
    kinds = np.unique(category(severity))
    if len(kinds) == 1:
        log.warning(
            "%s: all %d labels are of category %d: from these a model learns to say it of every building, and no "
            "held-out one speaks against it. Label buildings of other categories too.",
            labels,
            len(severity),
            kinds[0],
        )


def _tell(about: AboutAdapter, folder: Path, params: Adapt, with_quadrant: int) -> None:
    """Log the adapter's accuracy before and after, and calibrations that lacked labels.

    `with_quadrant`: labels that have one.
    """
    for what, unit in (("quadrant_accuracy", ""), ("severity_mae", " permille")):
        before, after = about.before[what], about.after[what]
        if before is None or after is None:
            log.info("held out: no %s: no label has a quadrant", what.replace("_", " "))
            continue
        log.info("held out: %s %.3f%s by the base, %.3f%s adapted", what.replace("_", " "), before, unit, after, unit)
    if not about.temperature_calibrated:
        log.info(
            "%d of %d labels have a quadrant, %d are needed to set the temperature anew; kept as in the base",
            with_quadrant,
            about.labels,
            params.min_temperature_labels,
        )
    if not about.interval_calibrated:
        log.info(
            "%d labels, %d are needed to set the interval anew; kept as in the base",
            about.labels,
            params.min_interval_labels,
        )
    if about.level < LEVEL_SHOWN and not about.part:
        log.warning("held-out buildings do not show that the base was wrong: hardly anything is changed but statistics")
    level = f"severities brought {about.level:.0%} of the way to the labels' level"
    part = f"{about.part:g} of the low-rank changes of {about.parameters} parameters ({about.share:.1%} of the network)"
    log.info("%s: %d labels; %s; %s kept", folder, about.labels, level, part if about.part else "no low-rank change")
