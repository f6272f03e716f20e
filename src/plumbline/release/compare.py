"""Candidate against champion on the same test buildings: the rules that only a promotion can check."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from plumbline.console import log
from plumbline.errors import GateRefused, InputError
from plumbline.export.package import MANIFEST, MODELS, open_package, verify_package
from plumbline.files import sha256_folder
from plumbline.params import Validate
from plumbline.prepare.shards import load_shards
from plumbline.validate.comparisons import drops_of
from plumbline.validate.gates import WORST, check_format, evaluate, failed_rules
from plumbline.validate.metrics import Figures
from plumbline.validate.slices import slices
from plumbline.validate.stage import as_judged, slice_figures


def compare_with_champion(candidate: Path, champion: Path, prepared: Path, params: Validate) -> None:
    """Run both packages on the test split and apply the rules with `max_drop_vs: champion`.

    Of the champion, its default model is run: the one that answers today. Both are run on the candidate's test data,
    whatever the champion was validated on: figures of different buildings are never compared. Where the champion is of
    other data, it may have been trained on some of these buildings; that can only speak for the champion.

    Args:
        candidate, champion: package folders. prepared: folder of the stage `prepare`. params: section `validate`.

    Raises:
        GateRefused: a rule is not met.
        InputError: a package is damaged, the champion takes fewer scatterers than there are, the candidate's gate is of
            a format that this version does not know, or the test data are not those the candidate was validated on.
    """
    rules = [rule for rule in params.gates if rule.max_drop_vs == "champion"]
    test = load_shards(prepared / "test")
    about = verify_package(candidate)
    check_format(about.gate, candidate / MANIFEST)
    if sha256_folder(prepared / "test") != about.hashes.get("test_data"):
        raise InputError(f"{prepared / 'test'}: not the test data that {candidate} was validated on.")
    manifest, reigning = open_package(champion)
    if manifest.hashes.get("test_data") != about.hashes.get("test_data"):
        log.warning("Champion %s was validated on other test data; both are run on those of the candidate. It may have "
                    "been trained on some of them.", manifest.version)  # fmt: skip
    longest, most = int(np.asarray(test.length).max(initial=0)), manifest.prepare.max_points
    if longest > most:
        raise InputError(
            f"{prepared / 'test'}: a building with {longest} scatterers, and champion {manifest.version} takes {most}. "
            f"Compare at prepare.max_points {most} first, or roll the champion back to one that takes as many."
        )
    everyone = {"champion": as_judged(reigning.answer(test))}
    for file, name in MODELS.items():
        if file not in about.files:
            continue  # a package from before there was such a model; a rule that names it finds no figure, and fails
        everyone[name] = as_judged(open_package(candidate, file)[1].answer(test))
    parts = slices(test, about.prepare.max_strain_error_permille)
    wanted = {rule.slice for rule in rules}
    table: dict[str, dict[str, Figures]] = {
        part: {name: slice_figures(one, test, np.asarray(inside), params.min_slice) for name, one in everyone.items()}
        for part, inside in parts.items()
        if part in wanted or WORST in wanted
    }
    if not rules:
        log.warning("No rule compares with the champion (%s); it is replaced without a comparison.", manifest.version)
        return
    gate = evaluate(rules, table, drops_of(rules, everyone, test, parts, params.min_slice), params)
    for rule in gate["rules"]:
        log.info("%s champion %s: %s", "met" if rule["passed"] else "not met", manifest.version, rule["text"])
    if gate["verdict"] != "pass":
        raise GateRefused(
            f"{candidate}: not promoted, champion {manifest.version} stays. " + "; ".join(failed_rules(gate)) + "."
        )
