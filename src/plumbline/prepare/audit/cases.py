"""Find the places that the rules of the audit look at, each with a figure and what was found there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from plumbline.prepare.audit.judge import Case, Facts, RuleFinding
from plumbline.prepare.audit.summary import TABLES, Leak, Summary

Report = Mapping[str, Any]
"""The report of a track or of a city; see `audit`."""
Told = tuple[float, str] | None
"""A figure, and what it is; None: nothing is said."""
Cases = Iterator[Case]


# --- the reports of tracks and cities ---


def in_tracks(look: Callable[[Report], Told]) -> Callable[[Facts], Cases]:
    """Return what yields a case for each track with a figure that `look` finds in its report."""

    def cases(facts: Facts) -> Cases:
        for city, report in facts.cities.items():
            for track in report.get("tracks", []):
                if found := look(track):
                    where = f"{city}, {track.get('name')}"
                    yield Case(where, found[0], f"{where}: {found[1]}")

    return cases


def figure(key: str, text: str) -> Callable[[Report], Told]:
    """Return what reads a figure of a report, with its description."""

    def look(report: Report) -> Told:
        value = report.get(key)
        return None if value is None else (value, f"{value:.4g} {text}")

    return look


def points_left(facts: Facts) -> Cases:
    """Yield the points of each city and track; only a city without any fails."""
    for city, report in facts.cities.items():
        tracks = [(f"{city}, {track.get('name')}", int(track.get("points") or 0)) for track in report.get("tracks", [])]
        total = sum(count for _, count in tracks)
        yield Case(city, total, f"{city}: {total} points are left, in {len(tracks)} tracks", (None, 1))
        for where, count in tracks:
            yield Case(where, count, f"{where}: {count} points are left", (1, None))


def notes(facts: Facts) -> Cases:
    """Yield the notes of the readers about their decisions."""
    for city, report in facts.cities.items():
        yield from (Case(city, 1, f"{city}: {note}") for note in report.get("notes", []))


# --- labels ---


def in_splits(look: Callable[[Summary], Told], every: bool = False) -> Callable[[Facts], Cases]:
    """Return what yields a case for each split in which `look` finds a figure; with `every`, of empty ones too."""

    def cases(facts: Facts) -> Cases:
        for name, split in facts.splits.items():
            if (every or split.buildings) and (found := look(split)):
                yield Case(name, found[0], f"{name}: {found[1]}")

    return cases


def wrong(text: str, *keys: str) -> Callable[[Facts], Cases]:
    """Return what counts the labels of each split that cannot be."""

    def look(split: Summary) -> Told:
        count = sum(split.wrong[key] for key in keys)
        return count, f"{count} {text}"

    return in_splits(look, every=True)


def split_sizes(facts: Facts) -> Cases:
    """Yield the number of buildings of each split."""
    counts = {"train": 0} | {name: split.buildings for name, split in facts.splits.items()}
    return (Case(name, count, f"{name}: {count} buildings") for name, count in counts.items())


def without_quadrant(split: Summary) -> Told:
    """Return the share of damaged buildings of unknown quadrant, which training leaves out of the quadrant loss."""
    damaged = int(split.categories[1:].sum())
    unknown = split.quadrant_unknown
    return (unknown / damaged, f"{unknown} of {damaged} damaged buildings have no quadrant") if damaged else None


def damage(facts: Facts) -> Cases:
    """Yield the damaged and undamaged buildings of each split; only `train` must have both."""
    for name, split in facts.splits.items():
        own = (None, 1) if name == "train" else (1, None)
        for kind, count in _damage(split).items() if split.buildings else ():
            yield Case(f"{name}, {kind}", count, f"{name}: {count} {kind} buildings", own)


def rarer_kind(facts: Facts) -> Cases:
    """Yield the share of the rarer class, damaged or undamaged, in `train`."""
    if facts.train and facts.train.categories.sum():
        counts = _damage(facts.train)
        rarer = min(counts, key=lambda kind: (counts[kind], kind))
        total = sum(counts.values())
        yield Case(f"train, {rarer}", counts[rarer] / total, f"train: {counts[rarer]} of {total} are {rarer}")


def _damage(split: Summary) -> dict[str, int]:
    return {"damaged": int(split.categories[1:].sum()), "undamaged": int(split.categories[0])}


def shares(counted: Callable[[Summary], Any], named: Sequence[str]) -> Callable[[Facts], Cases]:
    """Return what yields the share of each kind in `train`."""

    def cases(facts: Facts) -> Cases:
        counts = counted(facts.train).tolist() if facts.train else []
        total = sum(counts)
        for name, count in zip(named, counts, strict=True) if total else ():
            yield Case(f"train, {name}", count / total, f"train: {count} of {total} are {name}")

    return cases


# --- buildings and features ---


def leaks(found: Sequence[Leak], text: str, within: tuple[float | None, float | None] | None = None) -> Cases:
    """Yield what splits share; `within` are the bounds of warning and failure for duplicates in one split."""
    for leak in found:
        one, other = leak.splits
        where = f"twice in {one}" if one == other else f"in {one} and {other}"
        example = f", as {leak.example}" if leak.example else ""
        yield Case(where, leak.count, f"{leak.count} {text} {where}{example}", within if one == other else None)


def shared_blocks(facts: Facts) -> Cases | RuleFinding:
    """Yield the blocks in two splits."""
    if facts.blocks_shared is None:
        advice = "Report the blocks of each split."
        return RuleFinding("block_leak", "warn", None, 0, "", "not looked at: no blocks given", advice)
    return leaks(facts.blocks_shared, "blocks")


def not_finite(facts: Facts) -> Cases:
    """Yield the values of each table and split that are not finite."""
    for name, split in facts.splits.items():
        for table, moments in split.moments.items():
            count = int(moments.bad.sum())
            where = split.first_bad.get(table, f"split {name}, {table}")
            text = f"{where} found, a finite number needed ({count} such values)"
            yield Case(where, count, text if count else "all values are finite numbers")


def constant(facts: Facts) -> list[Case] | RuleFinding:
    """Return the columns of `train` that do not vary."""
    train = facts.train
    if train is None or train.buildings < 2:
        reason = "not looked at: under two buildings in train"
        return RuleFinding("constant", "warn", None, 0, "", reason, "Give more buildings.")
    found = [
        f"{table}.{column.name}"
        for table, columns in TABLES.items()
        for j, column in enumerate(columns)
        if train.moments[table].low[j] >= train.moments[table].high[j]
    ]
    text = f"train: {len(found)} columns have one value only" + (f": {', '.join(found)}" if found else "")
    return [Case("train", len(found), text)]


def skews(facts: Facts) -> Cases:
    """Yield the skewness of each column of `train`."""
    for table, moments in facts.train.moments.items() if facts.train else ():
        for column, value in zip(TABLES[table], moments.skew.tolist(), strict=True):
            where = f"train, {table}.{column.name}"
            yield Case(where, abs(value), f"{where}: skewness {value:.3g}")


def from_train(facts: Facts) -> Cases:
    """Yield the population stability index of each column of the other splits against `train`."""
    for name, shifts in facts.shifts.items():
        for key, shift in shifts.items():
            where = f"{name} from train, {key}"
            text = f"{where}: population stability index {shift.psi:.3g} (by chance up to {shift.psi_chance:.2g})"
            yield Case(where, shift.psi, text, (max(facts.params.max_psi, shift.psi_chance), None))
