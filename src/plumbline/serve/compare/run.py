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

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_file, told_unwritten
from plumbline.core.strain import BAY_M, CATEGORY_BOUNDS_PERMILLE
from plumbline.reporting.agreement import Pair, Panel, agreement_chart
from plumbline.serve.compare.agreement import WITHIN, Compared, compare_houses, point_table, raised
from plumbline.serve.compare.levelled import House, Period, common_period, houses_of
from plumbline.serve.compare.misread import misread
from plumbline.serve.judgement import log_unjudged
from plumbline.serve.map.page import check_page, write_map
from plumbline.serve.predictions import COMPARED, LEVELLING, Outputs, write_text
from plumbline.serve.request import Request, open_city
from plumbline.sources.city.in_memory import CityInMemory
from plumbline.sources.city.window import parse_window
from plumbline.sources.crs import GLOBE, transformer
from plumbline.sources.files.opened import fits
from plumbline.sources.levelling import Levelling, read_levelling
from plumbline.sources.points.epochs import TREND_EPOCHS

STD_MM = 0.3
"""Of a levelled height, where the file does not say."""
REACH_M, ASTRAY_M = 2.0, 10.0
"""A point belongs to the footprint within the first. A point of a named building that is farther than the second from
it has no place."""
SUFFIXES = (".csv", ".gpkg")
MOST_NAMED = 5
"""Points that warnings name."""
LABEL_ERROR = CATEGORY_BOUNDS_PERMILLE[0] / 2
"""permille: a levelled strain that is known no better is no label."""
LABEL_SPACING_M = 1.5 * BAY_M
"""Nor is one of points that are farther apart: most of a damage is between them."""


class Placed(NamedTuple):
    """Where P levelled points are."""

    row: NDArray[np.intp]
    """(P,) of their footprint; -1: none."""
    xy: NDArray[np.float64]
    """(P, 2) in the city's CRS; NaN where not known."""


def compare(
    request: Request,
    levelling: Path,
    output: Path,
    labels: Path | None = None,
    map_path: Path | None = None,
    std_mm: float = STD_MM,
) -> Compared:
    """Compare radar and levelling over their common period, and write the table and a picture beside it.

    Args:
        request: what is judged. levelling: table, see `read_levelling`.
        output: .csv or .gpkg; the picture has its name and .svg.
        labels: csv for `adapt` to write. map_path: HTML map to write, with the levelled points as a layer.
        std_mm: of a height without an error.

    Raises:
        InputError: anything given is missing, damaged or does not fit together. No file is written then.
    """
    picture = output.with_suffix(".svg")
    if map_path is not None:
        check_page()
    read = read_levelling(levelling)
    beside = [picture, *([labels] if labels else [])]
    opened = open_city(request, Outputs(output, map_path, beside, suffixes=SUFFIXES), [levelling])
    city = opened.city
    placed = place_points(read, city, request)
    epochs = np.concatenate([track.epochs for track in city.points])
    period, wrong = sound(read, common_period(read, epochs.min(), epochs.max(), std_mm), placed)
    houses = houses_of(period, placed.row, placed.xy, city.footprints)
    if not houses:
        raise InputError(
            f"{levelling}: no point on a building was levelled near to {period.begin} and {period.end}, the levelled "
            "days nearest to the ends of the radar's record."
        )
    log.info("compared from %s to %s: %d levelled buildings", period.begin, period.end, len(houses))
    city = within(city, period)
    answered = opened._replace(city=city).answer(areas=map_path is not None)
    judged = answered.judged
    log_unjudged(judged)
    compared = compare_houses(houses, judged.table, answered.prepared.whole, period)._replace(left_out=wrong)
    levelled = point_table(read, placed.row, placed.xy, judged.table["building_id"].to_numpy(), compared)
    write_compared(compared, levelled, output)
    write_text(draw(compared), picture)
    if map_path is not None:
        owners = answered.prepared.owners
        write_map(judged._replace(levelling=levelled), city.points, map_path, request.title, owners=owners)
    if labels is not None:
        write_labels(houses, compared, labels)
    return compared


def sound(read: Levelling, period: Period, placed: Placed) -> tuple[Period, list[str]]:
    """Return the period without the changes that cannot be, and the names of their points; warn of them."""
    wrong = misread(period, placed.row, placed.xy)
    for one in wrong[:MOST_NAMED]:
        log.warning("%s: %s. It is left out; check them.", read.path, one.say(read, period))
    if len(wrong) > MOST_NAMED:
        log.warning(
            "%s: %d more points do not fit their buildings and are left out", read.path, len(wrong) - MOST_NAMED
        )
    change = period.change.copy()
    change[[one.point for one in wrong]] = np.nan
    return period._replace(change=change), [str(read.point[one.point]) for one in wrong]


def within(city: CityInMemory, period: Period) -> CityInMemory:
    """Return the city with the epochs of the period alone.

    Raises:
        InputError: a track has too few.
    """
    window = parse_window(str(period.begin), str(period.end))
    return replace(city, points=[window.cut(track.name, track, TREND_EPOCHS) for track in city.points])


def place_points(read: Levelling, city: CityInMemory, request: Request) -> Placed:
    """Assign levelled points to footprints: by `building_id`, else the one that holds them or is within `REACH_M`.

    Raises:
        InputError: a building is unknown, or no point is near to any.
    """
    shapes, buildings = city.footprints.geometry.to_numpy(), request.buildings
    tree = shapely.STRtree(shapes)
    tried = [(crs, _moved(read, crs, str(city.footprints.crs))) for crs in _possible(read, city, request)]
    near = [(crs, xy, _nearest(tree, xy)) for crs, xy in tried]
    crs, xy, row = max(near, key=lambda one: int((one[2] >= 0).sum()))
    row = _by_name(read, row, city.footprints["building_id"].tolist(), buildings)
    if not (row >= 0).any():
        raise InputError(
            f"{read.path}: no point lies within {REACH_M:g} m of a building of {buildings} (read as {crs}). Give "
            "longitude and latitude, add building_id, or state the crs of this file under ingest.footprints (--params)."
        )
    if np.isfinite(xy).any():
        log.info("%s: coordinates read as %s", read.path, crs)
    if (row < 0).any():
        log.info("%s: %d of %d points are of no building and are left out", read.path, (row < 0).sum(), len(row))
    places = np.array([shapely.Point(one) if np.isfinite(one).all() else None for one in xy], object)
    astray = (row >= 0) & (shapely.distance(shapes[row], places) > ASTRAY_M)
    if astray.any():
        log.warning(
            "%s: %d points lie more than %g m from their building (the first: %s); their places are not used",
            *(read.path, astray.sum(), ASTRAY_M, read.point[int(np.argmax(astray))]),
        )
    return Placed(row, np.where(astray[:, None], np.nan, xy))


def _possible(read: Levelling, city: CityInMemory, request: Request) -> list[str]:
    """Return the CRSs that the coordinates may be in: stated, degrees, the city's, that of the footprints' file."""
    described = request.options.reading.ingest.footprints
    stated = (about.crs for pattern, about in described.items() if fits(read.path, pattern))
    crs = next((one for one in stated if one), None)
    if crs is not None or read.is_degrees:
        return [crs or GLOBE]
    found = [str(city.footprints.crs)]
    with suppress(DataSourceError, DataLayerError, ProjError):
        own = pyogrio.read_info(request.buildings)["crs"]
        found += [own] if own and CRS(own).is_projected else []
    return found


def _moved(read: Levelling, crs: str, target: str) -> NDArray[np.float64]:
    xy = np.column_stack(transformer(crs, target).transform(*read.place.T))
    return np.where(np.isfinite(xy).all(1)[:, None] & np.isfinite(read.place), xy, np.nan)


def _nearest(tree: shapely.STRtree, xy: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return (P,) the nearest footprint within reach, -1 without; one that holds a point is at no distance."""
    row = np.full(len(xy), -1)
    known = np.flatnonzero(np.isfinite(xy).all(1))
    point, footprint = tree.query_nearest(shapely.points(xy[known]), max_distance=REACH_M, all_matches=False)
    row[known[point]] = footprint
    return row


def _by_name(read: Levelling, row: NDArray[np.intp], known: list[Any], buildings: Path) -> NDArray[np.intp]:
    rows = {str(name): number for number, name in enumerate(known)}
    unknown = sorted({name for name in read.building if name and name not in rows})
    if unknown:
        raise InputError(
            f"{read.path}: building_id {', '.join(unknown[:5])}: not among the {len(rows)} of {buildings}; the first "
            f"is {known[0]}. Correct them, or leave the cells empty where the points have coordinates."
        )
    return np.array([rows.get(name, other) for name, other in zip(read.building, row, strict=True)], np.intp)


def write_compared(compared: Compared, levelled: geopandas.GeoDataFrame, path: Path) -> None:
    """Write the table, and into a GeoPackage also the levelled points as a layer.

    Raises:
        NotWritable: the disk refused.
    """
    with told_unwritten(path), atomic_file(path) as temporary:
        if path.suffix.lower() == ".csv":
            pd.DataFrame(compared.table.drop(columns="geometry")).to_csv(temporary, index=False)
        else:
            compared.table.to_file(temporary, driver="GPKG", layer=COMPARED)
            levelled.to_file(temporary, driver="GPKG", layer=LEVELLING, mode="a")


def draw(compared: Compared) -> str:
    """Draw radar against levelling as SVG: settlement, less the difference of the datums, tilt and strain."""
    table, known = compared.table, bool(np.isfinite(compared.datum_mm))
    datum, low, high = np.nan_to_num(compared.datum_mm), table["severity_low"], table["severity_high"]
    severity, settlement, tilt = table["severity_permille"], *(WITHIN * table[name] for name in _ERRORS)
    times = raised(table["levelled_spacing_m"])
    panels = [
        _panel(table, "settlement_mm", "Settlement, mm", settlement, settlement, off=datum),
        _panel(table, "tilt_mm_m", "Tilt, mm/m", tilt, tilt, least=0.0),
        _panel(table, "severity_permille", STRAIN, severity - low, high - severity, least=0.0, times=times),
    ]
    note = f"{datum:.1f} mm, the median difference, is taken off the radar's settlements." if known else ""
    return agreement_chart(f"Radar and levelling, {compared.period.begin} to {compared.period.end}", panels, note)


STRAIN = "Strain, permille; levelling raised by what bends between its points"
_ERRORS = ("settlement_std_mm", "tilt_std_mm_m")


def _panel(
    table: pd.DataFrame,
    column: str,
    title: str,
    down: Any,
    up: Any,
    off: float = 0.0,
    least: float = -np.inf,
    times: Any = 1.0,
) -> Panel:
    """Draw a figure, with the radar's bars `down` and `up`; `off` is taken off it, `times` raises levelling."""
    name, unit = column.split("_", 1)
    has = table[f"{name}_agrees"].notna().to_numpy()
    columns = (
        table["building_id"].astype(str),
        table[f"levelled_{column}"] * times,
        table[column] - off,
        WITHIN * table[f"levelled_{name}_std_{unit}"] * times,
        down,
        up,
        table[f"{name}_agrees"].astype("boolean").fillna(False),
    )
    pairs = [Pair(*row) for row in zip(*(own.to_numpy()[has].tolist() for own in columns), strict=True)]
    return Panel(title, "levelling", "radar", pairs, least)


def write_labels(houses: Sequence[House], compared: Compared, path: Path) -> None:
    """Write the levelled severities and quadrants that are known well enough as labels of `adapt`.

    Severities are raised to the true ones that levels at this spacing let expect, see `raised`.

    Raises:
        NotWritable: the disk refused.
    """
    told = [one for one in houses if one.severity_std <= LABEL_ERROR and one.spacing <= LABEL_SPACING_M]
    ids = dict(zip((one.row for one in houses), compared.table["building_id"], strict=True))
    severity = [float(one.severity * raised(one.spacing)) for one in told]
    damaged = [one >= CATEGORY_BOUNDS_PERMILLE[0] for one in severity]
    table = pd.DataFrame(
        {
            "building_id": [ids[one.row] for one in told],
            "severity_permille": [round(one, 4) for one in severity],
            "quadrant": [one.quadrant if bad else "" for one, bad in zip(told, damaged, strict=True)],
            "accepted": [one.accepted if bad else "" for one, bad in zip(told, damaged, strict=True)],
        }
    )
    with told_unwritten(path), atomic_file(path) as temporary:
        table.to_csv(temporary, index=False)
    log.info("%s: %d buildings labelled by levelling, %d of them damaged", path, len(told), sum(damaged))
    if not told:
        log.warning(
            "%s: none of %d levelled buildings has a label: it needs points %g m apart or less on average, and a "
            "strain known to %g permille.",
            path,
            len(houses),
            LABEL_SPACING_M,
            LABEL_ERROR,
        )
