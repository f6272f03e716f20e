"""One city of the seventh maker, drawn and written."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from benchmarks.makers.products import DIRECTIONS
from benchmarks.makers.seventh.files import write_footprints, write_labels, write_product, write_truth
from benchmarks.makers.seventh.observe import Period, observe
from benchmarks.makers.seventh.scatterers import draw_owners, draw_scatterers
from benchmarks.makers.seventh.settings import KINDS
from benchmarks.makers.seventh.structure import CAUSES
from benchmarks.makers.seventh.town import draw_town
from benchmarks.makers.seventh.tracks import draw_tracks, read_track
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder, check_place

LETTERS = "AD"
"""Of an ascending and a descending track."""


def make_city(out: Path, kind_name: str, buildings: int, seed: int, residuals: list[Path] | None = None) -> None:
    """Write a city folder: one product a track, footprints, labels, and what nobody but a person looks at.

    Args:
        out: folder to write; identifiers begin with its name.
        kind_name: one of `KINDS`.
        buildings: how many, at least two.
        seed: of everything drawn, from 0.
        residuals: an ascending and a descending EGMS L2b product whose epochs and residuals are the city's; for
            `sentinel_real`, and for no other.

    Raises:
        InputError: a number is too small, or `residuals` are missing where they are needed, given where they are not,
            or no EGMS L2b products.
    """
    for option, value, least in (("--buildings", buildings, 2), ("--seed", seed, 0)):
        if value < least:
            raise InputError(f"{option}: {value} found, at least {least} is needed.")
    kind, city = KINDS[kind_name], out.name
    if (residuals is None) != (kind.invented is not None):
        raise InputError(
            f"--residuals: {'none' if residuals is None else len(residuals)} found with --kind {kind_name}. Give an "
            "ascending and a descending EGMS L2b product with --kind sentinel_real, and none with others."
        )
    # Looked at before anything is drawn, which takes long.
    check_place(out)
    tracks = [read_track(*pair) for pair in zip(residuals or [], DIRECTIONS, strict=bool(residuals))]
    generator = np.random.default_rng(seed)
    town = draw_town(generator, kind, buildings)
    _tell(f"{city}: {buildings} houses drawn")
    owner, track = draw_owners(generator, kind, town.structures)
    tracks = tracks or draw_tracks(generator, kind)
    first, last = min(one.dates[0] for one in tracks), max(one.dates[-1] for one in tracks)
    period = Period(first, last, generator.integers(0, 2**31, (buildings, CAUSES)))
    scatterers = draw_scatterers(generator, town, owner, track, tracks)
    _tell(f"{city}: {len(owner)} scatterers drawn")
    with atomic_folder(out) as folder:
        for number, (letter, one) in enumerate(zip(LETTERS, tracks, strict=True)):
            product = observe(generator, kind, town, period, scatterers, number, one)
            write_product(folder / f"EGMS_L2b_{letter}.csv", product, kind.band, f"{city[:2]}{number}")
            _tell(f"{city}: product {letter} written")
        write_footprints(folder / "footprints.geojson", city, town.structures)
        write_labels(folder / "labels.csv", city, town.structures)
        write_truth(folder / "truth.csv", city, town.structures)


def _tell(what: str) -> None:
    print(what, file=sys.stderr, flush=True)
