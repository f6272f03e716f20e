"""Which features of a file of footprints go on, and why the others do not: said once, when all of them are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plumbline.core.console import log
from plumbline.core.errors import InputError

NAMED = 5
"""Offenders named in a message."""
Objects = NDArray[np.object_]


@dataclass
class Sieve:
    """The features of a file; a single one that is no footprint is left out, so that it does not cost the others."""

    path: Path
    ids: Objects
    """(F,) of all features."""
    row: NDArray[np.intp]
    """(B,) rows of those that go on, counted from 0 in the file's order."""
    found: dict[str, list[int]] = field(default_factory=dict)
    """What was found -> rows of the features left out for it."""

    @property
    def kept_ids(self) -> Objects:
        """(B,) of those that go on."""
        return self.ids[self.row]

    @property
    def out(self) -> NDArray[np.intp]:
        """Rows of those that do not, ascending."""
        return np.array(sorted(row for rows in self.found.values() for row in rows), np.intp)

    def leave_out(self, why: Objects, advice: str) -> NDArray[np.bool_]:
        """Leave out those of B with a reason (B,), not None; which (B,) go on.

        Raises:
            InputError: none is left; the message ends with the advice.
        """
        keep = np.array([reason is None for reason in why], bool)
        for row, reason in zip(self.row[~keep].tolist(), why[~keep], strict=True):
            self.found.setdefault(reason, []).append(row)
        self.row = self.row[keep]
        if not len(self.row):
            raise InputError(f"{self.path}: no footprint in it: {self._listed()}. {advice}")
        return keep

    def name(self, bad: NDArray[np.bool_]) -> str:
        """Those of B that go on and are bad, as `name_features` does."""
        return self._named(self.row[bad])

    def tell(self) -> None:
        """One warning about all that was left out, if anything was."""
        if self.found:
            log.warning(
                "%s: %d of %d features left out, no row is written for them: %s.",
                self.path, len(self.out), len(self.out) + len(self.row), self._listed(),
            )  # fmt: skip

    def _listed(self) -> str:
        return "; ".join(f"{len(rows)} {why} ({self._named(rows)})" for why, rows in self.found.items())

    def _named(self, rows: Sequence[int] | NDArray[np.intp]) -> str:
        return name_features(rows, self.ids)


def name_features(rows: Sequence[int] | NDArray[np.intp], ids: Objects) -> str:
    """`feature 3 (B7), feature 9 (B2) and 4 more`; rows of the file's features with their ids (F,), counted from 1."""
    named = [f"feature {row + 1} ({ids[row]})" for row in rows[:NAMED]]
    return ", ".join(named) + (f" and {len(rows) - NAMED} more" if len(rows) > NAMED else "")


def because(bad: NDArray[np.bool_], why: str) -> Objects:
    """`why` for those that are bad (B,), None for the others, as `Sieve.leave_out` takes it."""
    return np.where(bad, np.array(why, object), np.array(None, object))
