"""MintPy's HDF5: a time series with its geometry and coherence, geocoded or in radar coordinates."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tests.sources.points.write_points import DAYS, HEADING, INCIDENCE

SHAPE = (4, 3)
STEP = 1e-4
NORTH, WEST = 52.345, 4.911
GEOCODED = {"X_FIRST": str(WEST), "Y_FIRST": str(NORTH), "X_STEP": str(STEP), "Y_STEP": str(-STEP), "X_UNIT": "degrees"}
COMMON = {"FILE_TYPE": "timeseries", "UNIT": "m", "LENGTH": str(SHAPE[0]), "WIDTH": str(SHAPE[1]), "ANTENNA_SIDE": "-1"}
COMMON |= {"ORBIT_DIRECTION": "ASCENDING", "HEADING": str(HEADING - 360), "REF_DATE": DAYS[0], "WAVELENGTH": "0.0555"}


def metres() -> np.ndarray:
    """(T, rows, columns) m; the pixel in row 1, column 2 is NaN at all epochs, that in row 3, column 0 zero."""
    epoch, row, column = np.mgrid[: len(DAYS), : SHAPE[0], : SHAPE[1]]
    values = (epoch * (1 + row + 10 * column) / 1000).astype(np.float32)
    values[:, 1, 2], values[:, 3, 0] = np.nan, 0
    return np.asarray(values)


@dataclass
class Stack:
    """What to write; tests change what they like."""

    series: Any = field(default_factory=metres)
    dates: list[bytes] = field(default_factory=lambda: [day.encode() for day in DAYS])
    attrs: dict[str, Any] = field(default_factory=lambda: COMMON | GEOCODED)
    geometry: dict[str, Any] = field(
        default_factory=lambda: {
            "incidenceAngle": np.full(SHAPE, INCIDENCE, np.float32),
            "azimuthAngle": np.full(SHAPE, (90 - HEADING) % 360, np.float32),
            "height": np.arange(12, dtype=np.float32).reshape(SHAPE),
        }
    )
    coherence: Any = field(default_factory=lambda: np.linspace(0, 1, 12, dtype=np.float32).reshape(SHAPE))
    options: dict[str, Any] = field(default_factory=dict)

    def to_radar(self) -> Stack:
        """Take the corner and step away, and say each pixel's place instead."""
        self.attrs = dict(COMMON)
        row, column = np.mgrid[: SHAPE[0], : SHAPE[1]]
        self.geometry["latitude"] = NORTH - STEP * (row + 0.5)
        self.geometry["longitude"] = WEST + STEP * (column + 0.5)
        return self

    def write_eos(self, path: Path) -> Path:
        """All of it in one file, as MintPy's HDF-EOS5."""
        with h5py.File(path, "w") as file:
            grid = file.create_group("HDFEOS/GRIDS/timeseries")
            arrays = {f"geometry/{name}": values for name, values in self.geometry.items()}
            arrays |= {"observation/displacement": self.series, "observation/date": np.array(self.dates)}
            arrays |= {"quality/temporalCoherence": self.coherence, "quality/mask": np.ones(SHAPE, bool)}
            for name, values in arrays.items():
                grid[name] = values
            file.attrs.update(self.attrs | {"FILE_TYPE": "HDFEOS", "mission": "S1"})
        return path

    def write(
        self, path: Path, geometry: str | None = "geometryGeo.h5", coherence: str | None = "temporalCoherence.h5"
    ) -> Path:
        """Write the files; returns the path of the time series."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with h5py.File(path, "w") as file:
            file.create_dataset("timeseries", data=self.series, **self.options)
            file.create_dataset("date", data=np.array(self.dates))
            file.attrs.update(self.attrs)
        for beside, kind, arrays in (
            (geometry, "geometry", self.geometry),
            (coherence, "temporalCoherence", {"temporalCoherence": self.coherence}),
        ):
            if beside:
                (path.parent / beside).parent.mkdir(exist_ok=True)
                with h5py.File(path.parent / beside, "w") as file:
                    file.attrs.update(self.attrs | {"FILE_TYPE": kind})
                    for name, values in arrays.items():
                        file[name] = values
        return path
