"""Read the verdict in a `gate.json`, of either family."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plumbline.core.errors import GateRefused, InputError

GATE = "gate.json"
"""File of the stage `gate` with the verdict."""
FORMAT = 2
"""Format of `gate.json`: 2 has confidence bounds of drops; 1 had none, and no such key."""


def make_verdict(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the verdict on judged rules: `pass` only if at least one exists and all are met."""
    passed = bool(results) and all(result["passed"] for result in results)
    return {"format": FORMAT, "verdict": "pass" if passed else "fail", "rules": results}


def failed_rules(gate: Mapping[str, Any]) -> list[str]:
    """Return the sentences of the failed rules; one sentence if the gate has no rules."""
    if not gate["rules"]:
        return ["no rule of gate.rules is asked here, and without one nothing passes"]
    return [str(rule["text"]) for rule in gate["rules"] if not rule["passed"]]


def check_format(gate: Mapping[str, Any], path: object) -> None:
    """Refuse a gate.json of an unknown format: a `pass` there may mean something else.

    Raises:
        InputError: it is of another format than 1 or 2.
    """
    version = gate.get("format", 1)
    if isinstance(version, bool) or version not in (1, FORMAT):
        raise InputError(
            f"{path}: gate of format {version!r} found, 1 to {FORMAT} are known. Use the version "
            "of Plumbline that wrote it, or run `plumbline gate` again.",
            key="gate.other_format",
        )


def require_pass(gate: Any, path: Path) -> None:
    """Refuse every verdict but `pass`.

    Raises:
        GateRefused: the verdict is another one, or there is none.
        InputError: it is of a format that this version does not know.
    """
    if not isinstance(gate, dict) or gate.get("verdict") != "pass":
        reasons = (
            failed_rules(gate)
            if isinstance(gate, dict) and "rules" in gate
            else ["no verdict found"]
        )
        raise GateRefused(
            f"{path}: not released. " + "; ".join(reasons) + ".", key="gate.not_passed"
        )
    check_format(gate, path)
