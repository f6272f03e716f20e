"""Explain the judgements of a user's own buildings: reasons by scatterer and by building, and drawings."""

from __future__ import annotations

from collections.abc import Sequence
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
from plumbline.params import Ingest
from plumbline.prepare.abstention import UNSURE_WHERE, reason_sentences
from plumbline.serve.explain.attribution import reasons
from plumbline.serve.explain.page import write_page
from plumbline.serve.explain.point_lookup import find_points
from plumbline.serve.explain.tables import building_table, buildings_path, scatterer_table, write_tables
from plumbline.serve.judgement import Judged, say_damaged
from plumbline.serve.outputs import check_inputs, check_outputs
from plumbline.serve.predict import asked_for, prepare_and_judge
from plumbline.sources.in_memory import NOTHING, Say, read_city_files

NAMED = 10
"""Buildings that were not judged, named in the log; the table has all that were asked for."""


class Explained(NamedTuple):
    """Tables of the explained buildings."""

    scatterers: geopandas.GeoDataFrame
    """Of those that were judged; see `scatterer_table`."""
    buildings: pd.DataFrame
    """All of them; see `building_table`."""


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
        package: model package folder; its default model answers, and its network in float32 is explained.
        output: rows of scatterers; the suffix names the format. The rows of buildings go beside, see `write_tables`.
        chosen: `building_id` of those to explain; all that are judged without.
        plan: HTML file.
        ingest, format_: see `read_tracks`.
        id_column, layer: see `read_buildings`; without, what `ingest` says of the file.
        min_quadrant_confidence: of section `prepare`; without, the package's.
        damage_rate: share of the buildings that are damaged; None: estimated from all answers, as `predict` does.

    Raises:
        InputError: anything given is missing, damaged or does not fit together. No file is written then.
    """
    beside = buildings_path(output)
    check_inputs([*points, buildings])
    check_outputs(output, plan, [*points, buildings], package, [beside] if beside else [], "plan")
    manifest, released = open_package(package)
    prepare = asked_for(manifest.prepare, min_quadrant_confidence)
    model = load_network(package)
    city = read_city_files(points, buildings, ingest, format_, id_column, layer, Say.OFFSET)
    tracks, footprints = city.points, city.footprints
    rows = _rows(footprints["building_id"].to_numpy(object), chosen, buildings)
    judged, prepared = prepare_and_judge(tracks, footprints, prepare, released, manifest.version, damage_rate)
    say_damaged(judged)
    is_ok = judged.reason == "ok"
    place = np.flatnonzero(is_ok[prepared.footprint] & np.isin(prepared.footprint, rows))
    sequences = prepared.sequences.take(place)
    found = reasons(model, sequences)
    _tell(footprints["building_id"].iloc[rows], judged, reason_sentences(prepare))
    frame = frames(footprints.geometry.to_numpy())
    of_rows = find_points(sequences, prepared.footprint[place], tracks, prepared.owners, frame)
    shown = rows if chosen else rows[is_ok[rows]]
    table = pd.DataFrame(judged.table.drop(columns="geometry")).iloc[shown].reset_index(drop=True)
    whole = Explained(
        scatterer_table(sequences, of_rows, found, footprints.crs), building_table(table, sequences, found)
    )
    with ExitStack() as staged:
        if plan is not None:
            # Drawn before the tables are written and put in its place after: all files or none.
            drawn = staged.enter_context(atomic_file(plan))
            why = pd.Series(judged.explanation[shown])
            title = f"Plumbline: {buildings.stem}"
            write_page(whole.buildings, footprints, whole.scatterers, drawn, title, why, judged.rate)
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


def _tell(names: pd.Series, judged: Judged, said: dict[str, str]) -> None:
    """Log which of the buildings are not explained, by reason; `names`: with the rows of `judged` as its index."""
    for reason, own in names.groupby(judged.reason[names.index]):
        if reason == "ok":
            log.info("%d buildings explained", len(own))
            continue
        more = f" and {len(own) - NAMED} others" if len(own) > NAMED else ""
        hint = "; --min-quadrant-confidence 0 explains them too" if reason == UNSURE_WHERE else ""
        why = judged.explanation[own.index[0]] if len(own) == 1 else said[reason]
        named = ", ".join(own[:NAMED]) + more
        log.warning("not explained, because not judged (%s%s): %s", why, hint, named)
