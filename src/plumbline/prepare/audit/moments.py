"""Count, mean, spread, skew and extremes of columns in one pass, whatever the number of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Row = NDArray[np.float64]


class Moments:
    """Running moments of C columns; values that are not finite are counted and left out.

    Parts are merged by the formulas of Chan, Golub and LeVeque (1983), The American Statistician 37(3), for the second
    order and of Pébay (2008), Sandia report SAND2008-6212, for the third.
    """

    def __init__(self, columns: int) -> None:
        self.rows = 0
        self.count: NDArray[np.int64] = np.zeros(columns, np.int64)
        """(C,) finite values."""
        self.mean: Row = np.zeros(columns)
        self.low: Row = np.full(columns, np.inf)
        self.high: Row = np.full(columns, -np.inf)
        self.first_bad: tuple[int, int, float] | None = None
        """Row, column and value of the first one that is not finite."""
        self._second: Row = np.zeros(columns)
        self._third: Row = np.zeros(columns)

    def add(self, values: NDArray[Any]) -> None:
        """Take in the next rows (N, C)."""
        wide = np.asarray(values, np.float64)
        finite = np.isfinite(wide)
        whole = bool(finite.all())
        if not whole and self.first_bad is None:
            row, column = np.argwhere(~finite)[0]
            self.first_bad = (self.rows + int(row), int(column), float(wide[row, column]))
        self.rows += len(wide)
        count = finite.sum(0)
        some = np.maximum(count, 1)
        kept = wide if whole else np.where(finite, wide, 0.0)
        mean = kept.sum(0) / some
        off = kept - mean
        if not whole:
            off[~finite] = 0.0
        square = off * off
        self._merge(count, mean, square.sum(0), np.einsum("ij,ij->j", square, off))
        self.low = np.minimum(self.low, np.where(finite, wide, np.inf).min(0, initial=np.inf))
        self.high = np.maximum(self.high, np.where(finite, wide, -np.inf).max(0, initial=-np.inf))

    def _merge(self, count: NDArray[np.int64], mean: Row, second: Row, third: Row) -> None:
        a, b = self.count.astype(float), count.astype(float)
        n = np.maximum(a + b, 1)
        delta = np.where(count > 0, mean - self.mean, 0.0)
        self._third += third + delta**3 * a * b * (a - b) / n**2 + 3 * delta * (a * second - b * self._second) / n
        self._second += second + delta**2 * a * b / n
        self.mean = self.mean + delta * b / n
        self.count = self.count + count

    @property
    def bad(self) -> NDArray[np.int64]:
        """(C,) values that are not finite."""
        return self.rows - self.count

    @property
    def sd(self) -> Row:
        """(C,) standard deviation, of the population."""
        return np.asarray(np.sqrt(np.maximum(self._second, 0) / np.maximum(self.count, 1)), np.float64)

    @property
    def skew(self) -> Row:
        """(C,) third standardised moment, of the population; 0 where a column does not vary."""
        n = np.maximum(self.count, 1)
        # Below rounding, what is left of a constant column's spread has no shape.
        varies = self.sd > 1e-12 * np.maximum(np.abs(self.mean), 1e-300)
        variance = np.where(varies, self._second / n, 1.0)
        return np.where(varies, self._third / n / variance**1.5, 0.0)
