"""Run the audit: one pass over each split, then the rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plumbline.core.errors import InputError
from plumbline.core.files import atomic_file, write_json
from plumbline.params import Audit
from plumbline.prepare.audit.distributions import (
    columns_of,
    compare,
    plain,
    shift_statistics,
    split_statistics,
)
from plumbline.prepare.audit.judge import ORDER, Facts, RuleFinding, Status
from plumbline.prepare.audit.page import audit_page
from plumbline.prepare.audit.rules import RULES
from plumbline.prepare.audit.summary import SAMPLE, building_name, find_leaks, summarise


@dataclass(frozen=True)
class AuditResult:
    """Result of an audit."""

    rules: tuple[RuleFinding, ...]
    """Failed ones first, then warnings; in the order of `RULES` otherwise."""
    statistics: dict[str, Any]

    @property
    def verdict(self) -> Status:
        """The worst status of all rules."""
        return min((rule.status for rule in self.rules), key=ORDER.index)

    def to_json(self) -> dict[str, Any]:
        """Return the content of `audit.json`: `verdict`, `rules`, `statistics`."""
        rules = [rule._asdict() for rule in self.rules]
        return {"verdict": self.verdict, "rules": plain(rules), "statistics": self.statistics}

    def html(self) -> str:
        """Return the page of rules and plots as one self-contained file."""
        return audit_page(self.to_json())

    def write(self, folder: Path) -> None:
        """Write `audit.json` and `audit.html` into a folder, each atomically."""
        write_json(folder / "audit.json", self.to_json())
        with atomic_file(folder / "audit.html") as temporary:
            temporary.write_text(self.html(), encoding="utf-8")

    def raise_if_failed(self, where: Path) -> None:
        """Stop if a rule failed, with the evidence kept.

        Args:
            where: folder that outlives the failed stage; the files of `write` are left there.

        Raises:
            InputError: a rule failed; the message names each with its figure, its bound and
                what to do.
        """
        failed = [rule for rule in self.rules if rule.status == "fail"]
        if not failed:
            return
        self.write(where)
        lines = [
            f"  {rule.name}: {rule.value:.6g} found, bound {rule.bound:.6g} ({rule.reason}). "
            f"{rule.advice}"
            for rule in failed
        ]
        raise InputError(
            "\n".join(
                [
                    f"prepare: the audit failed; evidence in {where / 'audit.html'} and "
                    "audit.json beside it.",
                    *lines,
                ]
            ),
            key="audit.failed",
        )


def audit(splits: Mapping[str, Any], report: Mapping[str, Any], params: Audit) -> AuditResult:
    """Audit the prepared splits before training.

    Every building is read once, in chunks. What stays in memory: two samples of `SAMPLE`
    rows a split, the moments, and 16 bytes a building to find those given twice (160 MB for
    10 million).

    Args:
        splits: name -> `Sequences`, or what has them as `parts` (shards). `train` is what
            the others are compared with.
        report: what came in:

            - `cities`: name -> `notes` (list of sentences: what a reader decided) and
              `tracks`, a list of `name`, `points` and the figures of `report_tracks`. The
              rule of a missing figure warns.
            - `blocks`: split -> names of its blocks (`city/x/y`), to check that none is in two.
        params: section `prepare.audit`.
    """
    summaries = {name: summarise(name, sequences, SAMPLE) for name, sequences in splits.items()}
    columns = {name: columns_of(summary) for name, summary in summaries.items()}
    train = columns.get("train")
    compared = {name: values for name, values in columns.items() if name != "train"}
    blocks = report.get("blocks")
    if blocks is not None:
        blocks = {name: np.unique(np.array(named, str)) for name, named in blocks.items()}
    facts = Facts(
        params=params,
        cities=report.get("cities", {}),
        splits=summaries,
        buildings_shared=find_leaks(
            {name: summary.names_hash for name, summary in summaries.items()},
            lambda name, key: building_name(splits[name], key),
        ),
        twins=find_leaks(
            {name: summary.geometry_hash for name, summary in summaries.items()}, lambda *_: ""
        ),
        blocks_shared=None if blocks is None else find_leaks(blocks, lambda _, block: str(block)),
        shifts={name: compare(train, values) for name, values in compared.items()} if train else {},
    )
    findings = [rule.judge(facts) for rule in RULES]
    statistics = {
        "cities": facts.cities,
        "blocks": None if blocks is None else {name: len(named) for name, named in blocks.items()},
        "splits": {name: split_statistics(summary) for name, summary in summaries.items()},
        "drift": {name: shift_statistics(shifts) for name, shifts in facts.shifts.items()},
    }
    ranked = tuple(sorted(findings, key=lambda rule: ORDER.index(rule.status)))
    return AuditResult(ranked, plain(statistics))
