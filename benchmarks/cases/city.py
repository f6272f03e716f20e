"""Set published surfaces into a simulated city, and see it by radar: scatterers, noise and neighbours are simulated.

A copy of each building stands in the place of a drawn building that is at least as large, turned as that one. All else
is drawn as for training: the heat of the building, the noise, wrong positions, and what its neighbours do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import geopandas
import numpy as np
import shapely
from numpy.typing import NDArray

from benchmarks.cases.surfaces import Surface, Up
from plumbline.core.compass import frames
from plumbline.params import City, Simulate
from plumbline.simulate.city import ROWS, draw_site
from plumbline.simulate.radar.acquisition import BANDS, range_and_azimuth
from plumbline.simulate.radar.noise import draw_memory
from plumbline.simulate.radar.scatterers import SimulatedScatterers, draw_scatterers, position_errors
from plumbline.simulate.radar.series import background, common_noise, courses, measurement_noise, true_motion
from plumbline.simulate.random_numbers import generators
from plumbline.simulate.site import Site
from plumbline.simulate.structure.failures import LocalFailures
from plumbline.simulate.structure.layout import CityLayout, draw_layout, draw_plan, standing_corners
from plumbline.simulate.structure.motion import LINEAR, ONSET, Histories, Motion, draw_motion
from plumbline.simulate.structure.tunnels import Tunnel
from plumbline.sources.city.in_memory import CityInMemory
from plumbline.sources.points.epochs import DAYS_A_YEAR
from plumbline.sources.points.formats.egms import CRS
from plumbline.sources.points.track import Track, numbered

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Band = Literal["X", "C"]
YEARS = {"X": 3.0, "C": 5.0}
"""Length of the record: within those of the training."""
LEAST_BUILDINGS, BUILDINGS_A_COPY = 300, 5.0
NEIGHBOURS_DAMAGED = 0.02
NOBODY = -1
FAR = Tunnel(point=(0.0, 1e6), direction=0.0, depth=15.0, diameter=6.0, volume_loss=0.01, k=0.4)
"""The only tunnel of the city: it reaches no building, since a published surface has its trough already."""


class Subject(NamedTuple):
    """A building to be put into the city."""

    surface: Surface
    copies: int
    over_tunnel: bool = False
    """Whether it moves as a tunnel passes; else evenly over the record."""


class Built(NamedTuple):
    """A city of F buildings."""

    city: CityInMemory
    subject: Index
    """(F,) which subject stands there, or `NOBODY`: a neighbour."""


@dataclass(frozen=True)
class Published(LocalFailures):
    """Failures as drawn, but the published surface, less its plane, where a subject stands."""

    bent: Sequence[Up]
    subject: Index

    def field(self, index: Index, x: Array, y: Array) -> tuple[Array, Array, Array]:
        """Return displacement (vertical, along x and y), mm, at building-frame positions, m, of buildings `index`."""
        up, along_x, along_y = super().field(index, x, y)
        own = self.subject[index]
        for number in np.unique(own[own != NOBODY]):
            at = own == number
            up[at], along_x[at], along_y[at] = self.bent[number](x[at], y[at]), 0.0, 0.0
        return up, along_x, along_y


def build_city(band: Band, subjects: Sequence[Subject], seed: int) -> Built:
    """Simulate a city with all copies of the subjects, and its points in two tracks.

    Args:
        band: of the satellite.
        subjects: K buildings.
        seed: of all draws.
    """
    count = max(LEAST_BUILDINGS, round(BUILDINGS_A_COPY * sum(one.copies for one in subjects)))
    about = City(band=band, buildings=count, seed=seed)
    params = Simulate(cities={"known": about}, showcase=about, years=YEARS[band], damaged=NEIGHBOURS_DAMAGED)
    of_plan, of_layout, of_motion, of_points, *of_tracks = generators((seed, *band.encode()), 0)
    plan = draw_plan(of_plan, count)
    site = replace(draw_site("known", about, 0, plan.radius, params), tunnels=(FAR,))
    layout, subject = _settle(draw_layout(of_layout, plan, site.town), subjects)
    motion = _move(of_motion, layout, subject, subjects, params)
    axes = np.stack([range_and_azimuth(acquisition.heading_deg) for acquisition in site.tracks])
    points = draw_scatterers(of_points, layout, BANDS[band], axes[:, 0])
    rise = np.tan(np.radians([acquisition.incidence_deg for acquisition in site.tracks]))[points.track]
    error = position_errors(
        of_points, building=points.building, track=points.track, axes=axes[points.track], rise=rise, band=BANDS[band]
    )
    tracks = []
    for number, rng in enumerate(of_tracks):
        own = np.flatnonzero(points.track == number)
        tracks.append(_see(rng, site, number, layout, motion, points.subset(own), error[own]))
    polygon = shapely.transform(layout.polygon, lambda at: at + np.array(site.place))
    names = [f"known_{row:06d}" for row in range(count)]
    footprints = geopandas.GeoDataFrame({"building_id": names}, geometry=polygon, crs=CRS)
    return Built(CityInMemory(tracks, footprints), subject)


def _settle(layout: CityLayout, subjects: Sequence[Subject]) -> tuple[CityLayout, Index]:
    """Put the longest subjects first into the smallest drawn buildings that hold them."""
    polygon, height = layout.polygon.copy(), layout.height.copy()
    subject = np.full(len(polygon), NOBODY, np.intp)
    side, area = layout.frames.side, layout.frames.side.prod(axis=1)
    sizes = [np.array(one.surface.outline.bounds[2:]) - one.surface.outline.bounds[:2] for one in subjects]
    for number in sorted(range(len(subjects)), key=lambda number: -float(sizes[number].max())):
        room = np.flatnonzero((subject == NOBODY) & (side >= sizes[number]).all(axis=1))
        places = room[np.argsort(area[room], kind="stable")][: subjects[number].copies]
        if len(places) < subjects[number].copies:
            raise ValueError(f"no room for subject {number}: raise BUILDINGS_A_COPY")
        subject[places], height[places] = number, subjects[number].surface.height_m
        for place in places:
            polygon[place] = _turned(subjects[number].surface.outline, layout, int(place))
    frame = frames(polygon)
    return replace(
        layout, polygon=polygon, height=height, frames=frame, standing=standing_corners(polygon, frame)
    ), subject


def _turned(outline: shapely.Polygon, layout: CityLayout, place: int) -> shapely.Polygon:
    cos, sin = np.cos(layout.frames.angle[place]), np.sin(layout.frames.angle[place])
    turn = np.array([[cos, sin], [-sin, cos]])
    return shapely.transform(outline, lambda at: at @ turn + layout.frames.centre[place])


def _move(
    rng: np.random.Generator, layout: CityLayout, subject: Index, subjects: Sequence[Subject], params: Simulate
) -> Motion:
    """Draw the motion of all; subjects move by their surface: its plane as a rigid body, which shifts high points."""
    motion = draw_motion(rng, layout, [FAR], params.damaged, params.mechanisms)
    here = subject != NOBODY
    tilts = np.array([one.surface.tilt() for one in subjects])
    bent = [one.surface.upright().up for one in subjects]
    rigid = replace(
        motion.rigid,
        settlement=np.where(here, 0.0, motion.rigid.settlement),
        tilt=np.where(here[:, None], tilts[subject], motion.rigid.tilt),
    )
    passes = np.array([subjects[number].over_tunnel for number in subject])
    begin, lasts = rng.uniform(0.05, 0.6, len(subject)), rng.uniform(0.1, 0.3, len(subject))
    given = Histories(np.where(passes, ONSET, LINEAR), begin, begin + lasts, np.ones((len(subject), 2)))
    drawn = vars(motion.local)
    return replace(
        motion,
        local=Published(**drawn, bent=bent, subject=subject),
        rigid=rigid,
        failing=given.where(here, motion.failing),
        sinking=given.where(here, motion.sinking),
    )


def _see(
    rng: np.random.Generator,
    site: Site,
    number: int,
    layout: CityLayout,
    motion: Motion,
    points: SimulatedScatterers,
    error: Array,
) -> Track:
    """Return what track `number` delivers of its points (N,), which are `error` (N, 3) beside their places."""
    a, reference, product = site.tracks[number], site.references[number], site.product(number)
    band, every = BANDS[site.band], np.arange(len(layout.height))
    at = points.east_north + error[:, :2]
    los, memory = a.los(at), draw_memory(rng, len(every))
    course = courses(motion, every, a.days, site.start_day, site.length_days)
    common = common_noise(rng, len(every), a, reference)
    series = np.empty((len(at), len(a.days)), np.float32)
    for start in range(0, len(at), ROWS):
        rows = np.arange(start, min(start + ROWS, len(at)))
        part = points.subset(rows)
        moved = true_motion(motion, layout, part, a.los(part.east_north), course)
        years = a.days / DAYS_A_YEAR
        moved += background(rng, np.array(site.velocity), part, los[rows], years=years, reference=reference)
        noise = measurement_noise(
            rng, part, memory=memory, common=common, acquisition=a, band=band, reference=reference
        )
        series[rows] = moved + noise
    height = layout.ground[points.building] + points.height + error[:, 2]
    east, north = (at + np.array(site.place)).T
    # Two tracks share no identifier.
    names = numbered(1 + number * len(points.track) * 10, len(at))
    return Track(product.file_name[:-4], CRS, product.dates, names, east, north, height, los, series)
