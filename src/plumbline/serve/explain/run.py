"""Explain the judgements of a user's own buildings: reasons by scatterer and by building, and drawings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

import geopandas
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plumbline.core.compass import frames
from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_file
from plumbline.export.package import open_package
from plumbline.export.weights import load_network
from plumbline.model.diagnosis import Diagnosis
from plumbline.params import Ingest, Prepare
from plumbline.prepare.abstention import UNSURE_WHERE, reason_sentences
from plumbline.prepare.assignment.owners import Owners, find_owners
from plumbline.prepare.buildings import prepare_buildings
from plumbline.prepare.periods import period_overlap
from plumbline.serve.explain.attribution import answer, reasons
from plumbline.serve.explain.page import write_page
from plumbline.serve.explain.point_lookup import find_points
from plumbline.serve.explain.tables import building_table, buildings_path, scatterer_table, write_tables
from plumbline.serve.judgement import Model, asked_of, judge
from plumbline.serve.outputs import check_inputs, check_outputs
from plumbline.serve.predict import asked_for
from plumbline.sources.in_memory import NOTHING, Say, read_city_files
from plumbline.sources.track import Track

BLOCK = 128
"""Buildings prepared and explained at a time: bounds the memory beyond points and tables."""
NAMED = 10
"""Buildings that were not judged, named in the log; the table has all that were asked for."""


class Explained(NamedTuple):
    """Tables of the explained buildings."""

    scatterers: geopandas.GeoDataFrame
    """Of those that were judged; see `scatterer_table`."""
    buildings: pd.DataFrame
    """All of them; see `building_table`."""
    reason: pd.Series
    """Of `buildings`, why each is not judged; see `abstention.reasons`."""


class _Block(NamedTuple):
    """Some buildings with all their points."""

    row: NDArray[np.intp]
    """(F,) of the buildings table."""
    tracks: list[Track]
    owners: list[NDArray[np.intp]]
    """For each track (N,) the place in `row` of the building that each point belongs to."""


def explain(
    points: Sequence[Path],
    buildings: Path,
    package: Path,
    output: Path,
    chosen: Sequence[str] = (),
    plan: Path | None = None,
    ingest: Ingest = NOTHING,
    format_: str | None = None,
    id_column: str | None = None,
    layer: str | None = None,
    min_quadrant_confidence: float | None = None,
    damage_rate: float | None = None,
) -> Explained:
    """Write the reasons of the judgements of `plumbline predict`, and drawings if wanted; all files or none.

    Args:
        points: product files, each one track.
        buildings: footprints.
        package: model package folder; its pruned network in float32 answers.
        output: rows of scatterers; the suffix names the format. The rows of buildings go beside, see `write_tables`.
        chosen: `building_id` of those to explain; all that are judged without.
        plan: HTML file.
        ingest, format_: see `read_tracks`.
        id_column, layer: see `read_buildings`; without, what `ingest` says of the file.
        min_quadrant_confidence: of section `prepare`; without, the package's.
        damage_rate: share of the buildings that are damaged; None: that which the model was calibrated on.

    Raises:
        InputError: anything given is missing, damaged or does not fit together. No file is written then.
    """
    beside = buildings_path(output)
    check_inputs([*points, buildings])
    check_outputs(output, plan, [*points, buildings], package, [beside] if beside else [], "plan")
    manifest, _ = open_package(package)
    prepare = asked_for(manifest.prepare, min_quadrant_confidence)
    model = load_network(package)
    city = read_city_files(points, buildings, ingest, format_, id_column, layer, Say.OFFSET)
    tracks, footprints = city.points, city.footprints
    share = model.get_buffer("category_share").tolist()
    about = Model(manifest.version, share)
    rate = sum(share[1:]) if damage_rate is None else damage_rate
    rows = _rows(footprints["building_id"].to_numpy(object), chosen, buildings)
    tracks = [tracks[number] for number in period_overlap(tracks).kept]
    done: list[Explained] = []
    for block in _blocks(tracks, footprints, rows, prepare):
        done.append(_explain_block(block, footprints, prepare, about, rate, model))
        log.info("%d of %d buildings", sum(len(part.buildings) for part in done), len(rows))
    whole = Explained(*(pd.concat(part, ignore_index=True) for part in zip(*done, strict=True)))
    _tell(whole.buildings["building_id"], whole.reason.to_numpy(object), reason_sentences(prepare))
    if not chosen:
        is_ok = whole.buildings["status"] == "ok"
        whole = whole._replace(buildings=whole.buildings[is_ok], reason=whole.reason[is_ok])
    with ExitStack() as staged:
        if plan is not None:
            # Drawn before the tables are written and put in its place after: all files or none.
            drawn = staged.enter_context(atomic_file(plan))
            title = f"Plumbline: {buildings.stem}"
            write_page(whole.buildings, footprints, whole.scatterers, drawn, title, prepare, whole.reason)
        write_tables(whole.scatterers, whole.buildings, output)
    return whole


def _rows(known: NDArray[np.object_], chosen: Sequence[str], path: Path) -> NDArray[np.intp]:
    """Return the rows of the chosen buildings, each once, in the order of the file."""
    if not chosen:
        return np.arange(len(known))
    there = set(known)
    missing = [name for name in chosen if name not in there]
    if missing:
        folded = {name.casefold(): name for name in known}
        near = [folded[name] for name in get_close_matches(missing[0].casefold(), folded, cutoff=0.4)]
        hint = f"the nearest are {', '.join(near)}" if near else f"the first is {known[0]}"
        raise InputError(f"--building {missing[0]}: no such building_id among the {len(known)} of {path}; {hint}.")
    return np.flatnonzero(np.isin(known, list(chosen)))


def _blocks(
    tracks: list[Track], footprints: geopandas.GeoDataFrame, rows: NDArray[np.intp], params: Prepare
) -> Iterator[_Block]:
    """Yield the buildings `rows` in blocks, with the points assigned to them among all footprints."""
    geometry = footprints.geometry.to_numpy()
    place = np.full(len(geometry) + 1, len(rows))  # the last is that of points of no building
    place[rows] = np.arange(len(rows))
    owners = [place[owner] for owner in find_owners(tracks, geometry, params).of]
    orders = [np.argsort(owner, kind="stable") for owner in owners]
    for start in range(0, len(rows), BLOCK):
        stop = min(start + BLOCK, len(rows))
        held = [
            order[slice(*np.searchsorted(owner[order], [start, stop]))]
            for owner, order in zip(owners, orders, strict=True)
        ]
        yield _Block(
            rows[start:stop],
            [track.take(part) for track, part in zip(tracks, held, strict=True)],
            [owner[part] - start for owner, part in zip(owners, held, strict=True)],
        )


def _explain_block(
    block: _Block, footprints: geopandas.GeoDataFrame, prepare: Prepare, about: Model, rate: float, model: Diagnosis
) -> Explained:
    own = footprints.iloc[block.row].reset_index(drop=True)
    prepared = prepare_buildings(block.tracks, own, prepare, owners=Owners(block.owners, 0))
    answers = answer(model, prepared.sequences)
    judged, reason, _ = judge(asked_of(prepared, prepare), answers, own, prepare, about, rate)
    is_ok = (judged["status"] == "ok").to_numpy()[prepared.footprint]
    sequences, building = prepared.sequences.take(np.flatnonzero(is_ok)), prepared.footprint[is_ok]
    found = reasons(model, sequences)
    place = find_points(sequences, building, block.tracks, block.owners, frames(own.geometry.to_numpy()))
    plain = pd.DataFrame(judged.drop(columns="geometry"))
    tables = scatterer_table(sequences, place, found, own.crs), building_table(plain, sequences, found)
    return Explained(*tables, pd.Series(reason, dtype=object))


def _tell(names: pd.Series, why: NDArray[np.object_], said: dict[str, str]) -> None:
    for reason, own in names.groupby(why):
        if reason == "ok":
            log.info("%d buildings explained", len(own))
            continue
        more = f" and {len(own) - NAMED} others" if len(own) > NAMED else ""
        hint = "; --min-quadrant-confidence 0 explains them too" if reason == UNSURE_WHERE else ""
        named = ", ".join(own[:NAMED]) + more
        log.warning("not explained, because not judged (%s%s): %s", said[reason], hint, named)
