"""Define what a user asks of a judgement, besides the files and the model."""

from __future__ import annotations

from dataclasses import dataclass

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

    def limits(self, prepare: Prepare) -> Prepare:
        """Return the preparation of a package, with the user's own confidence limit if one is given."""
        if self.min_quadrant_confidence is None:
            return prepare
        return prepare.model_copy(update={"min_quadrant_confidence": self.min_quadrant_confidence})


AS_RELEASED = Options()
"""Everything as the files and the package say."""
