"""One city of the eighth maker, drawn and written."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.makers.eighth.files import write_footprints, write_labels, write_truth
from benchmarks.makers.eighth.observe import observe
from benchmarks.makers.eighth.points import City, draw_counts
from benchmarks.makers.eighth.residuals import Borrowed
from benchmarks.makers.eighth.sensors import SENSORS, Sensor, draw_epochs
from benchmarks.makers.eighth.structures import draw_structures
from benchmarks.makers.eighth.town import draw_town
from benchmarks.makers.eighth.tunnels import draw_tunnels
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder

REAL = "sentinel_real"
FEWEST_EPOCHS, MOST_YEARS = 30, 100
"""Of a track, those epochs included that are missed."""
REVISIT_DAYS = (2, 365)


def make_city(
    out: Path,
    kind: str,
    buildings: int,
    seed: int,
    residuals: Sequence[Path] | None = None,
    revisit_days: int | None = None,
    years: float | None = None,
) -> None:
    """Write a city folder: two products, footprints, labels, and what nobody but a person looks at.

    Args:
        out: folder to write.
        kind: one of `SENSORS`.
        buildings: how many.
        seed: of everything drawn.
        residuals: EGMS L2b products, of an ascending and a descending track, whose residuals are the noise; for
            `sentinel_real`, and for no other.
        revisit_days: between epochs; None: the satellite's own.
        years: of observation; None: the satellite's own.

    Raises:
        InputError: one of these is out of its range, `residuals` is missing where it is needed or given where it is
            not, or is no pair of EGMS L2b products of one town.
    """
    sensor = _sensor(kind, residuals is not None, revisit_days, years)
    for name, value, least in (("--buildings", buildings, 1), ("--seed", seed, 0)):
        if value < least:
            raise InputError(f"{name}: {value} found, at least {least} is needed.")
    borrowed = Borrowed(residuals) if residuals else None
    generator = np.random.default_rng(seed)
    with atomic_folder(out) as folder:
        town = draw_town(generator, buildings)
        tunnels = draw_tunnels(generator, town.streets)
        structures = draw_structures(generator, town, tunnels)
        counts = draw_counts(generator, sensor, town)
        if borrowed:
            borrowed.settle(generator, buildings)
        # Drawn with residuals, too, which have days of their own: what is drawn next is the same.
        first = pd.Timestamp("2020-01-03") + pd.Timedelta(days=int(generator.integers(0, 300)))
        epochs = [track.epochs for track in borrowed.tracks] if borrowed else draw_epochs(generator, sensor, first)
        city = City(town, structures, tunnels, min(days[0] for days in epochs), max(days[-1] for days in epochs))
        for number, (track, days) in enumerate(zip(sensor.tracks, epochs, strict=True)):
            product = observe(generator, sensor, number, days, city, counts[:, number], borrowed)
            product.to_csv(folder / f"EGMS_L2b_{track.name}.csv", index=False)
            print(f"track {track.name}: {len(product)} points, {len(days)} epochs", file=sys.stderr, flush=True)
        write_footprints(folder / "footprints.geojson", town)
        write_labels(folder / "labels.csv", structures)
        write_truth(folder / "truth.csv", town, structures, counts)


def _sensor(kind: str, real: bool, revisit_days: int | None, years: float | None) -> Sensor:
    """The satellite, with what was asked for instead of its own."""
    if real != (kind == REAL):
        raise InputError(f"--residuals: two EGMS L2b products are needed with --kind {REAL}, and with no other kind.")
    for name, asked in (("--revisit-days", revisit_days), ("--years", years)):
        if real and asked is not None:
            raise InputError(f"{name}: {asked} found, but {kind} has the days of its --residuals. Leave it out.")
    own = SENSORS[kind]
    if revisit_days is None:
        revisit_days = own.revisit_days
    shortest, longest = REVISIT_DAYS
    if not shortest <= revisit_days <= longest:
        raise InputError(f"--revisit-days: {revisit_days} found, {shortest} to {longest} needed.")
    sensor = replace(own, revisit_days=revisit_days, years=own.years if years is None else years)
    fewest = FEWEST_EPOCHS * revisit_days / 365.25
    if not fewest <= sensor.years <= MOST_YEARS:
        raise InputError(
            f"--years: {sensor.years:g} found, {fewest:.1f} to {MOST_YEARS} needed for {FEWEST_EPOCHS} epochs or more "
            f"with --revisit-days {revisit_days}."
        )
    return sensor
