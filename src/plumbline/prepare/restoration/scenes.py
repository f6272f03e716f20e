"""Open a split of prepared scenes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.core.errors import InputError
from plumbline.core.files import read_json

SPLITS = ("train", "tune", "calibrate", "test")
MAPS_FILE, TRUTH_FILE, SCENES_FILE = "maps.npy", "truth.npy", "scenes.json"


@dataclass(frozen=True)
class SceneSet:
    """S scenes of one size; the arrays stay on disk until a scene is asked for."""

    maps: NDArray[np.float32]
    """(S, len(MAPS), rows, columns) see `conditions.MAPS`."""
    truth: NDArray[np.float32]
    """(S, 2, rows, columns) up and east, mm."""
    about: list[dict[str, Any]]
    """Of each: `name`, `domain`, `level`, `tracks`, `density`, `covariance`."""

    def __len__(self) -> int:
        return len(self.about)

    def take(self, index: Sequence[int]) -> SceneSet:
        """Read the scenes `index`, in that order, into memory."""
        rows = list(index)
        return SceneSet(np.asarray(self.maps[rows]), np.asarray(self.truth[rows]), [self.about[i] for i in rows])

    def of_domain(self, domain: str) -> SceneSet:
        """Return the scenes of one domain."""
        return self.take([i for i, about in enumerate(self.about) if about["domain"] == domain])


def load_scenes(folder: Path) -> SceneSet:
    """Load the scenes of a split's folder.

    Raises:
        InputError: it is missing or damaged.
    """
    try:
        maps, truth = (np.load(folder / name, mmap_mode="r") for name in (MAPS_FILE, TRUTH_FILE))
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{folder}: not readable as scenes ({error}). Run `plumbline prepare` again.") from None
    about = read_json(folder / SCENES_FILE)
    if not len(maps) == len(truth) == len(about):
        raise InputError(
            f"{folder}: {len(maps)} maps, {len(truth)} truths and {len(about)} scenes found. Prepare again."
        )
    return SceneSet(maps, truth, about)
