"""A user's own points and footprints in, one judgement or abstention a building out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import geopandas
import numpy as np
from numpy.typing import NDArray

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_file
from plumbline.export.package import open_package
from plumbline.export.runtime import OnnxModel
from plumbline.params import Ingest, Prepare
from plumbline.prepare.abstention import NO_MATTER, UNSURE_WHERE
from plumbline.prepare.buildings import prepare_buildings
from plumbline.serve.judgement import Judged, judge
from plumbline.serve.outputs import check_inputs, check_outputs
from plumbline.serve.predictions import write_predictions
from plumbline.serve.prevalence import say_damaged
from plumbline.sources.checks.alignment import warn_of_offset
from plumbline.sources.checks.consistency import check_distinct, warn_of_datum, warn_of_shared_names
from plumbline.sources.checks.overlap import check_overlap
from plumbline.sources.crs import check_asked
from plumbline.sources.files.file_type import fits
from plumbline.sources.footprints.buildings import read_buildings
from plumbline.sources.ingest.parts import drop_poor
from plumbline.sources.points.epochs import observed
from plumbline.sources.points.read import read_points
from plumbline.sources.track import Track

SHORT_DAYS = 365
"""Less than one whole course of the seasons."""
NOTHING = Ingest()
"""The files say everything, and all points count."""


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
) -> geopandas.GeoDataFrame:
    """Judge every footprint and write the predictions, and a map if wanted; both or neither.

    Args:
        points: product files, each one track.
        buildings: footprints.
        package: model package folder.
        output: predictions; the suffix names the format.
        map_path: HTML file.
        artifact: model of the package; its default without.
        ingest, format_: see `read_tracks`.
        id_column, layer: see `read_buildings`; without, what `ingest` says of the file.
        min_quadrant_confidence: of section `prepare`; without, the package's.

    Raises:
        InputError: anything given is missing, damaged or does not fit together. No file is written then.
    """
    check_inputs([*points, buildings])
    check_outputs(output, map_path, [*points, buildings], package)
    manifest, model = open_package(package, artifact)
    prepare = asked_for(manifest.prepare, min_quadrant_confidence)
    tracks = read_tracks(points, ingest, format_)
    if all(len(track) and _is_empty(track) for track in tracks):
        raise InputError(f"{', '.join(map(str, points))}: nothing to judge by. Export the series with their values.")
    footprints = read_buildings(buildings, tracks[0].crs, id_column, layer, ingest.footprints)
    check_overlap(tracks, footprints, ", ".join(map(str, points)), str(buildings), asked_crs=ingest.crs)
    warn_of_offset(tracks, footprints, ", ".join(map(str, points)), ingest.products)
    warn_of_short(tracks)
    say_one_side(tracks)
    table, reason = judge_footprints(tracks, footprints, prepare, model, manifest.version)
    metrics = manifest.metrics if prepare == manifest.prepare else None
    with ExitStack() as staged:
        if map_path is not None:
            from plumbline.serve.map.page import (
                write_map,  # Bokeh takes a second to load, and not everybody wants a map
            )

            # Drawn before the predictions are written and put in its place after: both files or neither.
            drawn = staged.enter_context(atomic_file(map_path))
            write_map(table, tracks, drawn, f"Plumbline: {buildings.stem}", prepare, reason=reason, metrics=metrics)
        write_predictions(table, output)
    counts = table["status"].value_counts()
    torn = int((reason == UNSURE_WHERE).sum())
    warn_of_unjudged(reason, prepare)
    log.info("%d buildings: %s", len(table), ", ".join(f"{n} {status}" for status, n in counts.items()))
    say_damaged(table, metrics)
    if torn:
        log.info(
            "%d of the insufficient_points may be damaged, and no quadrant of theirs is probable enough "
            "(--min-quadrant-confidence 0 judges them too)",
            torn,
        )
    return table


def _is_empty(track: Track) -> bool:
    return not np.isfinite(track.displacement).any()


def asked_for(prepare: Prepare, min_quadrant_confidence: float | None) -> Prepare:
    """The preparation of a package, with the user's own limit of what is judged, if there is one."""
    if min_quadrant_confidence is None:
        return prepare
    return prepare.model_copy(update={"min_quadrant_confidence": min_quadrant_confidence})


def warn_of_unjudged(reason: NDArray[np.object_], prepare: Prepare) -> None:
    """Say why, where fewer than half of the buildings were judged: the user has to look at something.

    Those that want a probable quadrant alone do not count: their points are where they should be.

    Args:
        reason: of each building, see `abstention.reasons`. prepare: of the model that judged.
    """
    number = Counter(reason.tolist())
    if 2 * (number["ok"] + number[UNSURE_WHERE]) >= len(reason):
        return
    log.warning(
        "%d of %d buildings were judged. %d have no scatterer on them, %d too few of them or where these tell too "
        "little, %d have a side below %g or above %g m, %d are unlike all that the model was trained on. Do points and "
        "footprints lie on each other (a map shows it)? Cells of 100 m, as of EGMS L3, are too coarse for single "
        "houses.",
        number["ok"],
        len(reason),
        number["no_points"],
        number["insufficient_points"],
        sum(number[name] for name in NO_MATTER),
        prepare.min_side_m,
        prepare.max_side_m,
        number["out_of_distribution"],
    )


def say_one_side(tracks: Sequence[Track]) -> None:
    """Say so where all points are seen from one side: a movement sideways then looks like one down."""
    sides = {int(np.sign(np.median(track.los[:, 0]))) for track in tracks if len(track.los)}
    if len(sides) == 1 and 0 not in sides:
        log.info("All points are seen from one side: sideways movement cannot be told from sinking or rising.")


def warn_of_short(tracks: Sequence[Track]) -> None:
    """Say so where nothing was observed for a year: what heat does then looks like movement."""
    days = max(int((track.epochs[-1] - track.epochs[0]) / np.timedelta64(1, "D")) for track in tracks)
    if days < SHORT_DAYS:
        log.warning(
            "The points were observed for %d days. In less than a year movement cannot be told from what heat does: "
            "a model answers only if it was trained on times as short.",
            days,
        )


def judge_footprints(
    tracks: list[Track], footprints: geopandas.GeoDataFrame, prepare: Prepare, model: OnnxModel, version: str
) -> Judged:
    """The predictions table for the footprints, in the CRS of the tracks, and why each is not judged.

    Args:
        tracks, footprints: see `prepare_buildings`.
        prepare: how the model wants its scatterers prepared.
        model: what answers. version: of its package.
    """
    prepared = prepare_buildings(tracks, footprints, prepare)
    if prepared.moved:
        log.info(
            "%d points beside two footprints count for the one that they move with, not the nearer", prepared.moved
        )
    return judge(prepared, model.answer(prepared.sequences), footprints, prepare, version)


def read_tracks(points: Sequence[Path], ingest: Ingest = NOTHING, format_: str | None = None) -> list[Track]:
    """Read product files; each may be given once, and all must share one projected CRS.

    Args:
        points: the files.
        ingest: what they do not say themselves, by pattern of file name, and which points are too poor.
        format_: reads all of them as this format; otherwise the content decides.

    Raises:
        InputError: none is given, one is given twice (under another name too), or the CRSs differ.
    """
    if not points:
        raise InputError("--points: no file given.")
    resolved = [path.resolve() for path in points]
    for path in points:
        if resolved.count(path.resolve()) > 1:
            raise InputError(f"{path}: given twice. Each file counts once.")
    check_asked(ingest.crs)
    warn_of_shared_names(points, ingest.products)
    _say_unfit(ingest.products, points)
    tracks: list[Track] = []
    for path in points:
        track = read_points(path, ingest.products, format_, tracks[0].crs if tracks else ingest.crs)
        tracks.append(_observed(path, _good_enough(path, track, ingest)))
    for path, track in zip(points, tracks, strict=True):
        if track.crs != tracks[0].crs:
            raise InputError(f"{path}: CRS {track.crs} found, {tracks[0].crs} in {points[0]}; give points of one CRS.")
        if _is_empty(track):
            log.warning("%s: no displacement in any of its %d points: every cell is empty", path, len(track))
    tracks = _named_apart(points, tracks)
    names = [str(path) for path in points]
    check_distinct(tracks, names)
    warn_of_datum(tracks, names, ingest.products)
    return tracks


def _named_apart(points: Sequence[Path], tracks: list[Track]) -> list[Track]:
    """Tracks whose files share a name, by their folder as well: `asc/ts`, `desc/ts`."""
    shared = {track.name for track in tracks if sum(track.name == other.name for other in tracks) > 1}
    return [
        replace(track, name=f"{path.absolute().parent.name}/{track.name}") if track.name in shared else track
        for path, track in zip(points, tracks, strict=True)
    ]


def _say_unfit(patterns: Iterable[str], points: Sequence[Path]) -> None:
    """A pattern that is misspelt says nothing of any file, and nobody would notice."""
    unfit = [pattern for pattern in patterns if not any(fits(path, pattern) for path in points)]
    if unfit:
        log.info("ingest.products: none of the files given fits %s", ", ".join(map(repr, unfit)))


def _observed(path: Path, track: Track) -> Track:
    kept = observed(str(path), track.epochs, np.isfinite(track.displacement).sum(axis=0))
    return track if kept.all() else track.at(kept)


def _good_enough(path: Path, track: Track, ingest: Ingest) -> Track:
    kept = drop_poor(track, ingest)
    left_out = len(track) - len(kept)
    if not len(kept):
        raise InputError(
            f"{path}: ingest.min_coherence {ingest.min_coherence:g} and max_rmse_mm {ingest.max_rmse_mm or 'unset'} "
            f"leave none of its {len(track)} points. Lower min_coherence, or raise max_rmse_mm where it is set."
        )
    if left_out:
        log.info("%s: %d of %d points left out by ingest.min_coherence and max_rmse_mm", path, left_out, len(track))
    return kept
