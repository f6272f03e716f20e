"""Compare candidate and champion on the same test scenes, by the rules that only a promotion can check."""

from __future__ import annotations

from pathlib import Path

from plumbline.core.console import log
from plumbline.core.errors import GateRefused, InputError
from plumbline.core.files import atomic_folder, sha256_folder, write_csv, write_json
from plumbline.export.restoration.package import open_fields, verify_fields
from plumbline.model.restoration.measure import restore_scenes
from plumbline.params.restoration import RestorationParams
from plumbline.prepare.restoration.scenes import load_scenes
from plumbline.validate.gates.rules import failed_rules
from plumbline.validate.restoration.gates import evaluate
from plumbline.validate.restoration.stage import ALL, limited, settings_of

CHAMPION = "champion"


def compare_fields(candidate: Path, champion: Path, prepared: Path, params: RestorationParams, out: Path) -> Path:
    """Run both packages on the test scenes and apply the rules with `max_ratio_to: champion`.

    Returns:
        `out`, with `gate.json` and `scenes.csv`; a refusal is written too.

    Raises:
        GateRefused: a rule is not met.
        InputError: a package is damaged, or the scenes are not those that the candidate was validated on.
    """
    if sha256_folder(prepared / "test") != verify_fields(candidate).hashes.get("test_data"):
        raise InputError(f"{prepared / 'test'}: not the test data that {candidate} was validated on.")
    scenes, how = limited(load_scenes(prepared / "test").of_domain("plain"), params), settings_of(params)
    both = {}
    for name, folder in (("fp16", candidate), (CHAMPION, champion)):
        package = open_fields(folder)
        both[name] = restore_scenes(package.model, package.spread, scenes, how, name)
    rules = [rule for rule in params.validate_.gates if rule.max_ratio_to == CHAMPION]
    gate = evaluate(rules, {ALL: both}, {}, params.validate_)
    if not rules:
        log.warning("No rule compares with the champion; it is replaced without a comparison.")
        gate["verdict"] = "not compared"
    rows = [{"model": who, "scene": n, **row} for who, own in both.items() for n, row in enumerate(own)]
    with atomic_folder(out) as folder:
        write_json(folder / "gate.json", gate)
        write_csv(rows, folder / "scenes.csv")
    if gate["verdict"] == "fail":
        raise GateRefused(f"{candidate}: not promoted. " + "; ".join(failed_rules(gate)) + f". See {out}.")
    return out
