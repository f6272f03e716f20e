"""Define what a user asks of a judgement, besides the files and the model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from plumbline.params import Prepare
from plumbline.sources.city.in_memory import AS_THEY_ARE, Reading


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
