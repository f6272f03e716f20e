"""Explain judgements in tables."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import geopandas
import numpy as np
import pandas as pd
import pyogrio
import shapely
from numpy.typing import NDArray

from plumbline.core.console import log, warn
from plumbline.core.files import atomic_file, report_write_errors
from plumbline.export.weights import load_network
from plumbline.prepare.abstention import reason_sentences
from plumbline.prepare.buildings import Prepared
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE, names
from plumbline.prepare.features.sequences import Sequences
from plumbline.serve.columns import ANSWERED_REASONS, has_answer
from plumbline.serve.explain.attribution import Attributions, attribute_answers
from plumbline.serve.explain.page import write_page
from plumbline.serve.judgement import CityPredictions, log_damaged
from plumbline.serve.options import rows_named
from plumbline.serve.predictions import BUILDINGS, SCATTERERS, Outputs, write_table
from plumbline.serve.request import Request, open_city
from plumbline.sources.city.in_memory import Say
from plumbline.sources.points.track import Track


def product_points(
    prepared: Prepared, place: NDArray[np.intp], tracks: Sequence[Track]
) -> pd.DataFrame:
    """Return the points of all N rows of the sequences `place`, from the tracks that were prepared.

    Returns:
        (N,) `point_id` and `height` (m) as in the product, name of the `track`, `easting`
        and `northing` (m).
    """
    is_wanted = np.isin(
        np.repeat(np.arange(len(prepared.sequences)), prepared.sequences.length), place
    )
    track_number, row = prepared.track[is_wanted], prepared.point[is_wanted]
    parts = []
    for index, track in enumerate(tracks):
        rows = np.flatnonzero(track_number == index)
        names = ("point_id", "easting", "northing", "height")
        columns = {name: getattr(track, name)[row[rows]] for name in names}
        parts.append(pd.DataFrame({**columns, "track": track.name}, index=rows))
    return pd.concat(parts).sort_index()


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
"""Columns of each question: the explained difference, then the parts that add up to it."""


def scatterer_table(
    sequences: Sequences, points: pd.DataFrame, attributions: Attributions, crs: Any
) -> geopandas.GeoDataFrame:
    """Return a table with one row per scatterer of `sequences`, in their order, at the
    place of its point.

    Args:
        sequences: B buildings with N scatterers. points: points of these scatterers.
        attributions: of the answers.
        crs: of the points.
    """
    distance, slope = names(DISTANCE), names(SLOPE)

    def column(name: str) -> NDArray[np.float64]:
        table, columns = (
            (sequences.distance, distance) if name in distance else (sequences.slope, slope)
        )
        return table[:, columns.index(name)].astype(float)

    values = {
        "building_id": np.repeat(sequences.building_id.astype(object), sequences.length),
        **{name: points[name].to_numpy() for name in points},
        **{
            name: column(name)
            for name in ("x", "y", "differential_displacement", "differential_displacement_se")
        },
        "attention_share": attributions.attention,
        "quadrant_attribution": attributions.quadrant.by_scatterer,
        "severity_attribution": attributions.severity.by_scatterer,
    }
    types = {**dict.fromkeys(TEXTS, "str"), **dict.fromkeys(FIGURES, "float64")}
    frame = pd.DataFrame({name: values[name] for name in types}).astype(types)
    return geopandas.GeoDataFrame(
        frame, geometry=shapely.points(points["easting"], points["northing"]), crs=crs
    )


def building_table(
    judged: pd.DataFrame, sequences: Sequences, attributions: Attributions
) -> pd.DataFrame:
    """Return the rows of a predictions table, without footprints, with the attribution of
    their answers.

    Args:
        judged: predictions; those that were not explained have empty figures.
        sequences: the B buildings that were explained. attributions: of their answers.
    """
    parts: dict[str, NDArray[np.float64]] = {}
    owner = np.repeat(np.arange(len(sequences)), sequences.length)
    for question, attribution in zip(
        QUESTIONS, (attributions.quadrant, attributions.severity), strict=True
    ):
        by_scatterers = np.bincount(owner, attribution.by_scatterer, len(sequences)).astype(float)
        columns = [attribution.difference, by_scatterers, *attribution.by_geometry.T]
        parts |= {f"{question}_{part}": values for part, values in zip(PARTS, columns, strict=True)}
    return judged.join(
        pd.DataFrame(parts, index=sequences.building_id.astype(object)), on="building_id"
    )


def buildings_path(output: Path) -> Path | None:
    """Return the path for the table of buildings, beside `output`; None for a GeoPackage,
    which holds both."""
    suffix = output.suffix.lower()
    if suffix == ".gpkg":
        return None
    return output.with_name(
        f"{output.stem}_buildings{'.parquet' if suffix == '.parquet' else '.csv'}"
    )


def write_tables(scatterers: geopandas.GeoDataFrame, buildings: pd.DataFrame, output: Path) -> None:
    """Write both tables, each file atomically, in the format of the suffix of `output`.

    `.csv`: the place as WKT. `.gpkg`: layers `scatterers` and `buildings`. `.geojson`: RFC
    7946, so reprojected to WGS 84, with seven decimals (1 cm). `.parquet`: GeoParquet. The
    table of buildings has no footprints; where it is a file of its own, see
    `buildings_path`.

    Raises:
        InputError: the disk refused.
    """
    buildings_file = buildings_path(output)

    def add_buildings(geopackage: Path) -> None:
        pyogrio.write_dataframe(buildings, geopackage, layer=BUILDINGS, driver="GPKG", append=True)

    with ExitStack() as staged:
        if buildings_file is not None:
            path = staged.enter_context(atomic_file(buildings_file))
            with report_write_errors(buildings_file):
                if buildings_file.suffix == ".parquet":
                    buildings.to_parquet(path, index=False)
                else:
                    buildings.to_csv(path, index=False)
        write_table(scatterers, output, SCATTERERS, add_buildings, "Point")


MAX_NAMED = 10
"""Largest number of unjudged buildings that a log line names; the table has all."""


class ExplainedBuildings(NamedTuple):
    """Tables of the explained buildings."""

    scatterers: geopandas.GeoDataFrame
    """Scatterers of the buildings with an answer, see `scatterer_table`."""
    buildings: pd.DataFrame
    """Rows of all buildings, see `building_table`."""


def explain(
    request: Request, output: Path, chosen: Sequence[str] = (), plan: Path | None = None
) -> ExplainedBuildings:
    """Write the reasons of the judgements of `plumbline predict`, and drawings if wanted;
    all files or none.

    Args:
        request: what is judged. The package's network in float32 is explained.
        output: rows of scatterers; the suffix names the format. The rows of buildings go
            beside, see `write_tables`.
        chosen: `building_id` of the buildings to explain; empty: all with an answer.
        plan: HTML file.

    Raises:
        InputError: anything given is missing, damaged or does not fit together. No file is
            written then.
    """
    buildings_file = buildings_path(output)
    network = load_network(request.package)  # before the city: that takes longer to read
    opened = open_city(
        request,
        Outputs(output, plan, [buildings_file] if buildings_file else [], "plan"),
        say=Say.OFFSET,
    )
    footprints = opened.city.footprints
    names = footprints["building_id"].to_numpy(object)
    rows = rows_named(names, chosen, request.buildings) if chosen else np.arange(len(names))
    judged, prepared = opened.answer()
    log_damaged(judged)
    has_answers = has_answer(judged.table)
    place = np.flatnonzero(has_answers[prepared.footprint] & np.isin(prepared.footprint, rows))
    sequences = prepared.sequences.take(place)
    attributions = attribute_answers(network, sequences)
    _log_explained(
        footprints["building_id"].iloc[rows],
        judged,
        reason_sentences(opened.options.limits(opened.model.prepare)),
    )
    points = product_points(prepared, place, opened.city.points)
    listed = rows if chosen else rows[has_answers[rows]]
    table = pd.DataFrame(judged.table.drop(columns="geometry")).iloc[listed].reset_index(drop=True)
    explained = ExplainedBuildings(
        scatterer_table(sequences, points, attributions, footprints.crs),
        building_table(table, sequences, attributions),
    )
    with ExitStack() as staged:
        if plan is not None:
            # The page is drawn before the tables are written, and moved into place after: all files
            # or none.
            write_page(
                explained.buildings.assign(explanation=judged.explanation[listed]),
                footprints,
                explained.scatterers,
                staged.enter_context(atomic_file(plan)),
                title=request.title,
                rate=judged.rate,
                courses=judged.courses,
            )
        write_tables(explained.scatterers, explained.buildings, output)
    return explained


def _log_explained(names: pd.Series, judged: CityPredictions, sentences: dict[str, str]) -> None:
    """Log which of the buildings are explained, by reason. `names`: with the rows of
    `judged` as index."""
    for reason, ids in names.groupby(judged.reason[names.index]):
        if reason in ANSWERED_REASONS:
            log.info("%d buildings explained (%s)", len(ids), reason)
            continue
        remainder = f" and {len(ids) - MAX_NAMED} others" if len(ids) > MAX_NAMED else ""
        sentence = judged.explanation[ids.index[0]] if len(ids) == 1 else sentences[reason]
        warn(
            "not explained, because not judged (%s): %s",
            sentence,
            ", ".join(ids[:MAX_NAMED]) + remainder,
            key="buildings.not_judged",
        )
