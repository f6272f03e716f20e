"""One held-out city, drawn and written."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.heldout.courses import draw_courses
from benchmarks.heldout.files import write_footprints, write_labels, write_product, write_truth
from benchmarks.heldout.noise import invented
from benchmarks.heldout.observe import Moving, draw_counts, draw_positions, observe
from benchmarks.heldout.residuals import Residuals
from benchmarks.heldout.sensors import SENSORS, Sensor, draw_views
from benchmarks.heldout.structure import PARTS, draw_structures
from benchmarks.heldout.town import GEOGRAPHIC, PROJECTED, build_town
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder

REAL = "sentinel_real"


def make_city(
    out: Path, kind: str, buildings: int, seed: int, residuals: Path | None = None, neighbours: int = 1
) -> None:
    """Write a city folder: one product a track, footprints, labels, and what nobody but a person looks at.

    Args:
        out: folder to write.
        kind: one of `SENSORS`.
        buildings: how many.
        seed: of everything drawn.
        residuals: EGMS L2b product whose residuals are the noise; for `sentinel_real`, and for no other.
        neighbours: see `Residuals`.

    Raises:
        InputError: `residuals` is missing where it is needed, given where it is not, or no EGMS L2b product; it has
            fewer than `neighbours` series, or there is none for them.
    """
    if (residuals is not None) != (kind == REAL):
        raise InputError(f"--residuals: an EGMS L2b product is needed with --kind {REAL}, and with no other kind.")
    if residuals is None and neighbours != 1:
        raise InputError(f"--neighbours: {neighbours} found, without --residuals, whose series it is about.")
    sensor: Sensor = SENSORS[kind]
    generator = np.random.default_rng([seed, list(SENSORS).index(kind)])
    borrowed = Residuals(residuals, neighbours) if residuals is not None else None
    town = build_town(generator, buildings, PROJECTED if seed % 2 else GEOGRAPHIC)
    structures, labels = draw_structures(generator, town)
    views, length = draw_views(generator, sensor)
    first = date(2018, 1, 1) + timedelta(days=int(generator.integers(730)))
    drawn = [draw_courses(generator, buildings) for _ in range(PARTS)]
    moving = Moving(
        town,
        structures,
        np.stack([kind for kind, _ in drawn], 1),
        np.stack([shape for _, shape in drawn], 1),
        length,
        first.timetuple().tm_yday,
    )
    # The label is of the last day that any track sees.
    moving = replace(moving, length=int(max(view.days[-1] for view in views)))
    counts = draw_counts(generator, sensor, town, len(views))
    position = draw_positions(generator, sensor, buildings)
    noise = partial(borrowed.borrow, generator) if borrowed else partial(invented, generator, sensor)
    with atomic_folder(out) as folder:
        for number, view in enumerate(views):
            product = observe(generator, sensor, view, moving, counts[:, number], noise, position)
            write_product(folder / f"EGMS_L2b_{view.name}_IW2_VV.csv", product, first, sensor)
        write_footprints(folder / "footprints.geojson", town)
        write_labels(folder / "labels.csv", labels)
        write_truth(folder / "truth.csv", town, structures, counts, position)
