"""Find the places that the rules of the audit look at, each with a figure and what was found
there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from plumbline.prepare.audit.judge import Bounds, Case, Facts
from plumbline.prepare.audit.summary import TABLES, Leak, Summary

Cases = Iterator[Case]
MAX_PSI = 0.25
"""Largest population stability index of a column; what chance alone would give counts if it
is more."""


# --- the reports of tracks and cities ---


def in_tracks(key: str, text: str) -> Callable[[Facts], Cases]:
    """Return what yields a figure of each track's report, with its description; a track
    without it has no case."""

    def cases(facts: Facts) -> Cases:
        for city, report in facts.cities.items():
            for track in report.get("tracks", []):
                if (value := track.get(key)) is not None:
                    yield Case(f"{city}, {track.get('name')}", value, f"{value:.4g} {text}")

    return cases


def remaining_points(facts: Facts) -> Cases:
    """Yield the points of each city and track; only a city without any fails."""
    for city, report in facts.cities.items():
        tracks = [
            (f"{city}, {track.get('name')}", int(track.get("points") or 0))
            for track in report.get("tracks", [])
        ]
        total = sum(count for _, count in tracks)
        yield Case(city, total, f"{total} points are left, in {len(tracks)} tracks", (None, 1))
        for where, count in tracks:
            yield Case(where, count, f"{count} points are left", (1, None))


def notes(facts: Facts) -> Cases:
    """Yield the notes of the readers about their decisions."""
    for city, report in facts.cities.items():
        yield from (Case(city, 1, note) for note in report.get("notes", []))


# --- labels ---


def in_splits(figure: Callable[[Summary], float], text: str) -> Callable[[Facts], Cases]:
    """Return what yields a figure of each split, which replaces `{}` in `text`."""

    def cases(facts: Facts) -> Cases:
        for name, split in facts.splits.items():
            value = figure(split)
            yield Case(name, value, text.format(f"{value:.4g}"))

    return cases


def split_sizes(facts: Facts) -> Cases:
    """Yield the number of buildings of each split."""
    counts = {"train": 0} | {name: split.buildings for name, split in facts.splits.items()}
    return (Case(name, count, f"{count} buildings") for name, count in counts.items())


def share_without_quadrant(split: Summary) -> float:
    """Return the share of damaged buildings of unknown quadrant, which training leaves out
    of the quadrant loss."""
    return split.quadrant_unknown / max(int(split.categories[1:].sum()), 1)


def damage(facts: Facts) -> Cases:
    """Yield the damaged and undamaged buildings of each split; only `train` must have both."""
    for name, split in facts.splits.items():
        bounds = (None, 1) if name == "train" else (1, None)
        for kind, count in _damage(split) if split.buildings else ():
            yield Case(f"{name}, {kind}", count, f"{count} buildings", bounds)


def rarer_kind(facts: Facts) -> Cases:
    """Yield the share of the rarer class, damaged or undamaged, in `train`."""
    if facts.train and facts.train.categories.sum():
        kind, count = min(_damage(facts.train), key=lambda row: row[::-1])
        total = int(facts.train.categories.sum())
        yield Case(f"train, {kind}", count / total, f"{count} of {total} buildings")


def _damage(split: Summary) -> list[tuple[str, int]]:
    return [("damaged", int(split.categories[1:].sum())), ("undamaged", int(split.categories[0]))]


def shares(counted: Callable[[Summary], Any], named: Sequence[str]) -> Callable[[Facts], Cases]:
    """Return what yields the share of each kind in `train`."""

    def cases(facts: Facts) -> Cases:
        counts = counted(facts.train).tolist() if facts.train else []
        total = sum(counts)
        for name, count in zip(named, counts, strict=True) if total else ():
            yield Case(f"train, {name}", count / total, f"{count} of {total} buildings")

    return cases


# --- buildings and features ---


def leaks(shared: Sequence[Leak], text: str, within: Bounds | None = None) -> Cases:
    """Yield what splits share; `within` are the bounds for duplicates in one split."""
    for leak in shared:
        first, second = leak.splits
        where = f"twice in {first}" if first == second else f"in {first} and {second}"
        example = f", as {leak.example}" if leak.example else ""
        yield Case(
            where,
            leak.number,
            f"{leak.number} {text}{example}",
            within if first == second else None,
        )


def shared_blocks(facts: Facts) -> Cases:
    """Yield the blocks in two splits; no case where the report names no blocks."""
    if facts.blocks_shared is not None:
        yield Case("all splits", 0, "each block was looked for in the others")
        yield from leaks(facts.blocks_shared, "blocks")


def not_finite(facts: Facts) -> Cases:
    """Yield the values of each table and split that are not finite."""
    for name, split in facts.splits.items():
        for table, moments in split.moments.items():
            where, value = split.first_bad.get(table, (f"split {name}, {table}", 0.0))
            count = int(moments.bad.sum())
            text = f"{value} found, a finite number needed ({count} such values)"
            yield Case(where, count, text if count else "all values are finite numbers")


def skews(facts: Facts) -> Cases:
    """Yield the skewness of each column of `train`."""
    for table, moments in facts.train.moments.items() if facts.train else ():
        for column, value in zip(TABLES[table], moments.skew.tolist(), strict=True):
            yield Case(f"train, {table}.{column.name}", abs(value), f"skewness {value:.3g}")


def from_train(facts: Facts) -> Cases:
    """Yield the population stability index of each column of the other splits against `train`."""
    for name, shifts in facts.shifts.items():
        for key, shift in shifts.items():
            text = (
                f"population stability index {shift.psi:.3g} (by chance up to "
                f"{shift.psi_chance:.2g})"
            )
            bounds = (max(MAX_PSI, shift.psi_chance), None)
            yield Case(f"{name} from train, {key}", shift.psi, text, bounds)
