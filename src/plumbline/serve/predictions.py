"""Make, check and write the table of predictions."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import geopandas
import numpy as np
import pandas as pd
import pyogrio
import shapely
from numpy.typing import ArrayLike, NDArray
from pyogrio.errors import DataLayerError, DataSourceError

from plumbline.core.compass import QUADRANTS, join_quadrants
from plumbline.core.errors import InputError
from plumbline.core.files import (
    atomic_file,
    check_writable,
    describe_write_error,
    report_write_errors,
)
from plumbline.core.strain import MECHANISMS, category
from plumbline.export.interface import PROBABILITIES, SET_SHARE, SURE_DAMAGE, SURE_MECHANISM
from plumbline.prepare.abstention import ABSTENTIONS, OK, STATUSES
from plumbline.serve.columns import COLUMNS, DAMAGE_COLUMNS, DTYPES, JUDGEMENT, OPTIONAL, has_answer
from plumbline.serve.qgis.descriptions import describe
from plumbline.serve.qgis.styles import STYLES, Layer, add_layers, add_styles, predictions_style
from plumbline.sources.city.causes import MOVING_AREAS
from plumbline.sources.crs import GLOBE
from plumbline.sources.globe import cut, to_degrees

PREDICTIONS, UNJUDGED, COURSES, AREAS, CAUSES = (
    "predictions",
    "not_judged",
    "courses",
    MOVING_AREAS,
    "causes",
)
"""Layers of a GeoPackage of `plumbline predict`."""
SCATTERERS, BUILDINGS = "scatterers", "buildings"
"""Layers of a GeoPackage of `plumbline explain`."""
COMPARED, LEVELLING = "compared", "levelling"
"""Layers of a GeoPackage of `plumbline compare`."""
SUFFIXES = (".csv", ".gpkg", ".geojson", ".parquet")
IDENTITY = ("building_id", "status", "reason", "model_version")
"""Columns that no building lacks."""


def make_predictions(
    footprints: geopandas.GeoDataFrame,
    footprint_columns: Mapping[str, ArrayLike],
    answer_columns: pd.DataFrame,
    model_version: str,
) -> geopandas.GeoDataFrame:
    """Return the predictions table of F footprints, with all columns of the contract;
    absent ones are empty.

    Where the reason is none of `ANSWERED_REASONS`, the columns of the judgement are
    emptied, except `DAMAGE_COLUMNS`.

    Args:
        footprints: (F,) `building_id` and geometry, with a CRS.
        footprint_columns: columns (F,) of every footprint: `status`, `reason`, `n_points`,
            and perhaps `WHOLE`.
        answer_columns: (B,) a row for each building that the model was run on; its index is
            the row in `footprints`. Columns: `PROBABILITIES`, `quadrant_confidence`, the
            severity and its interval, `p_damaged`, `CATEGORIES`, `mechanism` and
            `damage_rate`, and perhaps `cause` and `WHEN`.
        model_version: of the package that answered.
    """
    quadrant_probability = answer_columns[list(PROBABILITIES)].to_numpy(float)
    likeliest = np.where(np.isfinite(quadrant_probability), quadrant_probability, -1.0).argmax(
        axis=1
    )
    by_building = answer_columns.assign(
        quadrant=np.array(QUADRANTS, object)[likeliest],
        quadrants=probable_set(quadrant_probability),
        burland_category=category(answer_columns["severity_permille"].to_numpy(float)),
    )
    # From the B buildings to the F footprints: those that the model was not run on have empty
    # columns.
    table = (
        by_building.reindex(pd.RangeIndex(len(footprints)))
        .assign(
            building_id=footprints["building_id"].to_numpy(),
            model_version=model_version,
            **footprint_columns,
        )
        .reindex(columns=list(DTYPES))
        .astype({"burland_category": "Int64"})
    )
    is_abstention, has_probability = ~has_answer(table), table["p_damaged"].notna().to_numpy()
    table.loc[is_abstention, [name for name in JUDGEMENT if name not in DAMAGE_COLUMNS]] = None
    table.loc[is_abstention & ~has_probability, list(DAMAGE_COLUMNS)] = None
    return _set_types(
        geopandas.GeoDataFrame(table, geometry=footprints.geometry.to_numpy(), crs=footprints.crs)
    )


def probable_set(probability: NDArray[np.float64]) -> NDArray[np.object_]:
    """Return (B,) the fewest quadrants that hold `SET_SHARE` of the probability (B, 4), in
    compass order: `NE|NW`."""
    p = np.where(np.isfinite(probability), probability, 0.0)
    order = np.argsort(-p, axis=1, kind="stable")
    mass_before = np.cumsum(np.take_along_axis(p, order, axis=1), axis=1) - np.take_along_axis(
        p, order, axis=1
    )
    chosen = np.zeros(p.shape, bool)
    np.put_along_axis(chosen, order, mass_before < SET_SHARE * p.sum(axis=1, keepdims=True), axis=1)
    return np.array([join_quadrants(row) for row in chosen], object)


def named_mechanism(
    probability: NDArray[np.float64], p_damaged: NDArray[np.float64]
) -> NDArray[np.object_]:
    """Return (B,) the mechanism where it and damage are probable enough, else None."""
    p = np.where(np.isfinite(probability), probability, 0.0)
    is_sure = (p.max(axis=1, initial=0) >= SURE_MECHANISM) & (p_damaged >= SURE_DAMAGE)
    return np.asarray(
        np.where(is_sure, np.array(MECHANISMS, object)[p.argmax(axis=1)], None), object
    )


def check_output(path: Path, suffixes: Sequence[str] = SUFFIXES) -> None:
    """Refuse an output path that cannot be written, before any work is done.

    Raises:
        InputError: another suffix than `suffixes`, a folder of that name, or a parent
            folder that is missing or not writable.
    """
    if path.suffix.lower() not in suffixes:
        suffix = f"suffix '{path.suffix}'" if path.suffix else "no suffix"
        raise InputError(
            f"{path}: {suffix} found. The suffix chooses the format; use one of "
            f"{', '.join(suffixes)}.",
            key="output.other_format",
        )
    check_writable(path)


def write_predictions(
    predictions: geopandas.GeoDataFrame, path: Path, layers: Sequence[Layer] = ()
) -> None:
    """Write the table, atomically, in the format of the path's suffix.

    `.csv`: UTF-8, empty cells for nulls, the footprint as WKT in the CRS of `predictions`
    (which a CSV cannot name). `.gpkg`: GeoPackage, first the layer `predictions`, then the
    others, with their styles for QGIS. `.geojson`: RFC 7946, so reprojected to WGS 84, with
    seven decimals (1 cm). `.parquet`: GeoParquet.

    Args:
        predictions: the table.
        path: file to write.
        layers: further ones of a GeoPackage; the other formats leave them out.

    Raises:
        InputError: as `check_output`, or the disk refused.
        ValueError: the table breaks the contract; the message names column and building.
    """

    def add(geopackage: Path) -> None:
        add_styles(
            geopackage,
            {PREDICTIONS: predictions_style(PREDICTIONS), **add_layers(geopackage, layers)},
        )
        describe(geopackage)

    check_output(path)
    write_table(_check_table(predictions), path, PREDICTIONS, add)


def write_table(
    table: geopandas.GeoDataFrame,
    path: Path,
    layer: str,
    add: Callable[[Path], None] | None = None,
    geometry_type: str | None = None,
) -> None:
    """Write a table of footprints or points, atomically, in the format of the path's
    suffix, see `write_predictions`.

    Args:
        table: any columns, and the geometry. path: file to write. layer: its name in a GeoPackage.
        add: writes further layers and styles into a GeoPackage.
        geometry_type: of the layer, also without rows; None: that of the rows.

    Raises:
        InputError: the disk refused.
    """
    suffix = path.suffix.lower()
    try:
        with atomic_file(path) as temporary:
            if suffix == ".csv":
                table.to_wkt().to_csv(temporary, index=False)
            elif suffix == ".gpkg":
                table.to_file(temporary, driver="GPKG", layer=layer, geometry_type=geometry_type)
                if add is not None:
                    add(temporary)
            elif suffix == ".geojson":
                temporary.write_text(geojson_text(table), encoding="utf-8")
            else:
                table.to_parquet(temporary, index=False)
    except (OSError, DataSourceError, DataLayerError, RuntimeError, sqlite3.Error) as error:
        raise InputError(
            f"{path}: could not be written ({describe_write_error(error, path)}).",
            key="output.write_failed",
        ) from error


def read_predictions(path: Path) -> geopandas.GeoDataFrame:
    """Read a table that `write_predictions` wrote, with its types. A CSV has no CRS.

    Raises:
        InputError: the file is missing, of another suffix, unreadable, or not a predictions table.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(
            f"{path}: suffix '{path.suffix}' found; predictions are in {', '.join(SUFFIXES)}.",
            key="predictions.other_format",
        )
    if not path.is_file():
        raise InputError(f"{path}: no such file.", key="file.missing")
    try:
        if suffix == ".csv":
            # Only an empty cell is a null: a building may be called NA.
            plain = pd.read_csv(path, dtype=DTYPES, keep_default_na=False, na_values=[""])
            table = geopandas.GeoDataFrame(
                plain, geometry=shapely.from_wkt(plain["geometry"].to_numpy())
            )
        elif suffix == ".parquet":
            table = geopandas.read_parquet(path)
        else:
            # GDAL guesses dates from strings in GeoJSON: a building may be called 2024-01-01.
            options = {"DATE_AS_STRING": "YES"} if suffix == ".geojson" else {"layer": PREDICTIONS}
            table = geopandas.read_file(path, **options)
        return _check_table(table)
    except (
        OSError,
        ValueError,
        KeyError,
        shapely.errors.ShapelyError,
        DataSourceError,
        DataLayerError,
    ) as error:
        raise InputError(
            f"{path}: not readable as predictions ({error}).", key="predictions.unreadable"
        ) from error


def _set_types(table: geopandas.GeoDataFrame) -> geopandas.GeoDataFrame:
    missing = [name for name in COLUMNS if name not in table]
    if missing:
        raise ValueError(f"column {missing[0]} is missing")
    return table[list(COLUMNS)].astype(DTYPES)


def _check_table(predictions: geopandas.GeoDataFrame) -> geopandas.GeoDataFrame:
    """Return the table with the contract's columns and types, and refuse contradictory rows."""
    table = _set_types(predictions)
    answered = has_answer(table)
    empty = table[list(JUDGEMENT)].isna()
    categories = table["burland_category"].fillna(-1).to_numpy(np.int64)
    rules = [
        *((table[name].isna(), f"{name} is empty") for name in (*IDENTITY, "geometry")),
        (~table["status"].isin(STATUSES), f"status is none of {', '.join(STATUSES)}"),
        (
            ~table["reason"].isin((OK, *ABSTENTIONS)),
            f"reason is none of {', '.join((OK, *ABSTENTIONS))}",
        ),
        (
            (table["status"] == OK) != (table["reason"] == OK),
            "status and reason contradict each other",
        ),
        *(
            (answered & empty[name], f"{name} is empty although the reason is {OK} or unsure_where")
            for name in JUDGEMENT
            if name not in OPTIONAL
        ),
        *(
            (~answered & ~empty[name], f"{name} is given although the building has no answer")
            for name in JUDGEMENT
            if name not in DAMAGE_COLUMNS
        ),
        (answered & ~table["quadrant"].isin(QUADRANTS), f"quadrant is none of {QUADRANTS}"),
        (
            answered & (categories != category(table["severity_permille"])),
            "burland_category is not the one of severity_permille",
        ),
    ]
    for is_wrong, words in rules:
        if np.any(is_wrong):
            raise ValueError(
                f"building {table['building_id'].iloc[int(np.argmax(is_wrong))]}: {words}"
            )
    return table


def geojson_text(table: geopandas.GeoDataFrame) -> str:
    """Return the table as RFC 7946: degrees, cut at 180, outer rings counter-clockwise,
    without `crs`."""
    oriented = table.set_geometry(
        shapely.orient_polygons(cut(to_degrees(table.geometry))), crs=GLOBE
    )
    # Plain UTF-8, because GDAL misreads some characters that are escaped as two halves.
    return str(oriented.to_json(drop_id=True, to_wgs84=True, ensure_ascii=False))


WRITTEN_LAYERS = {
    PREDICTIONS: "model_version",
    UNJUDGED: "explanation",
    COURSES: "severity_permille",
    AREAS: "rate_mm_year",
    CAUSES: "damage_rate",
    BUILDINGS: "model_version",
    SCATTERERS: "attention_share",
    COMPARED: "settlement_agrees",
    LEVELLING: "change_mm",
}
"""Layers of a GeoPackage that Plumbline has written, and a column that identifies each:
other programs call a layer `buildings`, too."""
HISTORIES = {"point_id", "building_id", "track", "velocity"}
"""Columns of the layers `scatterers_TRACK`."""


def check_inputs(paths: Sequence[Path]) -> None:
    """Refuse missing files, before the first of them is read.

    Raises:
        InputError: names the first.
    """
    for path in paths:
        if not path.exists():
            raise InputError(f"{path}: no such file.", key="file.missing")


class Outputs(NamedTuple):
    """Files that a command writes."""

    table: Path
    """Its main output."""
    page: Path | None = None
    """HTML file, if one is wanted."""
    beside: Sequence[Path] = ()
    """Further files."""
    page_name: str = "map"
    """Name of the page in messages."""
    suffixes: Sequence[str] = SUFFIXES
    """Suffixes that the main output may have."""


def check_outputs(outputs: Outputs, inputs: Sequence[Path], package: Path) -> None:
    """Refuse outputs that cannot be written, or would overwrite inputs.

    Args:
        outputs: files that are written. inputs: files that are read. package: model package
            that is read.

    Raises:
        InputError: an output is inside the package, is an input or another output, has the
            suffix of another format, or a folder that does not exist; or it is a GeoPackage
            with layers of another program.
    """
    table, page = outputs.table, outputs.page
    check_output(table, outputs.suffixes)
    _check_layers(table)
    further_paths = [*outputs.beside, *([page] if page else [])]
    for path in (table, *further_paths):
        if package.resolve() in path.resolve().parents:
            raise InputError(
                f"{path}: is inside the model package, which must stay as it is. Give another "
                "folder.",
                key="output.in_package",
            )
        if path.resolve() in {i.resolve() for i in inputs}:
            raise InputError(
                f"{path}: is one of the inputs, which would be overwritten. Give another output.",
                key="output.is_input",
            )
    if page is not None and page.suffix.lower() not in (".html", ".htm"):
        raise InputError(
            f"{page}: the {outputs.page_name} is an HTML file. Give a name that ends in .html.",
            key="output.other_format",
        )
    for path in further_paths:
        check_writable(path)


def _check_layers(output: Path) -> None:
    """Refuse a GeoPackage with layers of other programs: writing replaces the whole file."""
    if output.suffix.lower() != ".gpkg" or not output.is_file():
        return
    try:
        layers = [str(name) for name, _ in pyogrio.list_layers(output)]
        foreign_layers = sorted(
            name for name in layers if name != STYLES and not _is_written(output, name)
        )
    except pyogrio.errors.DataSourceError:
        return  # damaged, and nothing to lose
    if foreign_layers:
        raise InputError(
            f"{output}: has the layers {', '.join(foreign_layers)}, which would be lost. Give a "
            "file of its own.",
            key="output.foreign_layers",
        )


def _is_written(output: Path, layer: str) -> bool:
    """Return whether Plumbline has written a layer, by its name and columns."""
    columns = {WRITTEN_LAYERS[layer]} if layer in WRITTEN_LAYERS else HISTORIES
    has_name = layer in WRITTEN_LAYERS or layer.startswith(f"{SCATTERERS}_")
    return has_name and columns <= set(pyogrio.read_info(output, layer=layer)["fields"])


def write_text(text: str, path: Path) -> None:
    """Write a page, atomically.

    Raises:
        NotWritable: the disk refused.
    """
    with report_write_errors(path), atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
