"""Judge a rule of the audit by the worst of the places that it looks at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from plumbline.params import Audit
from plumbline.prepare.audit.distributions import ColumnShift
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
    shifts: Mapping[str, Mapping[str, ColumnShift]]
    """Split -> column -> shift from `train`."""

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


Bound = str | float | None
"""A value, or the name of the parameter of `prepare.audit` that has it; None: no such bound."""


@dataclass(frozen=True)
class AuditRule:
    """One row of the table of rules."""

    name: str
    look: Callable[[Facts], Iterable[Case] | RuleFinding]
    """Finds the places; a finding in their place where the rule cannot be applied."""
    advice: str
    """What to do where a value is beyond a bound."""
    warn: Bound = None
    fail: Bound = None
    low: bool = False
    """Whether a value below a bound is beyond it, rather than one above."""
    nothing: str = ""
    """Why there is no place; then the rule warns, because what is not looked at cannot pass. Without it, to have no
    place is to pass."""

    def judge(self, facts: Facts) -> RuleFinding:
        """Judge the rule by its worst place."""
        cases = self.look(facts)
        if isinstance(cases, RuleFinding):
            return cases
        warn, fail = (getattr(facts.params, b) if isinstance(b, str) else b for b in (self.warn, self.fail))

        def bounds(case: Case) -> tuple[float | None, float | None]:
            return (warn, fail) if case.own is None else case.own

        def status(case: Case) -> Status:
            beyond = [b is not None and (case.value < b if self.low else case.value > b) for b in bounds(case)]
            return "fail" if beyond[1] else "warn" if beyond[0] else "pass"

        def badness(case: Case) -> tuple[int, float, str]:
            return ORDER.index(status(case)), case.value if self.low else -case.value, case.where

        ranked = sorted(cases, key=badness)
        if not ranked:
            bound = fail if warn is None else warn
            return RuleFinding(
                self.name, "warn" if self.nothing else "pass", None, bound, "", self.nothing, self.advice
            )
        worst = ranked[0]
        found = status(worst)
        others = [case for case in ranked[1:] if status(case) == found]
        reason = worst.text
        if found != "pass" and others:
            named = ", ".join(case.where for case in others[:NAMED])
            reason += f"; {len(others)} more: {named}" + (", ..." if len(others) > NAMED else "")
        first, second = bounds(worst)
        bound = second if found == "fail" or first is None else first
        return RuleFinding(self.name, found, worst.value, bound, worst.where, reason, self.advice)
