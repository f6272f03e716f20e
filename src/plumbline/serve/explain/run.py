"""Explain judgements in tables.

A sequence holds what the network is told, and no names. But place, height and line of sight in the building's frame are
in it as they were computed, so a row is found again among the points of its building.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import geopandas
import numpy as np
import pandas as pd
import pyogrio
import shapely
from numpy.typing import NDArray
from pyogrio.errors import DataLayerError, DataSourceError
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from plumbline.core.compass import Frames, frames
from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_file, why_unwritten
from plumbline.export.package import open_package
from plumbline.export.weights import load_network
from plumbline.params import Ingest
from plumbline.prepare.abstention import UNSURE_WHERE, reason_sentences
from plumbline.prepare.assignment.owners import usable_rows
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE, names
from plumbline.prepare.features.sequences import Sequences
from plumbline.serve.explain.attribution import Moved, Reasons, reasons
from plumbline.serve.explain.page import write_page
from plumbline.serve.judgement import Judged, say_damaged
from plumbline.serve.predict import asked_for, prepare_and_judge
from plumbline.serve.predictions import BUILDINGS, SCATTERERS, check_inputs, check_outputs
from plumbline.sources.city.in_memory import NOTHING, Say, read_city_files
from plumbline.sources.points.track import Track

Float = NDArray[np.floating[Any]]
NEAR_M = 0.005
"""A row and its point differ by the rounding to 32 bits alone; product coordinates are rounded to centimetres."""
LOS_M = 100.0
"""Metres that a whole difference of the line of sight counts as."""
_PLACE = [names(DISTANCE).index(name) for name in ("x", "y", "height")]
_LOS = [names(SLOPE).index(name) for name in ("los_x", "los_y", "los_up")]


class FoundPoints(NamedTuple):
    """Product points of the N rows of sequences."""

    point_id: NDArray[np.object_]
    """(N,) as in the product; points of one track that agree in place, height and line of sight cannot be told apart:
    `A or B`."""
    track: NDArray[np.object_]
    """(N,) name."""
    easting: Float
    """(N,) m."""
    northing: Float
    """(N,) m."""
    height: Float
    """(N,) m, as in the product."""


class _Candidates(NamedTuple):
    """The usable points of all tracks that belong to a building."""

    owner: NDArray[np.intp]
    track: NDArray[np.intp]
    row: NDArray[np.intp]
    place: Float
    """(C, 3) x and y in the building's frame, height of the product, m."""
    los: Float
    """(C, 3)"""


def find_points(
    sequences: Sequences,
    building: NDArray[np.intp],
    tracks: Sequence[Track],
    owners: Sequence[NDArray[np.intp]],
    frame: Frames,
) -> FoundPoints:
    """Find the points of all rows of `sequences`.

    Args:
        sequences: of B buildings.
        building: (B,) which of the buildings of `frame` each of them is.
        tracks: what the sequences were prepared from.
        owners: for each track (N,) the building in `frame` that each point belongs to.
        frame: of the buildings.

    Raises:
        ValueError: the sequences were prepared from other points.
    """
    all_of = _candidates(tracks, owners, frame)
    first, last = (np.searchsorted(all_of.owner, building, side) for side in ("left", "right"))
    ids: list[str] = []
    chosen: list[NDArray[np.intp]] = []
    for b, (start, stop) in enumerate(zip(first, last, strict=True)):
        rows = slice(*sequences.offsets[[b, b + 1]])
        place = all_of.place[start:stop] - [0, 0, all_of.place[start:stop, 2].min(initial=np.inf)]
        there = np.column_stack([place, LOS_M * all_of.los[start:stop]])
        here = np.column_stack([sequences.distance[rows][:, _PLACE], LOS_M * sequences.slope[rows][:, _LOS]])
        apart = cdist(here, there)
        row, point = linear_sum_assignment(apart)
        if len(row) < len(here) or apart[row, point].max(initial=0) > NEAR_M:
            raise ValueError(f"{sequences.building_id[b]}: its scatterers are not among the points of the tracks")
        chosen.append(start + point)
        for i, own in zip(row, start + point, strict=True):
            twins = start + np.flatnonzero(apart[i] <= NEAR_M)
            twins = twins[all_of.track[twins] == all_of.track[own]]
            ids.append(" or ".join(str(tracks[all_of.track[own]].point_id[all_of.row[twin]]) for twin in twins))
    index = np.concatenate([np.zeros(0, np.intp), *chosen])
    track, row = all_of.track[index], all_of.row[index]

    def of_point(name: str) -> Float:
        found = np.zeros(len(index))
        for number, one in enumerate(tracks):
            found[track == number] = getattr(one, name)[row[track == number]]
        return found

    track_names = np.array([one.name for one in tracks], object)[track]
    return FoundPoints(
        np.array(ids, object), track_names, of_point("easting"), of_point("northing"), of_point("height")
    )


def _candidates(tracks: Sequence[Track], owners: Sequence[NDArray[np.intp]], frame: Frames) -> _Candidates:
    """Collect the usable points by building, as `collect_scatterers` does, without reading their series."""
    parts = []
    for number, (track, owner) in enumerate(zip(tracks, owners, strict=True)):
        row = usable_rows(track, owner)
        own, position = owner[row], np.stack([track.easting[row], track.northing[row]], axis=1)
        place = np.column_stack([frame.to_building(own, position), track.height[row]])
        los = np.column_stack([frame.rotate(own, track.los[row, :2]), track.los[row, 2]])
        parts.append(_Candidates(own, np.full(len(row), number), row, place, los))
    order = np.argsort(np.concatenate([part.owner for part in parts]), kind="stable")
    merged = {name: np.concatenate([getattr(part, name) for part in parts])[order] for name in _Candidates._fields}
    return _Candidates(**merged)


QUESTIONS = ("quadrant", "severity")
TEXTS = ("building_id", "point_id", "track")
FIGURES = (
    "easting",
    "northing",
    "height",
    "x",
    "y",
    "differential_displacement",
    "differential_displacement_se",
    "attention_share",
    "quadrant_attribution",
    "severity_attribution",
)
PARTS = ("difference", "by_scatterers", *(f"by_{name}" for name in names(GEOMETRY)))
"""Of each question: what is explained, then what adds up to it."""


def scatterer_table(sequences: Sequences, points: FoundPoints, found: Reasons, crs: Any) -> geopandas.GeoDataFrame:
    """Return a table with one row per scatterer of `sequences`, in their order, at the place of its point.

    Args:
        sequences: B buildings with N scatterers. points: which points these are. found: what moved the answers.
        crs: of the points.
    """
    distance, slope = names(DISTANCE), names(SLOPE)

    def column(name: str) -> NDArray[np.float64]:
        table, of = (sequences.distance, distance) if name in distance else (sequences.slope, slope)
        return table[:, of.index(name)].astype(float)

    values = {
        "building_id": np.repeat(sequences.building_id.astype(object), sequences.length),
        **points._asdict(),
        **{name: column(name) for name in ("x", "y", "differential_displacement", "differential_displacement_se")},
        "attention_share": found.attention,
        "quadrant_attribution": found.quadrant.by_scatterer,
        "severity_attribution": found.severity.by_scatterer,
    }
    frame = pd.DataFrame({name: values[name] for name in (*TEXTS, *FIGURES)})
    place = shapely.points(points.easting, points.northing)
    return geopandas.GeoDataFrame(_typed(frame), geometry=place, crs=crs)


def building_table(judged: pd.DataFrame, sequences: Sequences, found: Reasons) -> pd.DataFrame:
    """Return the rows of a predictions table, without footprints, with the attribution of their answers.

    Args:
        judged: predictions; those that were not explained have no figures here.
        sequences: the B buildings that were explained. found: what moved the answers to them.
    """
    parts: dict[str, NDArray[np.float64]] = {}
    for question, moved in zip(QUESTIONS, (found.quadrant, found.severity), strict=True):
        columns = [moved.difference, _sums(moved, sequences), *moved.by_geometry.T]
        parts |= {f"{question}_{part}": values for part, values in zip(PARTS, columns, strict=True)}
    return judged.join(pd.DataFrame(parts, index=sequences.building_id.astype(object)), on="building_id")


def _sums(moved: Moved, sequences: Sequences) -> NDArray[np.float64]:
    """Return (B,) the summed attribution of all scatterers of each building."""
    owner = np.repeat(np.arange(len(sequences)), sequences.length)
    return np.asarray(np.bincount(owner, moved.by_scatterer, len(sequences)), float)


def _typed(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.astype({**dict.fromkeys(TEXTS, "str"), **dict.fromkeys(FIGURES, "float64")})


def buildings_path(output: Path) -> Path | None:
    """Return the path for the table of buildings, beside `output`; None for a GeoPackage, which holds both."""
    suffix = output.suffix.lower()
    if suffix == ".gpkg":
        return None
    return output.with_name(f"{output.stem}_buildings{'.parquet' if suffix == '.parquet' else '.csv'}")


def write_tables(scatterers: geopandas.GeoDataFrame, buildings: pd.DataFrame, output: Path) -> None:
    """Write both tables, each file atomically, in the format of the suffix of `output`.

    `.csv`: the place as WKT. `.gpkg`: layers `scatterers` and `buildings`. `.geojson`: RFC 7946, so reprojected to
    WGS 84, with seven decimals (1 cm). `.parquet`: GeoParquet. The table of buildings has no footprints; where it is a
    file of its own, see `buildings_path`.

    Raises:
        InputError: the disk refused.
    """
    beside = buildings_path(output)
    try:
        with ExitStack() as staged:
            if beside is not None:
                path = staged.enter_context(atomic_file(beside))
                if beside.suffix == ".parquet":
                    buildings.to_parquet(path, index=False)
                else:
                    buildings.to_csv(path, index=False)
            path = staged.enter_context(atomic_file(output))
            _write_scatterers(scatterers, path)
            if beside is None:
                pyogrio.write_dataframe(buildings, path, layer=BUILDINGS, driver="GPKG", append=True)
    except (OSError, DataSourceError, DataLayerError, RuntimeError) as error:
        reason = why_unwritten(error, output, beside or output)
        raise InputError(f"{output}: could not be written ({reason}).") from error


def _write_scatterers(scatterers: geopandas.GeoDataFrame, path: Path) -> None:
    suffix = path.suffix.lower()
    if suffix == ".csv":
        scatterers.to_wkt().to_csv(path, index=False)
    elif suffix == ".gpkg":
        scatterers.to_file(path, driver="GPKG", layer=SCATTERERS, geometry_type="Point")
    elif suffix == ".geojson":
        degrees = shapely.transform(scatterers.geometry.to_crs("EPSG:4326").to_numpy(), lambda at: at.round(7))
        shown = scatterers.set_geometry(geopandas.GeoSeries(degrees, index=scatterers.index, crs="EPSG:4326"))
        # Plain UTF-8, because GDAL misreads some characters that are escaped as two halves.
        text = str(shown.to_json(drop_id=True, to_wgs84=True, ensure_ascii=False))
        path.write_text(text, encoding="utf-8")
    else:
        scatterers.to_parquet(path, index=False)


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
