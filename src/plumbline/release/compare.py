"""Compare candidate and champion on the same test buildings, by the rules that only a
promotion can check."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from plumbline.core.console import log, warn
from plumbline.core.errors import GateRefused, InputError
from plumbline.core.files import atomic_folder, read_json, sha256_folder, write_json
from plumbline.export.package import MANIFEST, MODELS, Manifest, open_package, verify_package
from plumbline.params import Params
from plumbline.prepare.features.shards import load_shards
from plumbline.release.package import model_card
from plumbline.validate.evidence import GateEvidence
from plumbline.validate.gates.rules import drops_of, evaluate
from plumbline.validate.gates.verdict import GATE, check_format, failed_rules
from plumbline.validate.measure import least_squares, size_figures, slices
from plumbline.validate.metrics import Figures, JudgedAnswers
from plumbline.validate.report.content import (
    BASELINE,
    CHAMPION,
    REFERENCE,
    report_figures,
    with_verdict,
)
from plumbline.validate.report.page import write_report
from plumbline.validate.stage import Table, as_judged, finite_figures, slice_figures


def compare_with_champion(
    candidate: Path, champion: Path, prepared: Path, params: Params, out: Path
) -> Path:
    """Run both packages on the test split, apply the rules with `max_drop_vs: champion`,
    and write the evidence.

    Of the champion, its default model is run: the one that answers today. Both are run on
    the candidate's test data, whatever the champion was validated on: figures of different
    buildings are never compared. Where the champion is of other data, it may have been
    trained on some of these buildings; that can only speak for the champion.

    Args:
        candidate, champion: package folders. prepared: folder of the stage `prepare`.
            params: the project's.
        out: folder for `gate.json` (the rules against the champion), `report.json`,
            `report.html` and MODEL_CARD.md (all rules, the champion beside the candidate).
            A refusal is written too.

    Returns:
        `out`.

    Raises:
        GateRefused: a rule is not met.
        InputError: a package is damaged, the champion takes fewer scatterers than there
            are, the candidate's gate is of a format that this version does not know, or the
            test data are not those the candidate was validated on.
    """
    rules = [rule for rule in params.gate.rules if rule.max_drop_vs == CHAMPION]
    test = load_shards(prepared / "test")
    about = verify_package(candidate)
    check_format(about.gate, candidate / MANIFEST)
    data = sha256_folder(prepared / "test")
    if data != about.hashes.get("test_data"):
        raise InputError(
            f"{prepared / 'test'}: not the test data that {candidate} was validated on.",
            key="package.other_test_data",
        )
    manifest, reigning = open_package(champion)
    if manifest.hashes.get("test_data") != data:
        warn(
            "Champion %s was validated on other test data; both are run on those of the "
            "candidate. It may have "
            "been trained on some of them.",
            manifest.version,
            key="champion.other_test_data",
        )
    longest, most = int(np.asarray(test.length).max(initial=0)), manifest.prepare.max_points
    if longest > most:
        raise InputError(
            f"{prepared / 'test'}: a building with {longest} scatterers, and champion "
            f"{manifest.version} takes {most}. Compare at prepare.max_points {most} first, or "
            "roll the champion back to one that takes as many.",
            key="champion.too_many_scatterers",
        )
    everyone: dict[str, JudgedAnswers] = {}
    for file, name in MODELS.items():
        if file not in about.files:
            # a package from before there was such a model; a rule that names it finds no
            # figure, and fails
            continue
        _, model = open_package(candidate, file)
        everyone[name] = as_judged(model.answer(test), model.category_share, test)
    everyone[BASELINE] = least_squares(test)
    everyone[CHAMPION] = as_judged(reigning.answer(test), reigning.category_share, test)
    parts = slices(test, about.prepare.max_strain_error_permille)
    table: Table = {
        part: {
            name: finite_figures(
                slice_figures(judged, test, np.asarray(inside), params.validate_.min_slice)
            )
            for name, judged in everyone.items()
        }
        for part, inside in parts.items()
    }
    evidence = GateEvidence(everyone, np.asarray(test.quadrant), np.asarray(test.severity), parts)
    gate = evaluate(rules, table, drops_of(rules, evidence), params.gate)
    if not rules:
        warn(
            "No rule compares with the champion (%s); it is replaced without a comparison.",
            manifest.version,
            key="champion.not_compared",
        )
        gate["verdict"] = "not compared"
    gate |= {"candidate": about.version, CHAMPION: manifest.version}
    gate["test_data"] = {"sha256": data, "buildings": len(test)}
    all_rules = {**gate, "rules": [*about.gate.get("rules", []), *gate["rules"]]}
    beside = _with_costs(table, about, size_figures(champion / manifest.default_model))
    content = with_verdict(report_figures(evidence, beside, CHAMPION), all_rules)
    with atomic_folder(out) as folder:
        write_json(folder / GATE, gate)
        write_report(folder, content)
        card = model_card(content, read_json(prepared / "audit" / "audit.json"))
        (folder / "MODEL_CARD.md").write_text(card, encoding="utf-8")
    for rule in gate["rules"]:
        log.info(
            "%s champion %s: %s",
            "met" if rule["passed"] else "not met",
            manifest.version,
            rule["text"],
        )
    if gate["verdict"] == "fail":
        raise GateRefused(
            f"{candidate}: not promoted, champion {manifest.version} stays. "
            + "; ".join(failed_rules(gate))
            + f". "
            f"See {out / 'report.html'}.",
            key="champion.rule_failed",
        )
    return out


def _with_costs(table: Table, about: Manifest, champion: Figures) -> Table:
    """Return the table for the report, with the candidate's figures from the stage
    `validate` and the champion's size.

    The network before pruning is in no package: of it there are the figures that the
    manifest holds, which are of the same buildings.
    """

    measured = {
        name: dict(figures)
        for name, figures in about.metrics.items()
        if isinstance(figures, Mapping)
    }
    whole = {name: measured[name] for name in (REFERENCE,) if measured.get(name)}
    whole |= {
        name: measured.get(name, {}) | figures
        for name, figures in table["all"].items()
        if name != CHAMPION
    }
    return {**table, "all": {**whole, CHAMPION: table["all"][CHAMPION] | champion}}
