"""Judge a user's own buildings from their points: one judgement or abstention per building."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import geopandas
import numpy as np
from numpy.typing import NDArray

from plumbline.core.console import log
from plumbline.core.files import atomic_file
from plumbline.export.package import open_package
from plumbline.export.runtime import OnnxModel
from plumbline.params import Ingest, Prepare
from plumbline.prepare.abstention import NO_MATTER, UNSURE_WHERE
from plumbline.prepare.buildings import Prepared, prepare_buildings
from plumbline.serve.judgement import Judged, Model, asked_of, judge, say_damaged, say_unjudged
from plumbline.serve.layers import scatterer_layers, unjudged_layer
from plumbline.serve.map.page import check_page, write_map
from plumbline.serve.predictions import check_inputs, check_outputs, write_predictions
from plumbline.sources.city.in_memory import NOTHING, Say, read_city_files, read_tracks
from plumbline.sources.points.track import Track

__all__ = ["predict", "read_tracks"]


def predict(
    points: Sequence[Path],
    buildings: Path,
    package: Path,
    output: Path,
    map_path: Path | None = None,
    artifact: str | None = None,
    ingest: Ingest = NOTHING,
    format_: str | None = None,
    id_column: str | None = None,
    layer: str | None = None,
    min_quadrant_confidence: float | None = None,
    damage_rate: float | None = None,
) -> geopandas.GeoDataFrame:
    """Judge every footprint and write the predictions, and a map if wanted; both or neither.

    Args:
        points: product files, each one track.
        buildings: footprints.
        package: model package folder.
        output: predictions; the suffix names the format.
        map_path: HTML file.
        artifact: model of the package; its default without.
        ingest: see `read_tracks`.
        format_: see `read_tracks`.
        id_column: see `read_buildings`; without, what `ingest` says of the file.
        layer: see `read_buildings`; without, what `ingest` says of the file.
        min_quadrant_confidence: of section `prepare`; without, the package's.
        damage_rate: share of the buildings that are damaged; None: estimated from the answers.

    Raises:
        InputError: anything given is missing, damaged or does not fit together. No file is written then.
    """
    check_inputs([*points, buildings])
    check_outputs(output, map_path, [*points, buildings], package)
    if map_path is not None:
        check_page()
    manifest, model = open_package(package, artifact)
    prepare = asked_for(manifest.prepare, min_quadrant_confidence)
    city = read_city_files(points, buildings, ingest, format_, id_column, layer, Say.ALL)
    judged, owners = judge_and_assign(city.points, city.footprints, prepare, model, manifest.version, damage_rate)
    table, reason = judged.table, judged.reason
    layers = []
    if output.suffix.lower() == ".gpkg":
        layers = [*unjudged_layer(judged), *scatterer_layers(city.points, owners, table)]
    with ExitStack() as staged:
        if map_path is not None:
            # Drawn before the predictions are written and put in its place after: both files or neither.
            drawn = staged.enter_context(atomic_file(map_path))
            write_map(judged, city.points, drawn, f"Plumbline: {buildings.stem}")
        write_predictions(table, output, layers)
    counts = table["status"].value_counts()
    torn = int((reason == UNSURE_WHERE).sum())
    warn_of_unjudged(reason, prepare)
    log.info("%d buildings: %s", len(table), ", ".join(f"{n} {status}" for status, n in counts.items()))
    say_unjudged(judged)
    say_damaged(judged)
    if torn:
        log.info(
            "%d of the insufficient_points may be damaged, and no quadrant of theirs is probable enough "
            "(--min-quadrant-confidence 0 judges them too)",
            torn,
        )
    return table


def asked_for(prepare: Prepare, min_quadrant_confidence: float | None) -> Prepare:
    """Return the preparation of a package, with the user's own confidence limit if one is given."""
    if min_quadrant_confidence is None:
        return prepare
    return prepare.model_copy(update={"min_quadrant_confidence": min_quadrant_confidence})


def warn_of_unjudged(reason: NDArray[np.object_], prepare: Prepare) -> None:
    """Warn with the reasons if fewer than half of the buildings were judged.

    Buildings that only lack a probable quadrant do not count: their points are where they should be.

    Args:
        reason: of each building, see `Judged`. prepare: of the model that judged.
    """
    number = Counter(reason.tolist())
    if 2 * (number["ok"] + number[UNSURE_WHERE]) >= len(reason):
        return
    log.warning(
        "%d of %d buildings were judged. %d have no scatterer on them, %d too few of them, %d too noisy ones or all on "
        "one line, %d have a side below %g or above %g m, %d are unlike all that the model was trained on, or "
        "observed for a shorter time. Do points and footprints lie on each other (a map shows it)? Cells of 100 m, as "
        "of EGMS L3, are too coarse for single houses.",
        number["ok"],
        len(reason),
        number["no_points"],
        number["few_points"],
        number["noisy_points"],
        sum(number[name] for name in NO_MATTER),
        prepare.min_side_m,
        prepare.max_side_m,
        number["out_of_distribution"],
    )


def judge_footprints(
    tracks: list[Track],
    footprints: geopandas.GeoDataFrame,
    prepare: Prepare,
    model: OnnxModel,
    version: str,
    damage_rate: float | None = None,
) -> Judged:
    """Return the predictions table for the footprints, in the CRS of the tracks, with reasons for abstentions.

    Args:
        tracks: see `prepare_buildings`.
        footprints: see `prepare_buildings`.
        prepare: how the model wants its scatterers prepared.
        model: what answers.
        version: of its package.
        damage_rate: see `judge`.
    """
    return judge_and_assign(tracks, footprints, prepare, model, version, damage_rate)[0]


def judge_and_assign(
    tracks: list[Track],
    footprints: geopandas.GeoDataFrame,
    prepare: Prepare,
    model: OnnxModel,
    version: str,
    damage_rate: float | None,
) -> tuple[Judged, list[NDArray[np.intp]]]:
    """Judge as `judge_footprints` does; also return the footprint of each point, see `Prepared.owners`."""
    judged, prepared = prepare_and_judge(tracks, footprints, prepare, model, version, damage_rate)
    return judged, prepared.owners


def prepare_and_judge(
    tracks: list[Track],
    footprints: geopandas.GeoDataFrame,
    prepare: Prepare,
    model: OnnxModel,
    version: str,
    damage_rate: float | None,
) -> tuple[Judged, Prepared]:
    """Judge as `judge_footprints` does; also return what was judged."""
    prepared = prepare_buildings(tracks, footprints, prepare)
    if prepared.moved:
        log.info(
            "%d points between two footprints go to the one whose movement they follow, not to the nearest",
            prepared.moved,
        )
    answers = model.answer(prepared.sequences)
    about = Model(version, model.category_share)
    return judge(asked_of(prepared, prepare), answers, footprints, prepare, about, damage_rate), prepared
