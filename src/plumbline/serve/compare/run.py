"""Judge a city over the levelled period, compare, and write table, points, picture and labels."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import geopandas
import numpy as np
import pandas as pd
import pyogrio
import shapely
from numpy.typing import NDArray
from pyogrio.errors import DataLayerError, DataSourceError
from pyproj import CRS
from pyproj.exceptions import ProjError

from plumbline.core.console import log, warn
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_file, report_write_errors
from plumbline.core.strain import BAY_M, CATEGORY_BOUNDS_PERMILLE
from plumbline.reporting.agreement import Pair, Panel, agreement_chart
from plumbline.serve.compare.agreement import (
    HALF_WIDTH,
    Comparison,
    compare_houses,
    point_table,
    strain_factor,
)
from plumbline.serve.compare.levelled import House, LevelledPeriod, common_period, fit_houses
from plumbline.serve.compare.misread import misread
from plumbline.serve.judgement import log_unjudged
from plumbline.serve.map.page import check_page, write_map
from plumbline.serve.predictions import COMPARED, LEVELLING, Outputs, write_text
from plumbline.serve.request import Request, open_city
from plumbline.sources.city.in_memory import CityInMemory
from plumbline.sources.city.window import parse_window
from plumbline.sources.crs import GLOBE, transformer
from plumbline.sources.files.opened import fits, product_params
from plumbline.sources.levelling import Levelling, read_levelling
from plumbline.sources.points.epochs import TREND_EPOCHS

HEIGHT_STD_MM = 0.3
"""Standard error of a levelled height for which the file has none, mm."""
REACH_M, MAX_DISTANCE_M = 2.0, 10.0
"""Largest distances of a point from its footprint, m: of a point that is assigned to the footprint,
and of one that names the building, beyond which its coordinates are not used."""
SUFFIXES = (".csv", ".gpkg")
MAX_NAMED = 5
"""Largest number of points that warnings name."""
MAX_LABEL_STD = CATEGORY_BOUNDS_PERMILLE[0] / 2
"""Largest standard error of a levelled strain that becomes a label, permille."""
MAX_LABEL_SPACING_M = 1.5 * BAY_M
"""Largest mean distance of the points of a building that gets a label, m: points farther apart miss
most of a damage."""
MAX_DATUM_ERRORS = 3.0
"""Largest difference of the datums without a warning, in standard errors."""
MIN_DATUM_MM = 2.0
"""Smallest difference of the datums with a warning, mm. Smaller ones are usual: good levels over
4 km from the benchmark have an error of 2 mm (1 mm per root of km), which all points share and the
standard error does not count."""


class PlacedPoints(NamedTuple):
    """Footprints and coordinates of P levelled points."""

    row: NDArray[np.intp]
    """(P,) row of their footprint; -1: none."""
    xy: NDArray[np.float64]
    """(P, 2) in the city's CRS; NaN where not known."""


def compare(
    request: Request,
    levelling: Path,
    output: Path,
    *,
    labels: Path | None = None,
    map_path: Path | None = None,
    std_mm: float = HEIGHT_STD_MM,
) -> Comparison:
    """Compare radar and levelling over their common period, and write the table and a
    picture beside it.

    Args:
        request: what is judged. levelling: table, see `read_levelling`.
        output: .csv or .gpkg; the picture has its name and .svg.
        labels: csv for `adapt` to write. map_path: HTML map to write, with the levelled
            points as a layer.
        std_mm: standard error of a height for which the file has none.

    Raises:
        InputError: anything given is missing, damaged or does not fit together. No file is
            written then.
    """
    picture = output.with_suffix(".svg")
    if map_path is not None:
        check_page()
    about = product_params(levelling, request.options.reading.ingest.products)
    levels = read_levelling(levelling, about.missing or ())
    further_files = [picture, *([labels] if labels else [])]
    opened = open_city(
        request, Outputs(output, map_path, further_files, suffixes=SUFFIXES), [levelling]
    )
    city = opened.city
    placed = place_points(levels, city, request)
    epochs = np.concatenate([track.epochs for track in city.points])
    period, left_out = without_misread(
        levels, common_period(levels, epochs.min(), epochs.max(), std_mm), placed
    )
    houses = fit_houses(period, placed.row, placed.xy, city.footprints)
    if not houses:
        raise InputError(
            f"{levelling}: no point on a building was levelled near to {period.begin} and "
            f"{period.end}, the levelled "
            "days nearest to the ends of the radar's record. Give levels of these days.",
            key="levelling.no_common_period",
        )
    log.info("compared from %s to %s: %d levelled buildings", period.begin, period.end, len(houses))
    city = cut_to_period(city, period)
    answer = opened._replace(city=city).answer(areas=map_path is not None)
    judged = answer.judged
    log_unjudged(judged)
    comparison = compare_houses(houses, judged.table, answer.prepared.whole, period)._replace(
        left_out=left_out
    )
    warn_of_datum(levelling, comparison.datum_mm, comparison.datum_std_mm)
    point_rows = point_table(
        levels, placed.row, placed.xy, judged.table["building_id"].to_numpy(), comparison
    )
    write_comparison(comparison, point_rows, output)
    write_text(draw_chart(comparison), picture)
    if map_path is not None:
        write_map(
            judged._replace(levelling=point_rows),
            city.points,
            map_path,
            request.title,
            owners=answer.prepared.owners,
        )
    if labels is not None:
        write_labels(houses, comparison, labels)
    return comparison


def warn_of_datum(levelling: Path, datum_mm: float, datum_std_mm: float) -> None:
    """Warn if the datums of radar and levelling differ by a size that is certain and matters."""
    if abs(datum_mm) > MIN_DATUM_MM and abs(datum_mm) > MAX_DATUM_ERRORS * datum_std_mm:
        warn(
            "%s: all settlements by radar are off the levelled ones by %+.1f mm (median, standard "
            "error %.1f mm), which is taken off. Agreement does not show such an error: is the "
            "reference point or the zero of the levels another one?",
            levelling,
            datum_mm,
            datum_std_mm,
            key="levelling.datum_offset",
        )


def without_misread(
    levels: Levelling, period: LevelledPeriod, placed: PlacedPoints
) -> tuple[LevelledPeriod, list[str]]:
    """Return the period without the changes of misread points, and their names; log warnings."""
    misread_points = misread(period, placed.row, placed.xy)
    for point in misread_points[:MAX_NAMED]:
        warn(
            "%s: %s. It is left out; check them.",
            *(levels.path, point.format_sentence(levels, period)),
            key="levelling.misread",
        )
    if len(misread_points) > MAX_NAMED:
        warn(
            "%s: %d more points do not fit their buildings and are left out",
            *(levels.path, len(misread_points) - MAX_NAMED),
            key="levelling.misread",
        )
    change = period.change.copy()
    change[[p.point for p in misread_points]] = np.nan
    return period._replace(change=change), [str(levels.point[p.point]) for p in misread_points]


def cut_to_period(city: CityInMemory, period: LevelledPeriod) -> CityInMemory:
    """Return the city with the epochs of the period only.

    Raises:
        InputError: a track has too few.
    """
    window = parse_window(str(period.begin), str(period.end))
    return replace(
        city, points=[window.cut(track.name, track, TREND_EPOCHS) for track in city.points]
    )


def place_points(levels: Levelling, city: CityInMemory, request: Request) -> PlacedPoints:
    """Assign levelled points to footprints: by `building_id`, else to the nearest within `REACH_M`.

    Raises:
        InputError: a building is unknown, or no point is near to any.
    """
    shapes, buildings = city.footprints.geometry.to_numpy(), request.buildings
    tree = shapely.STRtree(shapes)
    projected = [
        (crs, _project(levels, crs, str(city.footprints.crs)))
        for crs in _possible_crss(levels, city, request)
    ]
    candidates = [(crs, xy, _nearest_footprints(tree, xy)) for crs, xy in projected]
    crs, xy, row = max(candidates, key=lambda candidate: int((candidate[2] >= 0).sum()))
    row = _rows_by_name(levels, row, city.footprints["building_id"].tolist(), buildings)
    if not (row >= 0).any():
        raise InputError(
            f"{levels.path}: no point is within {REACH_M:g} m of a building of {buildings} (read "
            f"as {crs}). Give longitude and latitude, add building_id, or state the crs of this "
            "file under ingest.footprints (--params).",
            key="levelling.no_overlap",
        )
    if np.isfinite(xy).any():
        log.info("%s: coordinates read as %s", levels.path, crs)
    if (row < 0).any():
        log.info(
            "%s: %d of %d points are of no building and are left out",
            levels.path,
            (row < 0).sum(),
            len(row),
        )
    places = np.array(
        [shapely.Point(point) if np.isfinite(point).all() else None for point in xy], object
    )
    is_far = (row >= 0) & (shapely.distance(shapes[row], places) > MAX_DISTANCE_M)
    if is_far.any():
        warn(
            "%s: %d points are more than %g m from their building (the first: %s); their places "
            "are not used",
            *(levels.path, is_far.sum(), MAX_DISTANCE_M, levels.point[int(np.argmax(is_far))]),
            key="levelling.far_from_building",
        )
    return PlacedPoints(row, np.where(is_far[:, None], np.nan, xy))


def _possible_crss(levels: Levelling, city: CityInMemory, request: Request) -> list[str]:
    """Return the possible CRSs: the stated one, degrees, that of the city and of the footprints."""
    sources = request.options.reading.ingest.footprints
    stated_crss = (source.crs for pattern, source in sources.items() if fits(levels.path, pattern))
    crs = next((c for c in stated_crss if c), None)
    if crs is not None or levels.is_degrees:
        return [crs or GLOBE]
    crss = [str(city.footprints.crs)]
    with suppress(DataSourceError, DataLayerError, ProjError):
        file_crs = pyogrio.read_info(request.buildings)["crs"]
        crss += [file_crs] if file_crs and CRS(file_crs).is_projected else []
    return crss


def _project(levels: Levelling, crs: str, target: str) -> NDArray[np.float64]:
    xy = np.column_stack(transformer(crs, target).transform(*levels.place.T))
    return np.where(np.isfinite(xy).all(1)[:, None] & np.isfinite(levels.place), xy, np.nan)


def _nearest_footprints(tree: shapely.STRtree, xy: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the row (P,) of the nearest footprint within `REACH_M`; -1: none."""
    row = np.full(len(xy), -1)
    placed = np.flatnonzero(np.isfinite(xy).all(1))
    point, footprint = tree.query_nearest(
        shapely.points(xy[placed]), max_distance=REACH_M, all_matches=False
    )
    row[placed[point]] = footprint
    return row


def _rows_by_name(
    levels: Levelling, row: NDArray[np.intp], building_ids: list[Any], buildings: Path
) -> NDArray[np.intp]:
    rows = {str(name): k for k, name in enumerate(building_ids)}
    unknown = sorted({name for name in levels.building if name and name not in rows})
    if unknown:
        raise InputError(
            f"{levels.path}: building_id {', '.join(unknown[:5])}: not among the {len(rows)} of "
            f"{buildings}; the first "
            f"is {building_ids[0]}. Correct them, or leave the cells empty where the points have "
            "coordinates.",
            key="levelling.unknown_building",
        )
    return np.array(
        [rows.get(name, nearest) for name, nearest in zip(levels.building, row, strict=True)],
        np.intp,
    )


def write_comparison(
    comparison: Comparison, point_rows: geopandas.GeoDataFrame, path: Path
) -> None:
    """Write the table, and in a GeoPackage also the levelled points as a layer.

    Raises:
        NotWritable: the disk refused.
    """
    with report_write_errors(path), atomic_file(path) as temporary:
        if path.suffix.lower() == ".csv":
            pd.DataFrame(comparison.table.drop(columns="geometry")).to_csv(temporary, index=False)
        else:
            comparison.table.to_file(temporary, driver="GPKG", layer=COMPARED)
            point_rows.to_file(temporary, driver="GPKG", layer=LEVELLING, mode="a")


def draw_chart(comparison: Comparison) -> str:
    """Draw radar against levelling as SVG: settlement without the datum shift, tilt, strain."""
    table, has_datum = comparison.table, bool(np.isfinite(comparison.datum_mm))
    datum, low, high = (
        np.nan_to_num(comparison.datum_mm),
        table["severity_low"],
        table["severity_high"],
    )
    severity, settlement, tilt = (
        table["severity_permille"],
        *(HALF_WIDTH * table[name] for name in _ERROR_COLUMNS),
    )
    panels = [
        _panel(table, "settlement_mm", "Settlement, mm", (settlement,) * 2, datum=datum),
        _panel(table, "tilt_mm_m", "Tilt, mm/m", (tilt, tilt), lower_limit=0.0),
        _panel(
            table,
            "severity_permille",
            STRAIN_TITLE,
            (severity - low, high - severity),
            lower_limit=0.0,
            factor=strain_factor(table["levelled_spacing_m"]),
        ),
    ]
    note = (
        f"{datum:.1f} mm, the median difference, is taken off the radar's settlements."
        if has_datum
        else ""
    )
    return agreement_chart(
        f"Radar and levelling, {comparison.period.begin} to {comparison.period.end}", panels, note
    )


STRAIN_TITLE = "Strain, permille; levelling raised by what bends between its points"
_ERROR_COLUMNS = ("settlement_std_mm", "tilt_std_mm_m")


def _panel(
    table: pd.DataFrame,
    column: str,
    title: str,
    bars: tuple[Any, Any],
    *,
    datum: float = 0.0,
    lower_limit: float = -np.inf,
    factor: Any = 1.0,
) -> Panel:
    """Draw a figure, with the radar's `bars` down and up; `datum` is taken off it, `factor`
    raises levelling."""
    name, unit = column.split("_", 1)
    is_compared = table[f"{name}_agrees"].notna().to_numpy()
    columns = (
        table["building_id"].astype(str),
        table[f"levelled_{column}"] * factor,
        table[column] - datum,
        HALF_WIDTH * table[f"levelled_{name}_std_{unit}"] * factor,
        *bars,
        table[f"{name}_agrees"].astype("boolean").fillna(False),
    )
    pairs = [
        Pair(*row)
        for row in zip(*(c.to_numpy()[is_compared].tolist() for c in columns), strict=True)
    ]
    return Panel(title, "levelling", "radar", pairs, lower_limit)


def write_labels(houses: Sequence[House], comparison: Comparison, path: Path) -> None:
    """Write the levelled severities and quadrants with small errors as labels of `adapt`.

    Severities are raised to the true ones that are expected at this spacing, see `strain_factor`.

    Raises:
        NotWritable: the disk refused.
    """
    labelled = [
        h for h in houses if h.severity_std <= MAX_LABEL_STD and h.spacing <= MAX_LABEL_SPACING_M
    ]
    ids = dict(zip((h.row for h in houses), comparison.table["building_id"], strict=True))
    severity = [float(h.severity * strain_factor(h.spacing)) for h in labelled]
    is_damaged = [s >= CATEGORY_BOUNDS_PERMILLE[0] for s in severity]
    table = pd.DataFrame(
        {
            "building_id": [ids[h.row] for h in labelled],
            "severity_permille": [round(s, 4) for s in severity],
            "quadrant": [
                h.quadrant if damaged else ""
                for h, damaged in zip(labelled, is_damaged, strict=True)
            ],
            "accepted": [
                h.accepted if damaged else ""
                for h, damaged in zip(labelled, is_damaged, strict=True)
            ],
        }
    )
    with report_write_errors(path), atomic_file(path) as temporary:
        table.to_csv(temporary, index=False)
    log.info(
        "%s: %d buildings labelled by levelling, %d of them damaged",
        path,
        len(labelled),
        sum(is_damaged),
    )
    if not labelled:
        warn(
            "%s: none of %d levelled buildings has a label: it needs points %g m apart or less "
            "on average, and a "
            "strain known to %g permille.",
            path,
            len(houses),
            MAX_LABEL_SPACING_M,
            MAX_LABEL_STD,
            key="levelling.no_label",
        )
