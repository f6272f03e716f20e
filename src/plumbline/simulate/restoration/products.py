"""Write a scene as products, and its truth: EGMS L2b csv files and `truth.npz`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plumbline.core.files import atomic_folder, write_json
from plumbline.simulate.radar.acquisition import BANDS, range_and_azimuth
from plumbline.simulate.radar.egms_writer import EgmsPoints, EgmsProduct, egms_rows
from plumbline.simulate.restoration.scene import BAND, Scene, SceneTrack
from plumbline.sources.restoration.truth import TRUTH

Array = NDArray[np.float64]
ABOUT = "scene.json"
PLACE = (4321000.0, 3210000.0)
"""Of the scene's centre in EPSG:3035, m; nobody's real ground."""


def write_scene(scene: Scene, out: Path) -> None:
    """Write the csv files of the tracks, `truth.npz` and `scene.json` into the folder `out`."""
    about = scene.about
    with atomic_folder(out) as folder:
        for number, track in enumerate(scene.tracks):
            _write_track(track, number, about.seed, folder)
        row = (np.arange(about.cells) + 0.5) * about.cell_m - about.extent / 2
        east, north = np.meshgrid(row, row[::-1])
        moved = scene.ground.total(np.column_stack([east.ravel(), north.ravel()])).reshape(about.cells, about.cells, 3)
        left, top = PLACE[0] - about.extent / 2, PLACE[1] + about.extent / 2
        np.savez_compressed(
            folder / TRUTH,
            up_mm=moved[..., 2].astype(np.float32),
            east_mm=moved[..., 0].astype(np.float32),
            left=left,
            top=top,
            cell_m=about.cell_m,
        )
        write_json(
            folder / ABOUT, {**vars(about), "degradation": vars(scene.degradation) if scene.degradation else None}
        )


def _write_track(track: SceneTrack, number: int, seed: int, folder: Path) -> None:
    years = track.dates[[0, -1]].astype("datetime64[Y]").astype(str)
    name = f"EGMS_L2b_{number + 1:03d}_{100 + number:04d}_IW2_VV_{years[0]}_{years[1]}_1.csv"
    product = EgmsProduct(name, track.dates, BANDS[BAND].wavelength_mm)
    count = len(track.east_north)
    in_range, in_azimuth = range_and_azimuth(track.heading_deg) @ (track.east_north + 1e4).T
    azimuth_m, slant_m = BANDS[BAND].pixel_m
    points = EgmsPoints(
        number=np.arange(count, dtype=np.int64) + 1 + (number + 1) * 62**6,
        position=track.east_north + np.array(PLACE),
        height=track.height,
        los=track.los,
        incidence=track.incidence_deg,
        track_angle=np.full(count, track.heading_deg),
        line=np.floor(np.abs(in_azimuth) / azimuth_m),
        pixel=np.floor(np.abs(in_range) / slant_m),
    )
    rng = np.random.default_rng([seed, number])
    (folder / name).write_bytes(product.header + egms_rows(rng, product, points, track.displacement))
