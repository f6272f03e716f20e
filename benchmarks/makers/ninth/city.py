"""Draw one city of the ninth maker, and write it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
from pyproj import Transformer

from benchmarks.makers.ninth.failures import NONE
from benchmarks.makers.ninth.line import draw_line
from benchmarks.makers.ninth.observe import draw_tracks, observe
from benchmarks.makers.ninth.scatterers import draw_counts
from benchmarks.makers.ninth.settings import BANDS, CRS, FIRST_DAY
from benchmarks.makers.ninth.structure import Structure, draw_structures
from benchmarks.makers.ninth.town import draw_town
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder

SOUND = 0.2


def make_city(
    out: Path,
    band: str,
    buildings: int,
    seed: int,
    sound: float = SOUND,
    courses: str = "any",
    years: float | None = None,
    along_line: float | None = None,
) -> None:
    """Write a city folder: two products, footprints and labels; `line.geojson` where failures gather along one.

    Args:
        out: folder to write.
        band: one of `BANDS`.
        buildings: how many.
        seed: of everything drawn.
        sound: share of buildings in which nothing fails.
        courses: of the failures in time, one of `series.COURSES`.
        years: of the record; None: drawn for the band.
        along_line: share of the failures in the band along a line; None: they are anywhere.

    Raises:
        InputError: a number is out of its range.
    """
    for name, value, least in (("--buildings", buildings, 1), ("--seed", seed, 0)):
        if value < least:
            raise InputError(f"{name}: {value} found, at least {least} is needed.")
    for name, share in (("--sound", sound), ("--along-line", along_line)):
        if share is not None and not 0 <= share <= 1:
            raise InputError(f"{name}: {share:g} found, 0 to 1 is needed.")
    layout, moving, seeing, *own, across = np.random.SeedSequence(seed).spawn(6)
    generator = np.random.default_rng(seeing)
    with atomic_folder(out) as folder:
        town = draw_town(np.random.default_rng(layout), buildings)
        line = None if along_line is None else draw_line(np.random.default_rng(across), town, along_line)
        structures = draw_structures(moving, town, sound, courses, line)
        tracks = draw_tracks(generator, BANDS[band], years)
        counts = draw_counts(generator, BANDS[band], structures)
        period = min(int(track.days[0]) for track in tracks), max(int(track.days[-1]) for track in tracks)
        for number, (track, part) in enumerate(zip(tracks, own, strict=True)):
            drawn = np.random.default_rng(part)
            product = observe(drawn, BANDS[band], structures, counts[:, number], track, period)
            product.to_csv(folder / f"EGMS_L2b_{track.name}.csv", index=False)
        write_footprints(folder / "footprints.geojson", structures)
        write_labels(folder / "labels.csv", structures, period)
        if line is not None:
            line.write(folder / "line.geojson")


def write_footprints(path: Path, structures: list[Structure]) -> None:
    """Write GeoJSON in the coordinates of its standard."""
    to_geographic = Transformer.from_crs(CRS, 4326, always_xy=True)
    features = []
    for name, structure in zip(names_of(structures), structures, strict=True):
        building = structure.building
        corners = np.column_stack(to_geographic.transform(*building.on_map(building.outline()).T))
        geometry = {"type": "Polygon", "coordinates": [corners.round(9).tolist()]}
        properties = {"building_id": name, "height_m": round(building.height, 1)}
        features.append({"type": "Feature", "properties": properties, "geometry": geometry})
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}), encoding="utf-8")


def write_labels(path: Path, structures: list[Structure], period: tuple[int, int]) -> None:
    """Write what is true of each building; below category 1 no quadrant is.

    `begins`: day on which the first of its failures begins; none of a sound one. `settlement_mm`: mean vertical
    movement of the footprint. `tilt_mm_m`, `tilt_towards`: slope of its plane, and compass degrees of the side that
    sinks.
    """
    planes = 1e3 * np.array([one.plane for one in structures])
    middle = np.array([one.building.centroid for one in structures])
    east, north = np.einsum("bi,bij->jb", planes[:, 1:], np.array([one.building.axes for one in structures]))
    first = [min([course.begins for course in one.courses[: len(one.parts)]], default=np.nan) for one in structures]
    days = pd.to_timedelta(period[0] + np.array(first) * (period[1] - period[0]), unit="D")
    columns = {
        "building_id": names_of(structures),
        "severity_permille": [one.label.severity for one in structures],
        "quadrant": [one.label.quadrant for one in structures],
        "accepted": ["|".join(one.label.accepted) for one in structures],
        "mechanism": [one.mechanism for one in structures],
        "parts": ["|".join(one.parts) or NONE for one in structures],
        "begins": (pd.Timestamp(FIRST_DAY) + days).strftime("%Y-%m-%d"),
        "settlement_mm": (planes[:, 0] + (planes[:, 1:] * middle).sum(1)).round(3),
        "tilt_mm_m": np.hypot(east, north).round(4),
        "tilt_towards": (np.degrees(np.arctan2(-east, -north)) % 360).round(2),
    }
    pd.DataFrame(columns).to_csv(path, index=False)


def names_of(structures: list[Structure]) -> list[str]:
    """Return identifiers of buildings."""
    return [f"n{number:05d}" for number in range(len(structures))]
