"""Define what a user asks of a judgement, besides the files and the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plumbline.core.errors import InputError
from plumbline.params import Ingest, JudgingOptions, PointsOptions, Prepare, ReadingOptions, load_ingest
from plumbline.serve.base_rate import given_rate
from plumbline.sources.city.in_memory import AS_THEY_ARE, Reading
from plumbline.sources.city.window import parse_window


@dataclass(frozen=True)
class Options:
    """Options of `predict`, `explain` and `replay`, on the command line and over HTTP."""

    reading: Reading = AS_THEY_ARE
    """How points and footprints are read."""
    min_quadrant_confidence: float | None = None
    """Of section `prepare`; None: the package's."""
    damage_rate: float | None = None
    """Share of the buildings that are damaged; None: estimated from all answers."""
    causes: Path | None = None
    """What may have caused damage: a vector file, see `causes.read_causes`."""
    by_place: bool = True
    """Estimate the share at each place from the neighbours, where it is not given and damage gathers."""

    @property
    def files(self) -> list[Path]:
        """Return the files that are read besides points and footprints."""
        return [] if self.causes is None else [self.causes]

    def limits(self, prepare: Prepare) -> Prepare:
        """Return the preparation of a package, with the user's own confidence limit if one is given."""
        if self.min_quadrant_confidence is None:
            return prepare
        return prepare.model_copy(update={"min_quadrant_confidence": self.min_quadrant_confidence})


AS_RELEASED = Options()
"""Everything as the files and the package say."""


def make_reading(asked: PointsOptions, params: Path | None = None) -> Reading:
    """Return how files are read.

    Args:
        asked: options of the command line or the HTTP form. params: file with a section `ingest`.

    Raises:
        InputError: the params file is refused, or `since` and `until` are no window.
    """
    window = parse_window(asked.since, asked.until)
    ingest = load_ingest(params) if params else Ingest()
    if isinstance(asked, ReadingOptions):
        return Reading(ingest, asked.format, asked.id_column, asked.layer, window)
    return Reading(ingest, asked.format, window=window)


def make_options(asked: JudgingOptions, params: Path | None = None, causes: Path | None = None) -> Options:
    """Return how a city is read and judged.

    Args:
        asked, params: as for `make_reading`. causes: vector file, see `causes.read_causes`.

    Raises:
        InputError: as `make_reading`, or the damage rate is no share.
    """
    reading, rate = make_reading(asked, params), given_rate(asked.damage_rate)
    return Options(reading, asked.min_quadrant_confidence, rate, causes, asked.damage_rate_by == "place")


NAMED = 10
"""Most buildings that a message names."""


def rows_named(known: NDArray[np.object_], chosen: Sequence[str], path: Path) -> NDArray[np.intp]:
    """Return the rows of the chosen buildings, each once, in the order of the file.

    Args:
        known: (F,) `building_id` of all. chosen: some of them. path: of the footprints.

    Raises:
        InputError: some of them are not there; the message names them.
    """
    there = set(known)
    missing = [name for name in chosen if name not in there]
    if missing:
        folded = {name.casefold(): name for name in known}
        near = [folded[name] for name in get_close_matches(missing[0].casefold(), folded, cutoff=0.4)]
        hint = f"the nearest are {', '.join(near)}" if near else f"the first is {known[0]}"
        more = f" and {len(missing) - NAMED} others" if len(missing) > NAMED else ""
        raise InputError(
            f"--building {', '.join(missing[:NAMED])}{more}: no such building_id among the {len(known)} of {path}; "
            f"{hint}."
        )
    return np.flatnonzero(np.isin(known, list(chosen)))
