"""What rules on tracks have in common: one case a track of a city."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from plumbline.prepare.audit.findings import Case, Facts

Track = dict[str, Any]
"""The report of a track, or of its city; see `audit`."""
Told = tuple[float, str] | None
"""A figure, and what it is; None: the report does not say."""


def track_cases(facts: Facts, look: Callable[[Track, Track], Told]) -> Iterator[Case]:
    """What `look` finds of each track, given its report and that of its city."""
    for city, report in facts.cities.items():
        for track in report.get("tracks", []):
            found = look(track, dict(report))
            if found is not None:
                where = f"{city}, {track.get('name')}"
                yield Case(where, found[0], f"{where}: {found[1]}")


def figure(track: Track, key: str, text: str) -> Told:
    """A figure of the report, with what it is of."""
    value = track.get(key)
    return None if value is None else (value, f"{value:.4g} {text}")


def silent(key: str, stage: str = "ingest") -> str:
    """That no track was looked at, because `stage` reports no `key`."""
    return f"not looked at: the report of `{stage}` has no {key}"
