"""Bring the coordinates of a file into metres of one projected CRS, the same for all
products of a city."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pyproj import CRS, Proj, Transformer
from pyproj.datadir import append_data_dir
from pyproj.exceptions import ProjError

from plumbline.core.console import log, warn
from plumbline.core.errors import InputError

GLOBE = "EPSG:4326"
"""Degrees of latitude and longitude mean WGS 84, where nothing else is stated."""
UNDEFINED = "Undefined geographic SRS"
"""Name of degrees of unknown datum in GeoPackage."""
MAX_STRETCH = 0.02
"""Strain is movement over length: where a CRS draws a metre longer, it would come out
smaller by as much. UTM stays within 0.4 %, EPSG:3035 in Europe within 2 %; Web Mercator
doubles lengths at 60 degrees."""
MAX_TURN_DEG = 45.0
"""Lines of sight and quadrants are by east and north: axes that point elsewhere, as those
of South Africa (west, south) and of the poles, would turn one against the other. EPSG:3035
turns by 28 degrees in Iceland (docs/decisions/0040)."""
STEP_DEG = 1e-5
NEAR_POLE_DEG = 0.1
"""Distance from a pole within which east and north differ from house to house."""

if GRID_FOLDERS := os.environ.get("PLUMBLINE_GRIDS"):
    append_data_dir(GRID_FOLDERS)


@functools.lru_cache(maxsize=64)
def transformer(source: CRS | str, target: CRS | str) -> Transformer:
    """Return the transformation between two CRSs, x before y; cached, because building it
    takes 0.1 s.

    A ballpark transformation, wrong by a hundred metres between datums, is used only if PROJ has
    no other.
    """
    try:
        return Transformer.from_crs(source, target, always_xy=True, allow_ballpark=False)
    except ProjError:
        return Transformer.from_crs(source, target, always_xy=True)


def length_of_a_metre(crs: CRS, longitude: float, latitude: float) -> float:
    """Return a ground metre's length in the CRS, along meridian or parallel, whichever is
    further from 1."""
    if not np.isfinite(longitude + latitude):
        return 1.0
    meridian = crs.prime_meridian  # from which the formulas of the CRS count
    west = (
        0.0
        if meridian is None
        else float(np.degrees(meridian.longitude * float(meridian.unit_conversion_factor)))
    )
    factors = Proj(crs).get_factors(longitude - west, latitude)
    scales = [
        float(scale)
        for scale in (factors.meridional_scale, factors.parallel_scale)
        if np.isfinite(scale)
    ]
    return max(scales, key=lambda scale: abs(scale - 1), default=1.0)


def turn_of_axes(crs: CRS, longitude: float, latitude: float) -> float:
    """Return the larger angle, degrees, of x off east and y off north; 0 if the CRS cannot
    show the place.

    At a pole it is 180: no axis of a plane is east there.
    """
    if not np.isfinite(longitude + latitude):
        return 0.0
    if abs(latitude) > LATITUDES[1] - NEAR_POLE_DEG:
        return 180.0
    places = [longitude, longitude + STEP_DEG, longitude], [latitude, latitude, latitude + STEP_DEG]
    x, y = transformer(GLOBE, crs).transform(*places)
    at = np.array(x) + 1j * np.array(y)
    off = np.abs(np.angle((at[1:] - at[0]) / np.array([1, 1j]), deg=True))
    return float(off.max()) if np.isfinite(off).all() else 0.0


Range = tuple[float, float]
PLANE = (-20_040_000.0, 20_040_000.0)
"""Half the Earth's circumference, m: no projected coordinate is further from its CRS's middle."""
LATITUDES, LONGITUDES = (-90.0, 90.0), (-180.0, 360.0)
"""Degrees that may be found: longitudes are counted from -180 to 180, and by some from 0 to 360."""
UTM_LATITUDES = (-80.0, 84.0)
WEB_MERCATOR, WEB_GIRTH_M = "Popular Visualisation Pseudo Mercator", 2 * np.pi * 6_378_137.0
SAME_M, SAME_DEG = 1.0, 1e-5
"""WGS 84 and a continent's own datum, such as ETRS89, drift apart by some decimetres."""
AREA_MARGIN_DEG = 3.0
"""A CRS is used this far beyond the area that it is made for: UTM, half a zone."""
Floats = NDArray[np.float64]
Box = tuple[float, float, float, float]
"""West, south, east, north."""


@dataclass(frozen=True)
class Projection:
    """Transformation from the file's x and y (longitude, latitude, or easting, northing) to
    easting and northing."""

    crs: str
    """Projected, in metres."""
    transformer: Transformer | None
    """None where the file's coordinates are in `crs` already."""

    def __call__(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Return easting and northing (N,), m; infinite if `crs` cannot show a place."""
        if self.transformer is None:
            return x, y
        east, north = self.transformer.transform(x, y)
        return np.asarray(east, float), np.asarray(north, float)


def is_globe(source: str, crs: str) -> bool:
    """Return whether coordinates in `crs` are degrees.

    Raises:
        InputError: `crs` is no CRS, or neither geographic nor projected; the message begins
            with `source`.
    """
    parsed = _parse_crs(source, crs)
    if not (parsed.is_geographic or parsed.is_projected):
        _check_metres(source, crs, parsed)
    return bool(parsed.is_geographic)


def is_local(crs: CRS | None) -> bool:
    """Return whether a CRS is only a name for unknown coordinates: GeoPackage's undefined
    ones, a local grid."""
    return crs is not None and (crs.type_name == "Engineering CRS" or crs.name == UNDEFINED)


def is_elsewhere(source: str, layer_crs: str, stated_crs: str) -> bool:
    """Return whether equal coordinates in two CRSs mean places more than a metre apart.

    Raises:
        InputError: one is no CRS.
    """
    first, second = _parse_crs(source, layer_crs), _parse_crs(source, stated_crs)
    area = second.area_of_use
    if first == second or area is None:
        return first != second
    east = area.east + 360 * (area.west > area.east)
    middle = _middle_of_box((area.west, area.south, east, area.north))
    try:
        transformers = [transformer(GLOBE, crs) for crs in (first, second)]
    except ProjError:
        return True  # one is of another planet
    places = np.array([t.transform(*middle) for t in transformers])
    tolerance = SAME_DEG if first.is_geographic and second.is_geographic else SAME_M
    return (
        not float(np.abs(places[0] - places[1]).max()) <= tolerance
    )  # false for a place that one cannot show: it is elsewhere too


def ranges(source: str, crs: str) -> tuple[Range, Range]:
    """Return the possible eastings and northings of a projected CRS, in its unit: half the
    Earth about its middle.

    Some have the number of their zone in front of the easting (EPSG:4647), so that the
    middle is at 32,500,000 m.

    Raises:
        InputError: `crs` is no CRS.
    """
    parsed = _parse_crs(source, crs)
    operation, unit_m = (
        parsed.coordinate_operation,
        float(parsed.axis_info[0].unit_conversion_factor),
    )
    parameters = [] if operation is None else operation.params

    def axis_range(axis: str) -> Range:
        names = (f"False {axis}".lower(), f"{axis} at false origin".lower())
        offsets_m = (
            float(p.value) * p.unit_conversion_factor for p in parameters if p.name.lower() in names
        )
        middle_m = float(next(offsets_m, 0.0))
        return (PLANE[0] + middle_m) / unit_m, (PLANE[1] + middle_m) / unit_m

    return axis_range("easting"), axis_range("northing")


def projection(
    source: str, file_crs: str, city_crs: str | None, box: Callable[[], Box | None]
) -> Projection:
    """Choose the projection of a product.

    Args:
        source: names the file in messages.
        file_crs: CRS of the file's coordinates.
        city_crs: projected CRS that is wanted. None: that of the file, or where it has
            degrees or feet, stretches lengths (`MAX_STRETCH`) or has other axes than east
            and north (`MAX_TURN_DEG`), the UTM zone of the middle of `box`.
        box: gives the extent of the points in the file's CRS, None where there are none;
            called only where needed.

    Raises:
        InputError: a CRS is unknown or not in metres, there are no points, or they are
            outside of its area.
    """
    globe = is_globe(source, file_crs)
    if city_crs is None and not globe:
        return _choose_projection(source, _parse_crs(source, file_crs), box())
    if city_crs is None:
        extent = box()
        if extent is None:
            raise InputError(
                f"{source}: it holds no points. Download it again, or leave it out.",
                key="points.none",
            )
        zone = utm_zone(source, *_middle_of_box(extent))
        return Projection(zone, transformer(file_crs, zone))
    wanted = _parse_crs(source, city_crs)
    _check_metres(source, city_crs, wanted)
    if not globe and _parse_crs(source, file_crs) == wanted:
        return Projection(_crs_name(wanted), None)
    chosen = Projection(_crs_name(wanted), transformer(file_crs, _crs_name(wanted)))
    if globe and (extent := box()) is not None:
        _check_area(source, wanted, *_middle_of_box(extent))
    return chosen


def check_asked(crs: str | None) -> None:
    """Refuse an `ingest.crs` that is not a projected CRS in metres.

    Raises:
        InputError: it is none.
    """
    if crs is not None:
        _check_metres("ingest.crs", crs, _parse_crs("ingest.crs", crs))


def utm_zone(source: str, longitude: float, latitude: float) -> str:
    """Return the EPSG code of the 6-degree zone of UTM (WGS 84) that holds a place.

    Raises:
        InputError: the place is too near to a pole.
    """
    if not UTM_LATITUDES[0] <= latitude <= UTM_LATITUDES[1]:
        advice = (
            "Leave it out."
            if abs(latitude) <= LATITUDES[1]
            else "Are latitude and longitude swapped?"
        )
        raise InputError(
            f"{source}: its points are at latitude {latitude:.2f}, where UTM has no zone. {advice}",
            key="crs.no_utm_zone",
        )
    zone = int(np.floor((longitude + 180) / 6)) % 60 + 1
    return f"EPSG:{32600 + zone if latitude >= 0 else 32700 + zone}"


def most_of(x: Floats, y: Floats, crs: str = GLOBE) -> Box:
    """Return west, south, east, north of nine tenths of the points (N,), in the unit of
    `crs`; as `typical_box`."""
    turn = turn_in(CRS.from_user_input(crs))
    x = x if turn is None else unwrap_longitudes(x, turn=turn)
    (west, east), (south, north) = np.quantile(x, (0.05, 0.95)), np.quantile(y, (0.05, 0.95))
    return float(west), float(south), float(east), float(north)


def typical_box(source: str, x: Floats, y: Floats) -> Box:
    """Return `most_of` points (N,) in degrees, beyond 180 if they cross the date line.

    Points far from these are warned of: a single damaged cell shall not choose the zone of a city.
    """
    turned = unwrap_longitudes(x)
    is_outlier = np.hypot(turned - np.median(turned), y - np.median(y)) > AREA_MARGIN_DEG
    if is_outlier.any():
        row = int(np.argmax(is_outlier))
        warn(
            "%s: %d points are more than %g degrees from the others, the first at longitude %.5f, "
            "latitude %.5f. The CRS is chosen without them; check these rows.",
            source,
            int(is_outlier.sum()),
            AREA_MARGIN_DEG,
            x[row],
            y[row],
            key="points.outliers",
        )
    return most_of(turned, y)


def unwrap_longitudes(longitude: Floats, about: float | None = None, turn: float = 360.0) -> Floats:
    """Return longitudes (N,) without the step at the date line, within half a turn of
    `about` or of the bulk."""
    if about is None:
        if np.ptp(longitude) <= turn / 2:
            return longitude
        # Circular mean: the direction of the sum of the unit vectors.
        about = float(np.angle(np.exp(2j * np.pi / turn * longitude).sum())) * turn / (2 * np.pi)
    return np.asarray(about + (longitude - about + turn / 2) % turn - turn / 2, float)


def turn_in(crs: CRS) -> float | None:
    """Return by how much x differs once around the Earth: degrees, or metres of the web's
    maps; None in other CRSs."""
    if crs.is_geographic:
        return 2 * np.pi / float(crs.axis_info[0].unit_conversion_factor)
    operation = crs.coordinate_operation
    return WEB_GIRTH_M if operation is not None and operation.method_name == WEB_MERCATOR else None


def _parse_crs(source: str, crs: str) -> CRS:
    try:
        return CRS.from_user_input(crs)
    except ProjError as error:
        detail = str(error).splitlines()[0][:200]
        raise InputError(
            f"{source}: {crs!r} is no CRS ({detail}). Write it as EPSG:32631.", key="crs.unknown"
        ) from None


def _crs_name(crs: CRS) -> str:
    authority = crs.to_authority()
    return ":".join(authority) if authority else str(crs.to_string())


def _check_metres(source: str, text: str, crs: CRS) -> None:
    units = {axis.unit_name for axis in crs.axis_info[:2]}
    if not crs.is_projected or units != {"metre"}:
        wrong = (
            f"its unit is the {', '.join(sorted(units))}"
            if crs.is_projected
            else "it is not projected"
        )
        raise InputError(
            f"{source}: {text} is not a projected CRS in metres: {wrong}. Write one, such as "
            "EPSG:32631.",
            key="crs.not_metric",
        )


def _choose_projection(source: str, crs: CRS, box: Box | None) -> Projection:
    """Choose the file's own CRS if it has metres that are true on the ground to east and
    north, else UTM."""
    unit = crs.axis_info[0].unit_name
    if box is not None:
        try:
            longitude, latitude = transformer(crs, GLOBE).transform(*_middle_of_box(box))
            place = crs, longitude, latitude
            scale, turn = length_of_a_metre(*place), turn_of_axes(*place)
        except ProjError:
            scale, turn = 1.0, 0.0  # PROJ has no factors for some CRSs
        if unit != "metre" or abs(scale - 1) > MAX_STRETCH or turn > MAX_TURN_DEG:
            zone = utm_zone(source, longitude, latitude)
            why = (
                f"the unit is the {unit}"
                if unit != "metre"
                else f"a metre there is drawn as {scale:.2f} m"
                if turn <= MAX_TURN_DEG
                else f"the axes there are {turn:.0f} degrees off east and north"
            )
            log.info(
                "%s: in %s (%s) %s; its points are taken to %s.",
                source,
                _crs_name(crs),
                crs.name,
                why,
                zone,
            )
            return Projection(zone, transformer(crs, zone))
    return Projection(_crs_name(crs), None)


def _middle_of_box(box: Box) -> tuple[float, float]:
    west, south, east, north = box
    return (west + east) / 2, (south + north) / 2


def _check_area(source: str, crs: CRS, longitude: float, latitude: float) -> None:
    area = crs.area_of_use
    if area is None:
        return

    def contains(x: float, y: float) -> bool:
        wraps = area.west > area.east  # over the date line
        east = area.east + 360 * wraps
        inside = any(
            area.west - AREA_MARGIN_DEG <= x + turn <= east + AREA_MARGIN_DEG
            for turn in (-360, 0, 360)
        )
        return inside and area.south - AREA_MARGIN_DEG <= y <= area.north + AREA_MARGIN_DEG

    if not contains(longitude, latitude):
        swapped = " Are latitude and longitude swapped?" if contains(latitude, longitude) else ""
        raise InputError(
            f"{source}: its points are about longitude {longitude:.3f}, latitude {latitude:.3f}, "
            f"outside of {_crs_name(crs)} ({crs.name}), the CRS of the city.{swapped}",
            key="crs.outside",
        )
