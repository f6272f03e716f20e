"""Define the options of a judgement, besides the files and the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plumbline.core.errors import InputError
from plumbline.params import (
    Ingest,
    JudgingOptions,
    PointsOptions,
    Prepare,
    ReadingOptions,
    load_ingest,
)
from plumbline.serve.base_rate import parse_rate
from plumbline.sources.city.in_memory import AS_THEY_ARE, Reading
from plumbline.sources.city.window import parse_window


@dataclass(frozen=True)
class Options:
    """Options of `predict`, `explain` and `replay`, on the command line and over HTTP."""

    reading: Reading = AS_THEY_ARE
    """Settings for reading points and footprints."""
    min_quadrant_confidence: float | None = None
    """Limit that replaces the one in section `prepare`; None: that of the package."""
    damage_rate: float | None = None
    """Share of the buildings that are damaged; None: estimated from all answers."""
    causes: Path | None = None
    """Vector file of possible causes of damage, see `causes.read_causes`."""
    by_place: bool = True
    """Estimate the share at each place from the neighbours, where it is not given and
    damage gathers."""

    @property
    def files(self) -> list[Path]:
        """Return the files that are read besides points and footprints."""
        return [] if self.causes is None else [self.causes]

    def limits(self, prepare: Prepare) -> Prepare:
        """Return the preparation of a package, with the user's own confidence limit if one
        is given."""
        if self.min_quadrant_confidence is None:
            return prepare
        return prepare.model_copy(update={"min_quadrant_confidence": self.min_quadrant_confidence})


AS_RELEASED = Options()
"""Options that change nothing: everything is as in the files and the package."""


def make_reading(options: PointsOptions, params: Path | None = None) -> Reading:
    """Return how files are read.

    Args:
        options: of the command line or the HTTP form. params: file with a section `ingest`.

    Raises:
        InputError: the params file is refused, or `since` and `until` are no window.
    """
    window = parse_window(options.since, options.until)
    ingest = load_ingest(params) if params else Ingest()
    if isinstance(options, ReadingOptions):
        return Reading(ingest, options.format, options.id_column, options.layer, window)
    return Reading(ingest, options.format, window=window)


def make_options(
    options: JudgingOptions, params: Path | None = None, causes: Path | None = None
) -> Options:
    """Return how a city is read and judged.

    Args:
        options, params: as for `make_reading`. causes: vector file, see `causes.read_causes`.

    Raises:
        InputError: as `make_reading`, or the damage rate is no share.
    """
    reading, rate = make_reading(options, params), parse_rate(options.damage_rate)
    return Options(
        reading, options.min_quadrant_confidence, rate, causes, options.damage_rate_by == "place"
    )


MAX_NAMED = 10
"""Largest number of buildings that a message names."""


def rows_named(
    building_ids: NDArray[np.object_], chosen: Sequence[str], path: Path
) -> NDArray[np.intp]:
    """Return the rows of the chosen buildings, each once, in the order of the file.

    Args:
        building_ids: (F,) of all footprints. chosen: some of them. path: of the footprints.

    Raises:
        InputError: some of them are not there; the message names them.
    """
    present = set(building_ids)
    missing = [name for name in chosen if name not in present]
    if missing:
        folded = {name.casefold(): name for name in building_ids}
        similar = [
            folded[name] for name in get_close_matches(missing[0].casefold(), folded, cutoff=0.4)
        ]
        hint = (
            f"the nearest are {', '.join(similar)}"
            if similar
            else f"the first is {building_ids[0]}"
        )
        remainder = f" and {len(missing) - MAX_NAMED} others" if len(missing) > MAX_NAMED else ""
        raise InputError(
            f"--building {', '.join(missing[:MAX_NAMED])}{remainder}: no such building_id among "
            f"the {len(building_ids)} of {path}; {hint}.",
            key="buildings.unknown_id",
        )
    return np.flatnonzero(np.isin(building_ids, list(chosen)))
