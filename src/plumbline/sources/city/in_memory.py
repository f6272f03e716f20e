"""Read a user's own points and footprints into memory, as a city of one tile, for all
commands on files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Flag, auto
from pathlib import Path

import geopandas
import numpy as np

from plumbline.core.console import log, warn
from plumbline.core.errors import InputError
from plumbline.params import Ingest
from plumbline.sources.alignment import warn_of_offset
from plumbline.sources.checks import check_overlap, warn_of_datum, warn_of_patterns
from plumbline.sources.city.parts import drop_poor
from plumbline.sources.city.window import ALL_TIME, Window
from plumbline.sources.crs import check_asked
from plumbline.sources.distinct import check_distinct
from plumbline.sources.files.opened import AnyFile, as_file
from plumbline.sources.footprints.area import Area
from plumbline.sources.footprints.buildings import read_buildings
from plumbline.sources.points.epochs import TREND_EPOCHS, observed
from plumbline.sources.points.read import open_product, read_source
from plumbline.sources.points.recognise import recognise
from plumbline.sources.points.source import MIN_EPOCHS
from plumbline.sources.points.track import Track

SHORT_DAYS = 365
"""Length of one whole course of the seasons; a shorter observation gets a warning."""
NOTHING = Ingest()
"""Settings for files that state everything; all points count."""


class Say(Flag):
    """Checks to run, besides whether the files fit together."""

    OFFSET = auto()
    """Warn of a shift between points and footprints."""
    SERIES = auto()
    """Warn of a short observation or one from one side; refuse points without any value."""
    ALL = OFFSET | SERIES
    NOTHING = 0


@dataclass(frozen=True)
class Reading:
    """Settings of a user for files that do not state them."""

    ingest: Ingest = NOTHING
    """Settings by pattern of file name, and bounds for poor points."""
    format_: str | None = None
    """Format of all points; None: the content decides."""
    id_column: str | None = None
    """Column of the footprints' ids; None: as in `ingest`, see `read_buildings`."""
    layer: str | None = None
    """Layer of the footprints; None: as in `ingest`."""
    window: Window = ALL_TIME
    """Window of the epochs that count."""


AS_THEY_ARE = Reading()


@dataclass(frozen=True)
class CityInMemory:
    """Points and footprints of one place."""

    points: list[Track]
    """Tracks in one projected CRS."""
    footprints: geopandas.GeoDataFrame
    """The buildings table, in that CRS."""


def read_city_files(
    points: Sequence[AnyFile],
    buildings: Path,
    reading: Reading = AS_THEY_ARE,
    say: Say = Say.ALL,
    folder: Path | None = None,
) -> CityInMemory:
    """Read product files and footprints, and check that they are of one place.

    Args:
        points: see `read_tracks`. buildings: footprints. reading: settings. say: checks to run.
        folder: see `read_source`.

    Raises:
        InputError: a file is refused, or points and footprints are not of one place.
    """
    ingest = reading.ingest
    tracks = read_tracks(
        points,
        ingest,
        reading.format_,
        window=reading.window,
        least_epochs=TREND_EPOCHS,
        folder=folder,
    )
    names = ", ".join(map(str, points))
    if Say.SERIES in say and not any(
        np.isfinite(piece).any() for track in tracks for piece in track.series()
    ):
        raise InputError(
            f"{names}: no displacement in any point. Export the series with their values.",
            key="points.no_values",
        )
    positions = [np.column_stack([track.easting, track.northing]) for track in tracks]
    footprints = read_buildings(
        buildings,
        tracks[0].crs,
        id_column=reading.id_column,
        layer=reading.layer,
        stated=ingest.footprints,
        area=Area.around(np.concatenate(positions), tracks[0].crs),
    )
    check_overlap(tracks, footprints, names, str(buildings), asked_crs=ingest.crs)
    if Say.OFFSET in say:
        warn_of_offset(tracks, footprints, names, ingest.products)
    if Say.SERIES in say:
        warn_of_short(tracks)
        say_one_side(tracks)
    return CityInMemory(tracks, footprints)


def read_tracks(
    files: Sequence[AnyFile],
    ingest: Ingest = NOTHING,
    format_: str | None = None,
    *,
    window: Window = ALL_TIME,
    least_epochs: int = MIN_EPOCHS,
    folder: Path | None = None,
) -> list[Track]:
    """Read product files; each may be given once, and all must share one projected CRS.

    Args:
        files: of points; they are closed.
        ingest: settings by pattern of file name, and bounds for poor points.
        format_: reads all of them as this format; otherwise the content decides.
        window: only the epochs in it are kept.
        least_epochs: that each file must have in a window.
        folder: see `read_source`.

    Raises:
        InputError: none is given, one is given twice (under another name too), has too few
            epochs in the window, or the CRSs differ.
    """
    if not files:
        raise InputError("--points: no file given.", key="points.no_file")
    opened = [as_file(file) for file in files]
    points = [file.path for file in opened]
    resolved = [path.resolve() for path in points]
    for path in points:
        if resolved.count(path.resolve()) > 1:
            raise InputError(
                f"{path}: given twice. Each file counts once.", key="points.given_twice"
            )
    check_asked(ingest.crs)
    warn_of_patterns(points, ingest.products)
    tracks: list[Track] = []
    raised_m = []
    for file in opened:
        product = recognise(file, ingest.products, format_)
        crs = tracks[0].crs if tracks else ingest.crs
        track = read_source(product, open_product(product, crs), folder)
        file.close()
        raised_m.append(product.about.raised_m)
        usable = _drop_unusable(file.path, track, ingest)
        tracks.append(window.cut(str(file), usable, least_epochs))
    for path, track in zip(points, tracks, strict=True):
        if track.crs != tracks[0].crs:
            raise InputError(
                f"{path}: CRS {track.crs} found, {tracks[0].crs} in {points[0]}; give points of "
                "one CRS.",
                key="points.several_crss",
            )
    tracks = _add_folder_names(points, tracks)
    names = [str(path) for path in points]
    check_distinct(tracks, names)
    warn_of_datum(tracks, names, raised_m)
    return tracks


def _drop_unusable(path: Path, track: Track, ingest: Ingest) -> Track:
    """Drop poor points, then the epochs without a value; warn if there is no value at all."""
    usable = drop_poor(track, ingest)
    left_out = len(track) - len(usable)
    if not len(usable):
        raise InputError(
            f"{path}: ingest.min_coherence {ingest.min_coherence:g} and max_rmse_mm "
            f"{ingest.max_rmse_mm or 'unset'} leave none of its {len(track)} points. Lower "
            "min_coherence, or raise max_rmse_mm where it is set.",
            key="points.none_left",
        )
    if left_out:
        log.info(
            "%s: %d of %d points left out by ingest.min_coherence and max_rmse_mm",
            path,
            left_out,
            len(track),
        )
    values_T = sum(
        (np.isfinite(piece).sum(axis=0) for piece in usable.series()),
        np.zeros(len(usable.epochs), np.intp),
    )
    if not values_T.any():
        warn(
            "%s: no displacement in any of its %d points: every cell is empty.",
            path,
            len(usable),
            key="points.no_values",
        )
    is_observed = observed(str(path), usable.epochs, values_T)
    return usable if is_observed.all() else usable.at_epochs(is_observed)


def _add_folder_names(points: Sequence[Path], tracks: list[Track]) -> list[Track]:
    """Add the folder to the names of tracks from files with the same name: `asc/ts`, `desc/ts`."""
    shared = {track.name for track in tracks if sum(track.name == t.name for t in tracks) > 1}
    return [
        replace(track, name=f"{path.absolute().parent.name}/{track.name}")
        if track.name in shared
        else track
        for path, track in zip(points, tracks, strict=True)
    ]


def say_one_side(tracks: Sequence[Track]) -> None:
    """Log if all points are seen from one side: sideways movement then looks like sinking
    or rising."""
    sides = {int(np.sign(np.median(track.los[:, 0]))) for track in tracks if len(track.los)}
    if len(sides) == 1 and 0 not in sides:
        log.info(
            "All points are seen from one side: sideways movement looks like sinking or rising."
        )


def warn_of_short(tracks: Sequence[Track]) -> None:
    """Warn if the observation is shorter than a year: thermal motion then looks like movement."""
    days = max(
        int((track.epochs[-1] - track.epochs[0]) / np.timedelta64(1, "D")) for track in tracks
    )
    if days < SHORT_DAYS:
        warn(
            "The points were observed for %d days. In less than a year, movement and thermal "
            "expansion look alike: a model answers only if it was trained on series as short.",
            days,
            key="points.short_record",
        )
