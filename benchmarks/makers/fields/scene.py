"""Draw one scene, and write its products and its truth."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.random import Generator
from pyproj import Transformer

from benchmarks.makers.fields.movements import Movement, draw_movements, total
from benchmarks.makers.fields.noise import draw_gaps, draw_noise, draw_patches, draw_screens, draw_season
from benchmarks.makers.fields.satellites import NAMES, Orbit, Scatterers, draw_density, draw_orbits, draw_scatterers
from benchmarks.makers.fields.settings import (
    CELL_M,
    CELLS,
    CRS,
    DOMAINS,
    FIRST_DAY,
    ORIGIN,
    SIDE_M,
    WAVELENGTH_MM,
    Array,
    Domain,
    cell_centres,
)
from benchmarks.makers.fields.town import Town, draw_town
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder

OFFSET_MM = 4.0
"""Most that a track's level is off. Its reference does not move: a product cannot show whether it does."""
GROUND_M = 45.0
TRUTH, ABOUT = "truth.npz", "scene.json"


def make_scene(out: Path, domain: str, seed: int, tracks: int = 2) -> dict[str, Any]:
    """Write a scene folder, and return what `scene.json` says.

    Args:
        out: folder to write.
        domain: one of `DOMAINS`.
        seed: of everything drawn. Scenes of one seed have the same town and movements in every domain.
        tracks: 1 to 3.

    Raises:
        InputError: a number is out of its range.
    """
    if not 1 <= tracks <= len(NAMES):
        raise InputError(f"--tracks: {tracks} found, 1 to {len(NAMES)} is needed.")
    if seed < 0:
        raise InputError(f"--seed: {seed} found, at least 0 is needed.")
    _, _, seeing, *own = _parts(seed)
    town, movements = draw_ground(seed)
    generator = np.random.default_rng(seeing)
    orbits = draw_orbits(generator, tracks)
    density = draw_density(generator, DOMAINS[domain])
    period = min(int(orbit.days[0]) for orbit in orbits), max(int(orbit.days[-1]) for orbit in orbits)
    truth = total(movements, cell_centres())
    about: dict[str, Any] = {
        "domain": domain,
        "seed": seed,
        "crs": f"EPSG:{CRS}",
        "first_day": _date(period[0]),
        "last_day": _date(period[1]),
        "movements": [{"kind": one.kind, "course": one.course._asdict(), **_plain(one.about)} for one in movements],
        "tracks": [],
    }
    with atomic_folder(out) as folder:
        for orbit, part in zip(orbits, own, strict=False):
            drawn = np.random.default_rng(part)
            seen = draw_scatterers(drawn, town, orbit, density)
            table, patches = observe(drawn, DOMAINS[domain], movements, seen, orbit, period)
            name = f"EGMS_L2b_{orbit.name}_IW2_VV.csv"
            table.to_csv(folder / name, index=False)
            about["tracks"].append(
                {"file": name, "points": len(table), "epochs": len(orbit.days), "patches": _plain(patches)}
            )
        np.savez_compressed(
            folder / TRUTH,
            up_mm=truth[:, 2].reshape(CELLS, CELLS).astype(np.float32),
            east_mm=truth[:, 0].reshape(CELLS, CELLS).astype(np.float32),
            left=ORIGIN[0],
            top=ORIGIN[1] + SIDE_M,
            cell_m=CELL_M,
        )
        (folder / ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    return about


def draw_ground(seed: int) -> tuple[Town, list[Movement]]:
    """Draw the town of a scene, and what moves there."""
    layout, moving, *_ = _parts(seed)
    town = draw_town(np.random.default_rng(layout))
    return town, draw_movements(np.random.default_rng(moving), town)


def _parts(seed: int) -> list[np.random.SeedSequence]:
    return np.random.SeedSequence(seed).spawn(3 + len(NAMES))


def observe(
    generator: Generator,
    domain: Domain,
    movements: Sequence[Movement],
    seen: Scatterers,
    orbit: Orbit,
    period: tuple[int, int],
) -> tuple[pd.DataFrame, list[dict[str, object]]]:
    """Return the product of one track with the columns of an EGMS L2b file, and its wrongly unwrapped patches.

    Args:
        generator: of everything drawn.
        domain: how the scene is degraded.
        movements: what moves.
        seen: the track's scatterers.
        orbit: the track.
        period: first and last day of all tracks, on which courses begin and end.
    """
    points, epochs = len(seen.place), len(orbit.days)
    share = (orbit.days - period[0]) / (period[1] - period[0])
    dates = pd.Timestamp(FIRST_DAY) + pd.to_timedelta(orbit.days, unit="D")
    series, size = draw_noise(generator, domain, points, orbit.days)
    for one in movements:
        series += np.outer(one.form(seen.place) @ orbit.los, one.course.at(share))
    series += draw_season(generator, seen.height, dates.day_of_year.to_numpy(float))
    series += draw_screens(generator, domain, orbit.days, seen.place)
    jumps, patches = draw_patches(generator, domain, epochs, seen.place)
    series += jumps
    series += generator.uniform(-OFFSET_MM, OFFSET_MM)
    series[draw_gaps(generator, points, epochs)] = np.nan
    table = pd.DataFrame(_columns(generator, seen, orbit, size))
    return table.join(pd.DataFrame(series.round(1), columns=dates.strftime("%Y%m%d"))), patches


def _columns(generator: Generator, seen: Scatterers, orbit: Orbit, size: Array) -> dict[str, Any]:
    place = seen.reported + ORIGIN
    longitude, latitude = Transformer.from_crs(CRS, 4326, always_xy=True).transform(*place.T)
    phase = 4 * np.pi / WAVELENGTH_MM * size
    coherence = np.exp(-(phase**2) / 2) + generator.normal(0, 0.03, len(size))
    los = dict(zip(("los_east", "los_north", "los_up"), orbit.los.round(4).tolist(), strict=True))
    return {
        "pid": [f"{orbit.name}{number:07d}" for number in range(len(size))],
        "mp_type": 0,
        "latitude": np.round(latitude, 6),
        "longitude": np.round(longitude, 6),
        "easting": place[:, 0].round(2),
        "northing": place[:, 1].round(2),
        "height_ortho": (GROUND_M + seen.height).round(1),
        "rmse_ts": size.round(1),
        "temporal_coherence": np.clip(coherence, 0.2, 0.99).round(2),
        "incidence_angle": orbit.incidence_deg,
        "track_angle": orbit.heading_deg,
        **los,
    }


def _date(day: int) -> str:
    return str((pd.Timestamp(FIRST_DAY) + pd.Timedelta(days=day)).date())


def _plain(value: Any) -> Any:
    """Round numbers for json."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return round(float(value), 4) if isinstance(value, (float, np.floating)) else value
