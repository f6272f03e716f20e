"""Cut tracks to a window of time, so that a place is judged by the epochs in it alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.typing import NDArray

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.sources.points.track import Track


@dataclass(frozen=True)
class Window:
    """The days from `since` to `until`, both included; without one of them, that side is open.

    Raises:
        InputError: `since` is after `until`.
    """

    since: date | None = None
    until: date | None = None

    def __post_init__(self) -> None:
        """Refuse ends in the wrong order."""
        if self.since is not None and self.until is not None and self.since > self.until:
            raise InputError(
                f"since {self.since} is after until {self.until}: no day is left. Swap the two.",
                key="window.reversed",
            )

    def __str__(self) -> str:
        """Return the window as the end of a sentence: `from 2022-01-01 to 2023-06-30`."""
        if self.until is None:
            return "of all time" if self.since is None else f"from {self.since} on"
        return f"up to {self.until}" if self.since is None else f"from {self.since} to {self.until}"

    def record(self) -> dict[str, str | None]:
        """Return both ends as texts, for records and for keys of work folders."""
        ends = {"since": self.since, "until": self.until}
        return {name: None if day is None else day.isoformat() for name, day in ends.items()}

    def holds(self, epochs: NDArray[np.datetime64]) -> NDArray[np.bool_]:
        """Return which epochs (T,) are in the window."""
        days = epochs.astype("datetime64[D]")
        inside = np.ones(len(days), bool)
        if self.since is not None:
            inside &= days >= np.datetime64(self.since, "D")
        if self.until is not None:
            inside &= days <= np.datetime64(self.until, "D")
        return inside

    def cut(self, source: str, track: Track, min_epochs: int) -> Track:
        """Return the track with the epochs of the window alone; all of it, unchecked, if
        both sides are open.

        Args:
            source: file of the track, for messages.
            track: its points.
            min_epochs: smallest number of epochs in the window.

        Raises:
            InputError: fewer are in it.
        """
        if self == ALL_TIME:
            return track
        inside = self.holds(track.epochs)
        count = int(inside.sum())
        if count < min_epochs:
            first, last = track.epochs[[0, -1]].astype("datetime64[D]")
            raise InputError(
                f"{source}: {count} of its {len(inside)} epochs ({first} to {last}) {_are(count)} "
                f"{self}; at least {min_epochs} are needed. Widen the window, or leave the file "
                "out.",
                key="epochs.too_few",
            )
        if inside.all():
            return track
        log.info(
            "%s: %d of its %d epochs %s %s; only these count",
            source,
            count,
            len(inside),
            _are(count),
            self,
        )
        return track.at_epochs(inside)


ALL_TIME = Window()


def parse_window(since: str | None, until: str | None) -> Window:
    """Return the window between two days written as `2023-01-31`.

    Raises:
        InputError: one of them is no day, or they are in the wrong order.
    """
    return Window(parse_day("since:", since), parse_day("until:", until))


def parse_day(name: str, text: str | None) -> date | None:
    """Return the day that a text is; None without one.

    Raises:
        InputError: it is none; the message begins with the name.
    """
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        raise InputError(
            f"{name} {text!r} is no date. Write year, month and day, as 2023-01-31.",
            key="window.not_a_day",
        ) from None


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
