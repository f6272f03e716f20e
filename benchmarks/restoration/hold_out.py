"""Take points out of a real product: the others and the left-out ones become files of the same format."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from plumbline.core.errors import InputError

Array = NDArray[np.float64]
SHARE, BLOCK_M = 0.2, 50.0
EARTH_M = 6_371_000.0
SEARCH_M = 100.0
"""Step in which the place of a window is looked for."""


class Layout(NamedTuple):
    """Where a format has its positions."""

    first: str
    """Longitude, or easting: name of the column."""
    second: str
    degrees: bool
    head_lines: int = 1


LAYOUTS = (
    Layout("easting", "northing", False),
    Layout("pnt_lon", "pnt_lat", True),
    Layout("export_res_ 1", "export_res_ 2", True, 2),
)
"""EGMS, DePSI and StaMPS."""


class Lines(NamedTuple):
    """A product as text, a line a point."""

    name: str
    """Of the file."""
    head: list[str]
    body: list[str]
    place: Array
    """(N, 2) m; of products in degrees, about their first product's latitude."""

    def take(self, rows: NDArray[np.bool_]) -> Lines:
        """Return some of the points."""
        kept = [one for one, keep in zip(self.body, rows, strict=True) if keep]
        return self._replace(body=kept, place=self.place[rows])

    def write(self, folder: Path) -> Path:
        """Write the product, and return its path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / self.name
        path.write_text("".join([*self.head, *self.body]), encoding="utf-8")
        return path


def read_lines(paths: Sequence[Path]) -> list[Lines]:
    """Read csv files, or the csv in zips, whose positions are known by the names of their columns.

    Raises:
        InputError: a file is missing, no such product, or has no points.
    """
    products: list[Lines] = []
    latitude: float | None = None
    for path in paths:
        name, lines = _text(path)
        columns = next(csv.reader(lines[:1]), [])
        layout = next((one for one in LAYOUTS if one.first in columns and one.second in columns), None)
        if layout is None or len(lines) <= layout.head_lines:
            known = "; ".join(f"{one.first}, {one.second}" for one in LAYOUTS)
            raise InputError(f"{path}: no points with known columns of position found. Known are {known}.")
        at = columns.index(layout.first), columns.index(layout.second)
        head, body = lines[: layout.head_lines], lines[layout.head_lines :]
        place = np.array([[float(row[at[0]]), float(row[at[1]])] for row in csv.reader(body)])
        if layout.degrees:
            latitude = float(np.radians(place[:, 1].mean())) if latitude is None else latitude
            place = np.radians(place) * EARTH_M * (np.cos(latitude), 1.0)
        products.append(Lines(name, head, body, place))
    return products


def cut_window(products: Sequence[Lines], side_m: float) -> list[Lines]:
    """Keep the points of the square with the most of them."""
    place = np.concatenate([one.place for one in products])
    low = place.min(0)
    steps = np.maximum(np.ceil((np.ptp(place, axis=0) - side_m) / SEARCH_M), 0).astype(int) + 1
    corners = [low + SEARCH_M * np.array([i, j]) for i in range(steps[0]) for j in range(steps[1])]
    corner = max(corners, key=lambda one: int(_inside(place, one, side_m).sum()))
    return [one.take(_inside(one.place, corner, side_m)) for one in products]


def choose_blocks(generator: Generator, products: Sequence[Lines]) -> list[NDArray[np.bool_]]:
    """Choose squares of 50 m, a fifth of those with points in them; the same for all products."""
    square = [np.floor(one.place / BLOCK_M).astype(np.int64) for one in products]
    every, index = np.unique(np.concatenate(square), axis=0, return_inverse=True)
    chosen = np.zeros(len(every), bool)
    chosen[generator.permutation(len(every))[: max(round(SHARE * len(every)), 1)]] = True
    return np.split(chosen[index.ravel()], np.cumsum([len(one) for one in square])[:-1])


def choose_points(generator: Generator, products: Sequence[Lines]) -> list[NDArray[np.bool_]]:
    """Choose a fifth of the points of each product at random."""
    chosen = []
    for one in products:
        rows = np.zeros(len(one.body), bool)
        rows[generator.permutation(len(rows))[: max(round(SHARE * len(rows)), 1)]] = True
        chosen.append(rows)
    return chosen


HOLD_OUTS: dict[str, Callable[[Generator, Sequence[Lines]], list[NDArray[np.bool_]]]] = {
    "blocks of 50 m": choose_blocks,
    "random": choose_points,
}


def _inside(place: Array, corner: Array, side_m: float) -> NDArray[np.bool_]:
    return np.asarray(((place >= corner) & (place < corner + side_m)).all(1))


def _text(path: Path) -> tuple[str, list[str]]:
    """Return the name of a csv, and its lines with their ends."""
    if not path.exists():
        raise InputError(f"{path}: no such file.")
    if not zipfile.is_zipfile(path):
        return path.name, path.read_text(encoding="utf-8").splitlines(keepends=True)
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.lower().endswith(".csv")]
        if len(names) != 1:
            raise InputError(f"{path}: {len(names)} csv files found inside, one is needed.")
        with io.TextIOWrapper(archive.open(names[0]), encoding="utf-8", newline="") as stream:
            return Path(names[0]).name, stream.read().splitlines(keepends=True)
