"""Make a borrowed city: the user's own points and footprints, with added and so known damage.

The geometry, the gaps and the noise are real; the motion comes from the same code as that
of an invented city.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import geopandas
import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.core.arrays import Array
from plumbline.core.compass import Frames, frames
from plumbline.core.console import log, track
from plumbline.core.errors import InputError
from plumbline.params import Borrowed, Ingest
from plumbline.params.simulate import Mechanisms
from plumbline.simulate.borrowed.track import LEAST_EPOCHS, Copy, Setting, write_track
from plumbline.simulate.city import (
    BETWEEN_FEATURES,
    FOOTPRINTS_BEGIN,
    FOOTPRINTS_END,
    LABELS_HEADER,
    footprint_features,
    label_rows,
)
from plumbline.simulate.site import place
from plumbline.simulate.structure.labels import PointEvidence, no_evidence
from plumbline.simulate.structure.layout import CORNERS, CityLayout, standing_corners
from plumbline.simulate.structure.motion import draw_motion
from plumbline.simulate.structure.tunnels import draw_tunnels
from plumbline.sources.city.files import find_unlabelled
from plumbline.sources.city.tiles import open_products
from plumbline.sources.footprints.area import (
    GROUND_CRS,
    GROUND_EASTING,
    GROUND_NORTHING,
    GroundCentres,
    ground_of,
)
from plumbline.sources.footprints.buildings import HEIGHT, read_buildings
from plumbline.sources.footprints.ids import ID
from plumbline.sources.points.formats.egms import CRS
from plumbline.sources.points.read import open_product, read_source

FOOTPRINTS, LABELS = "footprints.geojson", "labels.csv"
LEAST_SIDE_M = 0.5
LEAST_UP = 0.0005
"""Smallest vertical component of a line of sight; a smaller one is written as 0.000, which no
reader accepts."""
BETWEEN_COPIES = "--"
"""Text between a city's name and the number of a copy, from the second on."""
FEATURES_AT_A_TIME = 2000


def write_borrowed(
    cities: Path, name: str, about: Borrowed, slot: int, *, damaged: float, mechanisms: Mechanisms
) -> None:
    """Write `cities/NAME/`, and `cities/NAME--2/` and so on for further copies.

    Each has the products as EGMS L2b CSVs under their own names, `footprints.geojson` and
    `labels.csv`. Points that are not in EPSG:3035 are moved, with their footprints, to a
    place in it, without turning or stretching them; each footprint has the place of its
    original (`plumbline.sources.footprints.area`).

    Args:
        cities: folder of the cities.
        name: of the city; takes part in the seed.
        about: where the files are, and what to make of them.
        slot: number of the city, which gives it that place.
        damaged: share of buildings with a local failure, unless `about` has another.
        mechanisms: what fails there.

    Raises:
        InputError: the folder or a file is refused, products differ in CRS, one has too few
            epochs, or no point is on a building.
    """
    began = time.monotonic()
    if not about.folder.is_dir():
        raise InputError(
            f"{about.folder}: no such folder; simulate.borrowed.{name} names it. Put points and "
            "footprints into it.",
            key="folder.missing",
        )
    files = find_unlabelled(about.folder)
    with _redirect_ingest_errors(name):
        opened = open_products(files.products, Ingest(products=about.products))
        crs = opened[0][1].crs
        buildings = read_buildings(files.footprints, crs, stated=about.footprints)
    for path, (_, source) in zip(files.products, opened, strict=True):
        if len(source.epochs) < LEAST_EPOCHS:
            raise InputError(
                f"{path}: {len(source.epochs)} epochs found; to separate noise from motion, "
                f"{LEAST_EPOCHS} or more are needed.",
                key="epochs.too_few",
            )
    layout, origin = borrowed_layout(buildings)
    start = min(source.epochs[0] for _, source in opened)
    setting = Setting(
        layout=layout,
        origin=origin,
        target_origin=origin if crs == CRS else np.array(place(slot)),
        start=start,
        length_days=float((max(source.epochs[-1] for _, source in opened) - start).astype(int)),
        band=about.band,
        buffer_m=about.buffer_m,
    )
    copies = []
    for number in range(1, about.copies + 1):
        rng = np.random.default_rng([about.seed, *name.encode(), number])
        folder = cities / (name if number == 1 else f"{name}{BETWEEN_COPIES}{number}")
        folder.mkdir(parents=True)
        tunnels = draw_tunnels(rng, layout.extent)
        motion = draw_motion(
            rng, layout, tunnels, damaged if about.damaged is None else about.damaged, mechanisms
        )
        velocity, sign = rng.normal(0, (0.8, 0.8, 1.5)), rng.choice([-1.0, 1.0], len(buildings))
        copies.append(Copy(folder, rng, motion, velocity, sign))

    evidence, count = no_evidence(len(buildings)), 0
    names = _file_names(files.products)
    for number, (file, _) in enumerate(track(opened, len(opened), name)):
        with _redirect_ingest_errors(name):
            points = read_source(file, open_product(file, crs))
        if (points.los[:, 2] < LEAST_UP).any():
            raise InputError(
                f"{file.path}: movement to the east, with nothing of what goes up or down. A "
                "borrowed city is written as a product along lines of sight, which all point up. "
                "Leave this file out of its folder.",
                key="borrowed.no_vertical",
            )
        evidence = evidence.plus(write_track(points, names[number], number, setting, copies))
        count += len(points)
    if not evidence.points.any():
        raise InputError(
            f"{about.folder}: no point is on a building of {files.footprints.name}. Points and "
            f"footprints must be of one place; a larger simulate.borrowed.{name}.buffer_m allows "
            "for a shift between them.",
            key="points.off_buildings",
        )
    ground = ground_of(buildings, crs, str(files.footprints))
    for number, copy in enumerate(copies, 1):
        suffix = "" if number == 1 else f"{BETWEEN_COPIES}{number}"
        identifiers = [f"{identifier}{suffix}" for identifier in buildings[ID]]
        _write_truth(
            copy,
            identifiers,
            has_heights=HEIGHT in buildings.columns,
            setting=setting,
            evidence=evidence,
            ground=ground,
        )
    log.info(
        "%s: %d buildings, %d points of %d products, %d copies, %.0f s",
        *(name, len(buildings), count, len(opened), len(copies), time.monotonic() - began),
    )


@contextmanager
def _redirect_ingest_errors(name: str) -> Iterator[None]:
    """Point errors that name section `ingest` to `simulate.borrowed`, where a borrowed city
    is described."""
    try:
        yield
    except InputError as error:
        if "ingest" not in str(error):
            raise
        raise InputError(
            f"{error}\nFor this borrowed city write products and footprints under "
            f"simulate.borrowed.{name}, and not under ingest.",
            key=error.key,
        ) from None


def borrowed_layout(buildings: geopandas.GeoDataFrame) -> tuple[CityLayout, Array]:
    """Return the user's buildings about their own middle, and that origin (2,), m."""
    geometry = np.asarray(buildings.geometry.values, object)
    west, south, east, north = shapely.total_bounds(geometry)
    origin = np.round([(west + east) / 2, (south + north) / 2])
    polygon = shapely.transform(geometry, lambda at: at - origin)
    frame = frames(polygon)
    frame.side[:] = np.maximum(frame.side, LEAST_SIDE_M)
    standing = standing_corners(polygon, frame)
    cornerless = np.flatnonzero(~standing.any(axis=1))
    standing[cornerless, _nearest_corner(polygon[cornerless], frame, cornerless)] = True
    height = (
        np.asarray(buildings[HEIGHT], float)
        if HEIGHT in buildings.columns
        else np.full(len(buildings), np.nan)
    )
    extent = max(float(max(east - west, north - south)), 1.0)
    return CityLayout(polygon, height, np.zeros(len(buildings)), frame, standing, extent), origin


def _nearest_corner(
    polygon: NDArray[np.object_], frame: Frames, building: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return (b,) the corner of the frame that is nearest to the footprint of each `building`."""
    cos, sin = np.cos(frame.angle[building])[:, None], np.sin(frame.angle[building])[:, None]
    x, y = (CORNERS * frame.side[building, None, :] / 2).transpose(2, 0, 1)
    east = frame.centre[building, :1] + x * cos - y * sin
    north = frame.centre[building, 1:] + x * sin + y * cos
    return np.asarray(
        shapely.distance(polygon[:, None], shapely.points(east, north)).argmin(axis=1), np.intp
    )


def _file_names(products: list[Path]) -> list[str]:
    """Return a distinct file name for each product: `T.zip` beside `T.csv` becomes `T.2.csv`."""
    names: list[str] = []
    for path in products:
        name, number = f"{path.stem}.csv", 2
        while name in names:
            name, number = f"{path.stem}.{number}.csv", number + 1
        names.append(name)
    return names


def _write_truth(
    copy: Copy,
    identifiers: list[str],
    *,
    has_heights: bool,
    setting: Setting,
    evidence: PointEvidence,
    ground: GroundCentres,
) -> None:
    layout = setting.layout
    rows = label_rows(identifiers, copy.motion, layout, evidence)
    with (copy.folder / LABELS).open("w", encoding="utf-8", newline="") as stream:
        stream.write(LABELS_HEADER + rows)
    height = layout.height if has_heights else None
    origin = [
        {GROUND_CRS: ground.crs, GROUND_EASTING: east, GROUND_NORTHING: north}
        for east, north in ground.centre.tolist()
    ]
    with (copy.folder / FOOTPRINTS).open("w", encoding="utf-8") as stream:
        stream.write(FOOTPRINTS_BEGIN)
        for first in range(0, len(identifiers), FEATURES_AT_A_TIME):
            part = slice(first, first + FEATURES_AT_A_TIME)
            polygon = shapely.transform(layout.polygon[part], lambda at: at + setting.target_origin)
            part_height = None if height is None else height[part]
            features = footprint_features(identifiers[part], polygon, part_height, origin[part])
            stream.write((BETWEEN_FEATURES if first else "") + features)
        stream.write(FOOTPRINTS_END)
