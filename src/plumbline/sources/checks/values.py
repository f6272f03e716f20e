"""Whether displacements are of the size of a city's, or of another unit than is taken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.core.console import log

LEAST_TYPICAL_MM, MOST_TYPICAL_MM = 0.02, 500.0
"""Of a city's displacements the median is some millimetres, of its noise alone as of years of subsidence."""


class Sizes(NamedTuple):
    """How many displacements are how large: counts, so that those of a file's parts add up."""

    known: int
    small: int
    """Of them, within `LEAST_TYPICAL_MM`."""
    large: int
    """Of them, from `MOST_TYPICAL_MM` on."""

    def plus(self, other: Sizes) -> Sizes:
        """Those of both."""
        return Sizes(self.known + other.known, self.small + other.small, self.large + other.large)


def sizes_of(displacement: NDArray[np.float32], most: int) -> Sizes:
    """Count displacements (P, T) in mm of some of the points, at most so many or twice as many."""
    size = np.abs(displacement[:: max(1, len(displacement) // most)])
    known = int(np.isfinite(size).sum())
    return Sizes(known, int((size <= LEAST_TYPICAL_MM).sum()), int((size >= MOST_TYPICAL_MM).sum()))


def warn_of_unit(path: Path, sizes: Sizes, can_be_stated: Callable[[], bool]) -> None:
    """Say so where half of the displacements are smaller or larger than those of any city.

    Args:
        path: the product.
        sizes: of all of its parts.
        can_be_stated: whether `units` in `ingest.products` means something for its format; asked only to say it.
    """
    known, small, large = sizes
    if not known or 2 * max(small, large) < known:
        return
    found = f"at most {LEAST_TYPICAL_MM:g} mm" if small >= large else f"{MOST_TYPICAL_MM:g} mm and more"
    advice = (
        "units in ingest.products states it (docs/formats.md)." if can_be_stated()
        else "Its format is in mm, and nothing else can be stated of it: convert the file, or download it again."
    )  # fmt: skip
    log.warning("%s: half of its displacements are %s. Are they in another unit than is taken? %s", path, found, advice)
