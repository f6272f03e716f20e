"""Read what `plumbline restore` writes, and the truth of held-out scenes; run the command and see what it takes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import rasterio
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates

from benchmarks.common import watched
from benchmarks.restoration.metrics import Estimate
from plumbline.core.errors import InputError

Array = NDArray[np.float64]
SUFFIXES = ("_mm", "_std_mm", "_low_mm", "_high_mm")


class Truth(NamedTuple):
    """The truth of a scene on its grid; first row north."""

    component: dict[str, Array]
    """`up` and `east`, (rows, columns), mm."""
    left: float
    top: float
    cell_m: float

    @property
    def shape(self) -> tuple[int, int]:
        """Return rows and columns."""
        rows, columns = self.component["up"].shape
        return rows, columns


class Field(NamedTuple):
    """A restored field."""

    bands: dict[str, Array]
    """By their description; NaN where nothing is known."""
    left: float
    top: float
    cell_m: float

    def names(self) -> list[str]:
        """Return the components that are complete: of `up`, `east`."""
        return [name for name in ("up", "east") if all(name + suffix in self.bands for suffix in SUFFIXES)]

    def on(self, name: str, grid: Truth) -> Estimate:
        """Return a component on another grid: its own cells where the grids agree, interpolated where they do not."""
        rows, columns = (np.arange(count) for count in grid.shape)
        row = (self.top - grid.top) / self.cell_m + (rows + 0.5) * grid.cell_m / self.cell_m - 0.5
        column = (grid.left - self.left) / self.cell_m + (columns + 0.5) * grid.cell_m / self.cell_m - 0.5
        near = np.rint(row).astype(int), np.rint(column).astype(int)
        if max(np.abs(row - near[0]).max(), np.abs(column - near[1]).max()) < 1e-3:
            return self._pick(name, *np.meshgrid(*near, indexing="ij"))
        place = np.meshgrid(row, column, indexing="ij")
        bands = (self.bands[name + suffix] for suffix in SUFFIXES)
        return Estimate(*(map_coordinates(band, place, order=1, cval=np.nan) for band in bands))

    def _pick(self, name: str, row: NDArray[np.int_], column: NDArray[np.int_]) -> Estimate:
        rows, columns = self.bands[f"{name}_mm"].shape
        inside = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
        row, column = np.clip(row, 0, rows - 1), np.clip(column, 0, columns - 1)
        return Estimate(*(np.where(inside, self.bands[name + suffix][row, column], np.nan) for suffix in SUFFIXES))


class Run(NamedTuple):
    """What a command took."""

    field: Field
    seconds: float
    peak_mb: float
    """Most resident memory of its processes together."""


def read_truth(scene: Path) -> Truth:
    """Read `truth.npz` of a scene folder.

    Raises:
        InputError: it is not there.
    """
    path = scene / "truth.npz"
    if not path.exists():
        raise InputError(f"{path}: no such file. Name a folder that is not there DOMAIN-SEED to have it made.")
    with np.load(path) as content:
        component = {name: np.asarray(content[f"{name}_mm"], float) for name in ("up", "east")}
        return Truth(component, float(content["left"]), float(content["top"]), float(content["cell_m"]))


def read_field(path: Path) -> Field:
    """Read a GeoTIFF by the descriptions of its bands.

    Raises:
        InputError: no component is complete.
    """
    with rasterio.open(path) as source:
        transform = source.transform
        bands = {
            str(name): np.asarray(source.read(number, masked=True).astype(float).filled(np.nan))
            for number, name in enumerate(source.descriptions, 1)
        }
    field = Field(bands, transform.c, transform.f, transform.a)
    if not field.names():
        raise InputError(f"{path}: bands {', '.join(bands)} found; up_mm, up_std_mm, up_low_mm, up_high_mm are needed.")
    return field


def restore(points: Sequence[Path], options: Sequence[str] = ()) -> Run:
    """Run `plumbline restore`, and read the field that it writes.

    Raises:
        InputError: it ended with an error.
    """
    with tempfile.TemporaryDirectory() as folder:
        output, said = Path(folder) / "field.tif", Path(folder) / "said"
        given = [word for path in points for word in ("--points", str(path))]
        command = [sys.executable, "-m", "plumbline", "restore", *given, "--output", str(output), *options]
        with said.open("wb") as stream:
            seconds, peak_mb, code = watched(command, stdout=stream, stderr=subprocess.STDOUT)
        if code:
            last = said.read_text(encoding="utf-8", errors="replace").strip()[-2000:]
            raise InputError(f"plumbline restore ended with {code}: {last}")
        return Run(read_field(output), seconds, peak_mb)
