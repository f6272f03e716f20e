"""Draw a city part by part, and write it with its truth."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.core.arrays import Array
from plumbline.core.compass import QUADRANTS, join_quadrants
from plumbline.core.strain import DIFFICULTIES, MECHANISMS, category
from plumbline.params import City, Simulate
from plumbline.simulate.radar.acquisition import BANDS, draw_acquisitions, range_and_azimuth
from plumbline.simulate.radar.egms_writer import EgmsPoints, egms_rows
from plumbline.simulate.radar.noise import draw_memory
from plumbline.simulate.radar.scatterers import (
    STRUCTURE,
    SimulatedScatterers,
    draw_scatterers,
    position_errors,
)
from plumbline.simulate.radar.series import (
    ASTRAY_MM_YEAR,
    ASTRAY_OF_TOWN_MM_YEAR,
    background,
    common_noise,
    courses,
    draw_reference,
    measurement_noise,
    true_motion,
)
from plumbline.simulate.random_numbers import Entropy, city_entropy, general_generator, generators
from plumbline.simulate.site import PART_BUILDINGS, PART_DISTRICTS, Site, part_count, place
from plumbline.simulate.structure.labels import (
    PointEvidence,
    difficulty,
    gather_evidence,
    no_evidence,
    point_precision,
)
from plumbline.simulate.structure.layout import CityLayout, draw_layout, draw_plan, draw_town
from plumbline.simulate.structure.motion import (
    Motion,
    draw_labels,
    draw_motion,
    draw_rigid_of_town,
)
from plumbline.simulate.structure.tunnels import draw_tunnels, tunnels_near
from plumbline.sources.crs import GLOBE, transformer
from plumbline.sources.points.epochs import DAYS_A_YEAR
from plumbline.sources.points.formats.egms import CRS

FOOTPRINTS_BEGIN = (
    '{\n"type": "FeatureCollection",\n"name": '
    '"footprints",\n"xy_coordinate_resolution": 1e-09,\n"features": [\n'
)
FOOTPRINTS_END = "\n]\n}\n"
BETWEEN_FEATURES = ",\n"
LABELS_HEADER = "building_id,severity_permille,quadrant,accepted,mechanism,scenario,difficulty\n"


def footprint_features(
    identifiers: list[str],
    polygon: NDArray[np.object_],
    height: NDArray[np.float64] | None,
    further: Sequence[Mapping[str, str | float]] | None = None,
) -> str:
    """Return GeoJSON features, one a line, in longitude and latitude to about a tenth of a
    millimetre (RFC 7946).

    Args:
        identifiers: (B,) building ids.
        polygon: (B,) polygons or multipolygons in EPSG:3035.
        height: (B,) m; NaN where unknown; None where no building has one.
        further: (B,) more properties of each.
    """
    to_degrees = transformer(CRS, GLOBE)
    degrees = shapely.transform(
        polygon, lambda at: np.round(np.stack(to_degrees.transform(*at.T), axis=1), 9)
    )
    # The outer ring counter-clockwise, as the RFC has it.
    shapes = shapely.to_geojson(shapely.orient_polygons(degrees, exterior_cw=False))
    lines = []
    for row, (identifier, shape) in enumerate(zip(identifiers, shapes, strict=True)):
        properties: dict[str, str | float | None] = {"building_id": identifier}
        if height is not None:
            properties["height_m"] = None if np.isnan(height[row]) else float(height[row])
        properties |= further[row] if further is not None else {}
        lines.append(
            f'{{"type": "Feature", "properties": {json.dumps(properties)}, "geometry": {shape}}}'
        )
    return BETWEEN_FEATURES.join(lines)


def label_rows(
    identifiers: list[str], motion: Motion, layout: CityLayout, evidence: PointEvidence
) -> str:
    """Return rows of labels: severity, quadrants, mechanism, scenario and difficulty.

    Quadrant, the accepted ones (`NE|NW`) and the mechanism are empty below category 1.
    """
    labels = draw_labels(motion, layout)
    levels = difficulty(labels.strains.severity_permille, layout.frames.side, evidence)
    severity = np.round(labels.strains.severity_permille, 5)
    damaged, accepted = category(severity) > 0, labels.strains.accepted
    rows = []
    for i, identifier in enumerate(identifiers):
        quadrants = (
            f"{QUADRANTS[labels.strains.quadrant[i]]},{join_quadrants(accepted[i])}"
            if damaged[i]
            else ","
        )
        mechanism = MECHANISMS[labels.mechanism[i]] if damaged[i] else ""
        rows.append(
            f"{identifier},{severity[i]:.5f},{quadrants},{mechanism},{motion.scenario(i)},"
            f"{DIFFICULTIES[levels[i]]}\n"
        )
    return "".join(rows)


FOOTPRINTS, TUNNELS = "footprints.geojson", "tunnels.geojson"
TOWN = "town"
"""Value of `City.movement` of a city that moves as a real one."""


def radius_jobs(name: str, city: City) -> Iterator[tuple[Entropy, int, int]]:
    """Return the arguments of `part_radius` for each part; the radii are needed before the
    first part is placed."""
    for number in range(part_count(city.buildings)):
        yield city_entropy(name, city), city.buildings, number


def draw_site(name: str, city: City, slot: int, radius: float, params: Simulate) -> Site:
    """Draw the site that the parts of a city share.

    Args:
        name: the city's name; building ids start with it, and it takes part in the seed.
        city: band, number of buildings and seed.
        slot: the city's number, which gives it a place and track numbers of its own.
        radius: of the largest district, m.
        params: section `simulate`: how long cities are observed, and what fails in them.
    """
    rng = general_generator(city_entropy(name, city))
    ascending, descending = draw_acquisitions(
        rng, BANDS[city.band], slot, city.years or params.years, city.revisit_days
    )
    start = np.datetime64("2018-01-01") + int(rng.integers(0, 4 * 365))
    east, north, up = rng.normal(0, (0.8, 0.8, 1.5)).tolist()
    town = draw_town(rng, city.buildings, radius)
    return Site(
        name=name,
        entropy=city_entropy(name, city),
        band=city.band,
        tracks=(ascending, descending),
        references=(draw_reference(rng), draw_reference(rng)),
        start=start,
        velocity=(east, north, up),
        town=town,
        tunnels=tuple(draw_tunnels(rng, town.extent))[: 1 if city.movement == TOWN else None],
        place=place(slot),
        damaged=params.damaged if city.damaged is None else city.damaged,
        mechanisms=params.mechanisms,
        movement=city.movement,
    )


def tunnel_features(site: Site) -> str:
    """Return the axes of the tunnels within the city as GeoJSON: a file for `predict --causes`."""
    city = shapely.box(*(np.array([-1, -1, 1, 1]) * site.town.extent / 2))
    features = []
    for number, tunnel in enumerate(site.tunnels, 1):
        along = site.town.extent * np.array([np.cos(tunnel.direction), np.sin(tunnel.direction)])
        axis = shapely.LineString([tunnel.point - along, tunnel.point + along]).intersection(city)
        degrees = transformer(CRS, GLOBE).transform(*(shapely.get_coordinates(axis) + site.place).T)
        line = {
            "type": "LineString",
            "coordinates": np.round(np.stack(degrees, axis=1), 9).tolist(),
        }
        features.append(
            {"type": "Feature", "properties": {"name": f"tunnel {number}"}, "geometry": line}
        )
    return json.dumps({"type": "FeatureCollection", "features": features}, indent=1) + "\n"


def part_files(folder: Path, site: Site, labels: str, number: int) -> list[Path]:
    """Return the files of part `number`: both products, footprints, labels."""
    return [folder / f".{number:06d}.{name}" for name in _file_names(site, labels)]


def _file_names(site: Site, labels: str) -> list[str]:
    return [site.product(0).file_name, site.product(1).file_name, FOOTPRINTS, labels]


def join_parts(folder: Path, site: Site, labels: str, finished: Iterable[int]) -> int:
    """Write the files of a city from those of its parts, which are removed; return the
    number of its points.

    Args:
        folder: of the city. labels: name of the file of labels.
        finished: points of each part, in order; each is there when its part is written.
    """
    begin = [
        site.product(0).header,
        site.product(1).header,
        FOOTPRINTS_BEGIN.encode(),
        LABELS_HEADER.encode(),
    ]
    total = 0
    with ExitStack() as stack:
        streams = [
            stack.enter_context((folder / name).open("wb")) for name in _file_names(site, labels)
        ]
        for stream, text in zip(streams, begin, strict=True):
            stream.write(text)
        for number, points in enumerate(finished):
            total += points
            streams[2].write(BETWEEN_FEATURES.encode() if number else b"")
            for file, stream in zip(part_files(folder, site, labels, number), streams, strict=True):
                with file.open("rb") as source:
                    shutil.copyfileobj(source, stream, 2**20)
                file.unlink()
        streams[2].write(FOOTPRINTS_END.encode())
    return total


ROWS = 4096
"""Number of points of which histories are made at a time."""
REACH_OF_A_BUILDING_M = 60.0
NUMBERS_A_PART = 2**24
"""Number of identifiers that a part may use; they go up by 1 to 29 a point."""
MARGIN_M = 1000.0
"""Width of the margin beyond the city that keeps lines and pixels of points positive."""


def write_part(site: Site, number: int, files: list[Path]) -> int:
    """Simulate part `number` and write its files: of both tracks, of the footprints and of
    the labels.

    The files hold lines of the city's files, without a header.

    Returns:
        The number of points.
    """
    band = BANDS[site.band]
    plan_rng, layout_rng, motion_rng, points_rng, *track_rngs = generators(site.entropy, number)
    first = number * PART_BUILDINGS
    plan = draw_plan(plan_rng, min(PART_BUILDINGS, site.town.buildings - first))
    layout = draw_layout(layout_rng, plan, site.town, number * PART_DISTRICTS)
    tunnels = tunnels_near(list(site.tunnels), layout.frames.centre, REACH_OF_A_BUILDING_M)
    motion = draw_motion(motion_rng, layout, tunnels, site.damaged, site.mechanisms)
    if site.movement == TOWN:
        rigid = draw_rigid_of_town(motion_rng, len(layout.height), site.length_days / DAYS_A_YEAR)
        motion = replace(motion, rigid=rigid)
    axes = np.stack([range_and_azimuth(acquisition.heading_deg) for acquisition in site.tracks])
    points = draw_scatterers(points_rng, layout, band, axes[:, 0])
    axes = axes[points.track]
    rise = np.tan(np.radians([acquisition.incidence_deg for acquisition in site.tracks]))[
        points.track
    ]
    error = position_errors(
        points_rng, building=points.building, track=points.track, axes=axes, rise=rise, band=band
    )
    evidence = no_evidence(len(layout.height))
    for track, rng in enumerate(track_rngs):
        rows_of_track = np.flatnonzero(points.track == track)
        delivered = _deliver_points(
            rng,
            site,
            number=number,
            track=track,
            layout=layout,
            points=points.subset(rows_of_track),
            error=error[rows_of_track],
        )
        order = np.lexsort((delivered.pixel, delivered.line))  # as the service sorts, within a part
        visible, delivered = points.subset(rows_of_track[order]), delivered.take(order)
        delivered = replace(delivered, number=np.sort(delivered.number))
        memory = draw_memory(rng, len(layout.height))
        evidence = evidence.plus(
            _gather_evidence(
                site,
                track,
                visible,
                error=error[rows_of_track[order]],
                los=delivered.los,
                memory=memory,
            )
        )
        with files[track].open("wb") as stream:
            for rows, series in _draw_series(
                rng,
                site,
                track,
                layout=layout,
                motion=motion,
                points=visible,
                los=delivered.los,
                memory=memory,
            ):
                stream.write(egms_rows(rng, site.product(track), delivered.take(rows), series))

    identifiers = [f"{site.name}_{i:06d}" for i in range(first, first + len(layout.height))]
    polygon = shapely.transform(layout.polygon, lambda at: at + np.array(site.place))
    files[2].write_text(footprint_features(identifiers, polygon, layout.height), encoding="utf-8")
    files[3].write_text(label_rows(identifiers, motion, layout, evidence), encoding="utf-8")
    return len(points.building)


def _deliver_points(
    rng: np.random.Generator,
    site: Site,
    *,
    number: int,
    track: int,
    layout: CityLayout,
    points: SimulatedScatterers,
    error: Array,
) -> EgmsPoints:
    """Return the points as a product delivers them, with position errors `error` (N, 3):
    east, north, up."""
    acquisition, band = site.tracks[track], BANDS[site.band]
    east_north = points.east_north + error[:, :2]
    in_range, in_azimuth = range_and_azimuth(acquisition.heading_deg) @ east_north.T
    azimuth_m, slant_m = band.pixel_m
    offset_m = site.town.extent + MARGIN_M
    steps = np.cumsum(rng.integers(1, 30, len(east_north)))
    return EgmsPoints(
        # Two tracks share no identifier, nor do two parts.
        number=steps
        + number * NUMBERS_A_PART
        + (acquisition.track * 1000 + acquisition.burst) * 62**6,
        position=east_north + np.array(site.place),
        height=layout.ground[points.building] + points.height + error[:, 2],
        los=acquisition.los(east_north),
        incidence=acquisition.incidence(east_north),
        track_angle=np.full(len(east_north), acquisition.track_angle),
        line=np.floor((in_azimuth + offset_m) / azimuth_m),
        pixel=np.floor(
            (in_range + offset_m) * np.sin(np.deg2rad(acquisition.incidence_deg)) / slant_m
        ),
    )


def _draw_series(
    rng: np.random.Generator,
    site: Site,
    track: int,
    *,
    layout: CityLayout,
    motion: Motion,
    points: SimulatedScatterers,
    los: Array,
    memory: Array,
) -> Iterator[tuple[NDArray[np.intp], Array]]:
    """Yield histories of the points (rows, displacement in mm), `ROWS` at a time."""
    acquisition, reference, band = site.tracks[track], site.references[track], BANDS[site.band]
    course = courses(
        motion, np.arange(len(layout.height)), acquisition.days, site.start_day, site.length_days
    )
    common = common_noise(rng, len(layout.height), acquisition, reference)
    for start in range(0, len(los), ROWS):
        rows = np.arange(start, min(start + ROWS, len(los)))
        part, part_los = points.subset(rows), los[rows]
        displacement = true_motion(motion, layout, part, acquisition.los(part.east_north), course)
        displacement += background(
            *(rng, np.array(site.velocity), part, part_los),
            years=acquisition.days / DAYS_A_YEAR,
            reference=reference,
            astray_mm_year=ASTRAY_OF_TOWN_MM_YEAR if site.movement == TOWN else ASTRAY_MM_YEAR,
        )
        displacement += measurement_noise(
            rng,
            part,
            memory=memory,
            common=common,
            acquisition=acquisition,
            band=band,
            reference=reference,
        )
        yield rows, displacement


def _gather_evidence(
    site: Site, track: int, points: SimulatedScatterers, *, error: Array, los: Array, memory: Array
) -> PointEvidence:
    """Gather the evidence of a track's points for each building, with noise of memory
    `memory` (B,)."""
    is_on_building = points.kind == STRUCTURE
    building, epochs = points.building[is_on_building], int(site.tracks[track].kept.sum())
    variance = site.references[track].own.line_variance(memory, epochs)
    precision = point_precision(
        points.noise[is_on_building], los[is_on_building, 2], variance[building]
    )
    return gather_evidence(building, precision, error[is_on_building, :2], len(memory))
