"""Form a rule's verdict from all the cases that it looks at, or track by track."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from plumbline.params import Audit
from plumbline.prepare.audit.distributions import ColumnShift, ColumnValues
from plumbline.prepare.audit.summary import Leak, Summary

Status = Literal["pass", "warn", "fail"]
ORDER: tuple[Status, ...] = ("fail", "warn", "pass")
"""Worst first."""
NAMED = 5
"""Most further places that a reason names."""


@dataclass(frozen=True)
class Facts:
    """Data that the rules look at."""

    params: Audit
    cities: Mapping[str, Mapping[str, Any]]
    """The report of each city, see `audit`."""
    splits: Mapping[str, Summary]
    buildings_shared: Sequence[Leak]
    twins: Sequence[Leak]
    blocks_shared: Sequence[Leak] | None
    """None: the report names no blocks."""
    columns: Mapping[str, ColumnValues]
    """Sampled columns of each split."""
    shifts: Mapping[str, Mapping[str, ColumnShift]]
    """Split -> column -> shift from `train`."""
    reference: ColumnValues | None
    reference_shift: Mapping[str, ColumnShift]
    """Column -> shift of `train` from the reference."""

    @property
    def train(self) -> Summary | None:
        """The split that is learnt from."""
        return self.splits.get("train")


@dataclass(frozen=True)
class Case:
    """One place that a rule looks at."""

    where: str
    value: float
    text: str
    """What was found there, with its figure."""
    own: tuple[float | None, float | None] | None = None
    """Bounds of warning and of failure in place of the rule's."""


@dataclass(frozen=True)
class RuleFinding:
    """The verdict of one rule."""

    name: str
    status: Status
    value: float | None
    """The worst figure found."""
    bound: float | None
    """The bound that it is beyond, or the first it would meet."""
    where: str
    reason: str
    advice: str

    def to_json(self) -> dict[str, Any]:
        """Return the finding, ready for JSON."""
        return dict(self.__dict__)


def judge_cases(
    name: str,
    cases: Sequence[Case],
    advice: str,
    *,
    warn: float | None = None,
    fail: float | None = None,
    low: bool = False,
    nothing: str = "",
) -> RuleFinding:
    """Judge a rule by the worst of its cases.

    Args:
        name: of the rule.
        cases: the places looked at.
        advice: what to do where it is beyond a bound.
        warn, fail: a value above (with `low`: below) is beyond; None: no such bound.
        low: small values are bad.
        nothing: why there is no case; then the rule warns, because what is not looked at cannot pass. Without it, to
            have no case is to pass.
    """
    if not cases:
        return RuleFinding(
            name, "warn" if nothing else "pass", None, fail if warn is None else warn, "", nothing, advice
        )

    def bounds(case: Case) -> tuple[float | None, float | None]:
        return (warn, fail) if case.own is None else case.own

    def status(case: Case) -> Status:
        beyond = [b is not None and (case.value < b if low else case.value > b) for b in bounds(case)]
        return "fail" if beyond[1] else "warn" if beyond[0] else "pass"

    def badness(case: Case) -> tuple[int, float, str]:
        return ORDER.index(status(case)), case.value if low else -case.value, case.where

    ranked = sorted(cases, key=badness)
    worst = ranked[0]
    found = status(worst)
    others = [case for case in ranked[1:] if status(case) == found]
    reason = worst.text
    if found != "pass" and others:
        named = ", ".join(case.where for case in others[:NAMED])
        reason += f"; {len(others)} more: {named}" + (", ..." if len(others) > NAMED else "")
    first, second = bounds(worst)
    bound = second if found == "fail" or first is None else first
    return RuleFinding(name, found, worst.value, bound, worst.where, reason, advice)


Track = dict[str, Any]
"""The report of a track, or of its city; see `audit`."""
Told = tuple[float, str] | None
"""A figure, and what it is; None: the report does not say."""


def track_cases(facts: Facts, look: Callable[[Track, Track], Told]) -> Iterator[Case]:
    """Yield a case for each track in which `look` finds a figure, given the reports of track and city."""
    for city, report in facts.cities.items():
        for track in report.get("tracks", []):
            found = look(track, dict(report))
            if found is not None:
                where = f"{city}, {track.get('name')}"
                yield Case(where, found[0], f"{where}: {found[1]}")


def figure(track: Track, key: str, text: str) -> Told:
    """Return a figure of a track's report with its description; None if it is missing."""
    value = track.get(key)
    return None if value is None else (value, f"{value:.4g} {text}")


def silent(key: str, stage: str = "ingest") -> str:
    """Return the message that tracks were not looked at, because the report of `stage` lacks `key`."""
    return f"not looked at: the report of `{stage}` has no {key}"
