"""Small product files in the real formats, for the tests of the readers."""

import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import geopandas
import numpy as np
import shapely
from hypothesis import settings

from plumbline.core.errors import InputError
from plumbline.sources.points.track import Track

EPOCHS = ("20200103", "20200109", "20200121", "20200202")
EAST, NORTH = 4_598_000.0, 1_739_000.0


def column_names(text: str) -> list[str]:
    """Names that stand in a text with blanks between them."""
    return text.split()


NEWER = column_names("""
    pid mp_type latitude longitude easting northing height_ortho height_ellipse line pixel rmse_ts
    temporal_coherence amplitude_dispersion incidence_angle track_angle los_east los_north los_up mean_velocity
    mean_velocity_std acceleration acceleration_std seasonality seasonality_std gnss_velocity
""")
RENAMED = {"height_ortho": "height", "height_ellipse": "height_wgs84", "rmse_ts": "rmse"}
OLDER_L2A = ["pid", "cluster_label", *(RENAMED.get(name, name) for name in NEWER[1:-1])]
L3 = column_names("""
    pid easting northing height_ortho rmse_ts mean_velocity mean_velocity_std acceleration acceleration_std
    seasonality seasonality_std gnss_velocity_n gnss_velocity_e gnss_velocity_u
""")

SIDE_M, PITCH_M = 12.0, 31.0

Result = TypeVar("Result")
FEWER = settings(max_examples=settings().max_examples // 3)
"""Of a test each of whose examples writes and reads a file of geodata."""


def unless_refused(read: Callable[[], Result], path: Path) -> Result | None:
    """What `read` gives, or None where it refuses `path` by name. Any other exception gets through."""
    try:
        return read()
    except InputError as error:
        if str(path) not in str(error):
            raise
        return None


def rows(count: int = 6, header: list[str] = NEWER, epochs: tuple[str, ...] = EPOCHS) -> list[dict[str, str]]:
    """Cells of `count` points, 10 m apart, rising to the north-east."""
    values = dict.fromkeys(header, "0.5")
    values |= {"los_east": "0.594", "los_north": "-0.12", "los_up": "0.795", "incidence_angle": "37.31"}
    return [
        {
            **values,
            "pid": f"1aX{number:03d}",
            "easting": f"{EAST + 10 * number:.2f}",
            "northing": f"{NORTH + 10 * number:.2f}",
            "temporal_coherence": f"{0.5 + 0.05 * number:.2f}",
            next(name for name in header if name.startswith("height")): f"{number}.5",
            **{day: f"{(-1) ** index * (number + index / 10):.1f}" for index, day in enumerate(epochs)},
        }
        for number in range(count)
    ]


def text(cells: list[dict[str, str]], columns: list[str] | None = None) -> str:
    """The csv of some rows, `columns` in this order."""
    columns = columns or list(cells[0])
    lines = [",".join(columns), *(",".join(row[name] for name in columns) for row in cells)]
    return "\n".join(lines) + "\n"


def egms(path: Path, count: int = 6) -> Path:
    """An EGMS L2b product of the newer header generation."""
    path.write_text(text(rows(count)), encoding="utf-8")
    return path


def zipped(path: Path, members: dict[str, str | bytes]) -> Path:
    """A zip with these members."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def squares(count: int = 3, side: float = 8.0) -> geopandas.GeoDataFrame:
    """Square footprints about the first points of `rows`, in EPSG:3035."""
    corner = np.arange(count) * 10.0 - side / 2
    boxes = shapely.box(EAST + corner, NORTH + corner, EAST + corner + side, NORTH + corner + side)
    ids = [f"H{number}" for number in range(count)]
    return geopandas.GeoDataFrame({"building_id": ids}, geometry=boxes, crs="EPSG:3035")


def track(count: int = 4, name: str = "a", crs: str = "EPSG:3035") -> Track:
    """A track like one read from `egms`."""
    steps = np.arange(count)
    return Track(
        name=name,
        crs=crs,
        epochs=np.array(["2020-01-03", "2020-01-09"], "datetime64[D]"),
        point_id=np.array([f"p{step}" for step in steps], object),
        easting=EAST + 10.0 * steps,
        northing=NORTH + 10.0 * steps,
        height=1.0 * steps,
        los=np.tile([0.6, 0.0, 0.8], (count, 1)),
        displacement=np.stack([steps, -steps], axis=1).astype(np.float32),
    )


def town(seed=0, houses=12):
    """Houses of several sizes, each on a plot of its own."""
    rng = np.random.default_rng(seed)
    corner = np.stack(np.meshgrid(np.arange(houses), np.arange(houses)), -1).reshape(-1, 2) * PITCH_M
    corner = corner + rng.uniform(0, 8, corner.shape) + np.array([EAST, NORTH])
    size = SIDE_M * rng.uniform(0.7, 1.3, corner.shape)
    shapes = shapely.box(*corner.T, *(corner + size).T)
    frame = geopandas.GeoDataFrame({"building_id": np.arange(len(shapes)).astype(str)}, geometry=shapes)
    return frame.set_crs("EPSG:3035"), corner, size


def seen(corner, size, look_east, each=12, error_m=1.0, wall=0.0, moved=(0.0, 0.0), seed=1):
    """Points on the houses; a share `wall` of them on the side that faces the satellite, and a fifth anywhere."""
    rng = np.random.default_rng(seed)
    place = np.repeat(corner, each, 0) + rng.uniform(0, 1, (len(corner) * each, 2)) * np.repeat(size, each, 0)
    facing = np.repeat(corner[:, 0] + (size[:, 0] if look_east > 0 else 0), each)
    place[:, 0] = np.where(rng.random(len(place)) < wall, facing, place[:, 0])
    anywhere = rng.random(len(place)) < 0.2
    place[anywhere] = rng.uniform(place.min(0), place.max(0), (anywhere.sum(), 2))
    place += rng.normal(0, error_m, place.shape) + np.array(moved)
    points = track(len(place))
    los = np.tile([0.6 * look_east, -0.1, 0.79], (len(place), 1))
    return replace(points, easting=place[:, 0], northing=place[:, 1], los=los)
