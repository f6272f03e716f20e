"""Make the tables of `plumbline explain`: one row per scatterer, and one per building. Units: docs/explain.md."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import pyogrio
import shapely
from numpy.typing import NDArray
from pyogrio.errors import DataLayerError, DataSourceError

from plumbline.core.errors import InputError
from plumbline.core.files import atomic_file, why_unwritten
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE, names
from plumbline.prepare.features.sequences import Sequences
from plumbline.serve.explain.attribution import Moved, Reasons
from plumbline.serve.explain.point_lookup import FoundPoints
from plumbline.serve.predictions import BUILDINGS, SCATTERERS

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
