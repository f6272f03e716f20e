"""Find the places that the rules of the audit look at, each with a figure and what was found there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any

from plumbline.core.strain import DIFFICULTIES
from plumbline.prepare.audit.distributions import ColumnShift, correlations, outlier_share
from plumbline.prepare.audit.judge import Case, Facts, RuleFinding
from plumbline.prepare.audit.summary import TABLES, Leak, Summary
from plumbline.sources.points.epochs import DAYS_A_YEAR

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


def in_cities(look: Callable[[Report], Told]) -> Callable[[Facts], Cases]:
    """Return what yields a case for each city with a figure that `look` finds in its report."""

    def cases(facts: Facts) -> Cases:
        for city, report in facts.cities.items():
            if found := look(report):
                yield Case(city, found[0], f"{city}: {found[1]}")

    return cases


def figure(key: str, text: str) -> Callable[[Report], Told]:
    """Return what reads a figure of a report, with its description."""

    def look(report: Report) -> Told:
        value = report.get(key)
        return None if value is None else (value, f"{value:.4g} {text}")

    return look


def portion(part: str, whole: str, text: str) -> Callable[[Report], Told]:
    """Return what reads the share of one count of a report in another."""

    def look(report: Report) -> Told:
        some, count = report.get(part), report.get(whole)
        return (some / count, f"{some} of {count} {text}") if count and some is not None else None

    return look


def reasons(key: str, whole: str, text: str) -> Callable[[Report], Told]:
    """Return what reads the share of things that were left out, with their number by reason; `text` has the count."""

    def look(report: Report) -> Told:
        left = {reason: int(n) for reason, n in (report.get(key) or {}).items() if n}
        count = report.get(whole)
        said = ", ".join(f"{n} {reason}" for reason, n in left.items()) or "none"
        return (sum(left.values()) / count, f"{text.format(count)}: {said}") if count else None

    return look


def points_left(facts: Facts) -> Cases:
    """Yield the points of each city and track; only a city without any fails."""
    for city, report in facts.cities.items():
        tracks = [(f"{city}, {track.get('name')}", int(track.get("points") or 0)) for track in report.get("tracks", [])]
        total = sum(count for _, count in tracks)
        yield Case(city, total, f"{city}: {total} points are left, in {len(tracks)} tracks", (None, 1))
        for where, count in tracks:
            yield Case(where, count, f"{where}: {count} points are left", (1, None))


def years(track: Report) -> Told:
    """Return the years that a track covers."""
    span = _span(track)
    return (((span[1] - span[0]).days) / DAYS_A_YEAR, f"{span[0]} to {span[1]}") if span else None


def period_shares(facts: Facts) -> Cases:
    """Yield the share of its city's period that each track covers."""
    for city, report in facts.cities.items():
        spans = [(track, span) for track in report.get("tracks", []) if (span := _span(track))]
        for track, (first, last) in spans:
            whole = (max(span[1] for _, span in spans) - min(span[0] for _, span in spans)).days
            share = (last - first).days / whole if whole else 1.0
            where = f"{city}, {track.get('name')}"
            yield Case(where, share, f"{where}: covers {first} to {last} of the city's period")


def _span(track: Report) -> tuple[date, date] | None:
    first, last = track.get("first_epoch"), track.get("last_epoch")
    return (date.fromisoformat(str(first)), date.fromisoformat(str(last))) if first and last else None


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


def categories(facts: Facts) -> Cases:
    """Yield the buildings of each category in each split."""
    for name, split in facts.splits.items():
        for category, count in enumerate(split.categories.tolist() if split.buildings else []):
            yield Case(f"{name}, category {category}", count, f"{name}: {count} buildings are of category {category}")


def levels(facts: Facts) -> Cases:
    """Yield the buildings in each split of each level of difficulty that `train` has."""
    for name, split in facts.splits.items() if facts.train else ():
        for code, level in enumerate(DIFFICULTIES, 1):
            if split.buildings and facts.train and facts.train.difficulty[code]:
                count = int(split.difficulty[code])
                yield Case(f"{name}, {level}", count, f"{name}: {count} buildings are {level}")


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


def outliers(facts: Facts) -> Cases:
    """Yield the share of each column's values in `train` far from the median, in robust standard deviations."""
    z = facts.params.outlier_z
    for key, values in facts.columns["train"].values.items() if facts.train else ():
        share = outlier_share(values, z)
        yield Case(f"train, {key}", share, f"train, {key}: {share:.2%} are beyond a robust z of {z:g}")


def skews(facts: Facts) -> Cases:
    """Yield the skewness of each column of `train`."""
    for table, moments in facts.train.moments.items() if facts.train else ():
        for column, value in zip(TABLES[table], moments.skew.tolist(), strict=True):
            where = f"train, {table}.{column.name}"
            yield Case(where, abs(value), f"{where}: skewness {value:.3g}")


def correlated(facts: Facts) -> Cases:
    """Yield the correlation of each pair of columns of `train`."""
    for table in TABLES if facts.train else ():
        for one, other, r in correlations(table, facts.train.sampled(table)) if facts.train else ():
            yield Case(f"train, {one} and {other}", abs(r), f"train: {one} and {other} correlate at {r:.6f}")


def from_train(facts: Facts) -> Cases:
    """Yield the population stability index of each column of the other splits against `train`."""
    for name, shifts in facts.shifts.items():
        yield from _drift(f"{name} from train", shifts, facts)


def from_reference(facts: Facts) -> list[Case] | RuleFinding:
    """Return the population stability index of each column of `train` against the reference."""
    if facts.params.reference is None:
        advice = "Name an earlier run's reference.json in `prepare.audit.reference`."
        return RuleFinding("drift_reference", "pass", None, None, "", "", advice)
    cases = list(_drift("train from reference", facts.reference_shift, facts, facts.params.refuse_psi))
    known = set(facts.reference.values) if facts.reference else set()
    here = {key for columns in facts.columns.values() for key in columns.values}
    if odd := sorted(known ^ here):
        text = f"reference: {len(odd)} columns are not in both: {', '.join(odd[:3])}"
        cases.append(Case("reference", len(odd), text, (0, None)))
    return cases


def _drift(title: str, shifts: Mapping[str, ColumnShift], facts: Facts, refuse: float | None = None) -> Cases:
    for key, shift in shifts.items():
        text = f"{title}, {key}: population stability index {shift.psi:.3g} (by chance up to {shift.psi_chance:.2g})"
        fail = None if refuse is None else max(refuse, shift.psi_chance)
        yield Case(f"{title}, {key}", shift.psi, text, (max(facts.params.max_psi, shift.psi_chance), fail))
