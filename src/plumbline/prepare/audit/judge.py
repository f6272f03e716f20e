"""Judge a rule of the audit by the worst of the places that it looks at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from plumbline.params import Audit
from plumbline.prepare.audit.distributions import ColumnShift
from plumbline.prepare.audit.summary import Leak, Summary

Status = Literal["pass", "warn", "fail"]
ORDER: tuple[Status, ...] = ("fail", "warn", "pass")
"""Statuses, the worst first."""
NAMED = 5
"""Largest number of further places that a reason names."""
Bounds = tuple[float | None, float | None]
"""Bounds of warning and of failure; None: no such bound."""


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
    """Blocks in two splits; None: the report names no blocks."""
    shifts: Mapping[str, Mapping[str, ColumnShift]]
    """Split -> column -> shift from `train`."""

    @property
    def train(self) -> Summary | None:
        """The split that is learnt from."""
        return self.splits.get("train")


class Case(NamedTuple):
    """One place that a rule looks at."""

    where: str
    value: float
    text: str
    """Description of the place, with its figure."""
    bounds: Bounds | None = None
    """Bounds in place of the rule's."""


class RuleFinding(NamedTuple):
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


Bound = str | float | None
"""A value, or the name of the parameter of `prepare.audit` that has it; None: no such bound."""


@dataclass(frozen=True)
class AuditRule:
    """One row of the table of rules."""

    name: str
    look: Callable[[Facts], Iterable[Case]]
    """Function that yields the places."""
    advice: str
    """Advice where a value is beyond a bound."""
    warn: Bound = None
    fail: Bound = None
    low: bool = False
    """True if a value below a bound is beyond it, rather than one above."""
    nothing: str = ""
    """Reason for having no place: then the rule warns, because it checked nothing. Without a
    reason, a rule without a place passes."""

    def judge(self, facts: Facts) -> RuleFinding:
        """Judge the rule by its worst place."""
        warn, fail = (
            getattr(facts.params, b) if isinstance(b, str) else b for b in (self.warn, self.fail)
        )
        judged = [
            (self._status(case, case.bounds or (warn, fail)), case) for case in self.look(facts)
        ]
        if not judged:
            status: Status = "warn" if self.nothing else "pass"
            return RuleFinding(
                self.name,
                status,
                None,
                fail if warn is None else warn,
                "",
                self.nothing,
                self.advice,
            )
        judged.sort(
            key=lambda row: (
                ORDER.index(row[0]),
                row[1].value * (1 if self.low else -1),
                row[1].where,
            )
        )
        status, worst = judged[0]
        places = [case.where for verdict, case in judged[1:] if verdict == status != "pass"]
        reason = f"{worst.where}: {worst.text}"
        if places:
            reason += f"; {len(places)} more: {', '.join(places[:NAMED])}" + (
                ", ..." if len(places) > NAMED else ""
            )
        first, second = worst.bounds or (warn, fail)
        bound = second if status == "fail" or first is None else first
        return RuleFinding(self.name, status, worst.value, bound, worst.where, reason, self.advice)

    def _status(self, case: Case, bounds: Bounds) -> Status:
        """Return the verdict on one place."""
        warns, fails = (
            b is not None and (case.value < b if self.low else case.value > b) for b in bounds
        )
        return "fail" if fails else "warn" if warns else "pass"
