"""Run the stage `gate`: judge what the stage `validate` measured by the rules of `gate.rules`."""

from __future__ import annotations

from pathlib import Path

from plumbline.core.console import log, warn
from plumbline.core.files import atomic_folder, read_json, sha256_folder, write_json
from plumbline.params import Gates
from plumbline.validate.evidence import FILE, read_answers
from plumbline.validate.gates.rules import drops_of, evaluate
from plumbline.validate.gates.verdict import GATE, failed_rules
from plumbline.validate.report.content import CHAMPION, with_verdict
from plumbline.validate.report.page import write_report


def gate(validated: Path, params: Gates, out: Path) -> None:
    """Write `gate.json` (verdict and rules) and the report into `out`, also if the verdict
    is `fail`.

    No model is run. Rules against the champion are left for the promotion, which knows it;
    `gate.json` lists them.

    Args:
        validated: folder of the stage `validate`. params: section `gate`. out: folder.

    Raises:
        InputError: the evidence is missing or damaged, or a rule names an unknown city.
    """
    evidence, measured = read_answers(validated / FILE), read_json(validated / "measured.json")
    params.check_cities(measured["cities"])
    rules = [rule for rule in params.rules if rule.max_drop_vs != CHAMPION]
    verdict = evaluate(
        rules, read_json(validated / "metrics.json"), drops_of(rules, evidence), params
    )
    verdict["left_for_promotion"] = [
        rule.model_dump(exclude_none=True) for rule in params.rules if rule.max_drop_vs == CHAMPION
    ]
    verdict |= {key: measured[key] for key in ("test_data", "exported")}
    verdict["validated"] = {"sha256": sha256_folder(validated)}
    with atomic_folder(out) as folder:
        write_json(folder / GATE, verdict)
        write_report(folder, with_verdict(read_json(validated / "figures.json"), verdict))
    n_passed = sum(rule["passed"] for rule in verdict["rules"])
    log.info("gate: %s, %d of %d rules met", verdict["verdict"], n_passed, len(verdict["rules"]))
    for sentence in failed_rules(verdict):
        warn("not met: %s", sentence, key="gate.rule_failed")
