"""Run the stage `approve`, of either family: what the gates refused goes no further, and
the last package stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plumbline.core.console import log
from plumbline.core.errors import GateRefused, InputError
from plumbline.core.files import atomic_folder, read_json, sha256_file, sha256_folder, write_json
from plumbline.validate.gates.verdict import GATE, require_pass

APPROVAL = "approval.json"
EVIDENCE = {
    "test_data": ("test data", "validate"),
    "exported": ("models", "validate"),
    "validated": ("figures", "gate"),
}
"""Key of a `gate.json` that has the hash of what was judged -> what that is, and the stage
to run again."""


def approve(exported: Path, gated: Path, out: Path) -> None:
    """Write `approval.json`, the hashes of the verdict and of each exported file, if the
    verdict is `pass`.

    This is a stage of its own because DVC removes the outputs of a stage before it runs: a
    stage `package` that could refuse would take the last good package away.

    Raises:
        GateRefused: the verdict is another one; the message names every failed rule with
            its figure and bound.
        InputError: an input is missing or damaged, or the verdict is on other models.
    """
    path = gated / GATE
    gate = read_json(path)
    try:
        require_pass(gate, path)
    except GateRefused as error:
        former = out.with_name("package")
        stays = f" The last good package stays in {former}." if former.is_dir() else ""
        raise GateRefused(f"{error}{stays}", key=error.key) from None
    check_evidence(gate, path, exported=sha256_folder(exported))
    files = _hashes(exported)
    with atomic_folder(out) as folder:
        write_json(folder / APPROVAL, {"format": 1, "gate": sha256_file(path), "files": files})
    log.info("approved: %d files of %s", len(files), exported)


def approved_gate(path: Path, gate_path: Path, exported: Path) -> Any:
    """Return the content of an approved `gate.json`.

    Args:
        path: of `approval.json`. gate_path: of `gate.json`. exported: folder of the stage `export`.

    Raises:
        GateRefused: the gate's file or an exported file is another than was approved, or
            the verdict is not `pass`.
        InputError: a file is missing or damaged.
    """
    approval, gate = read_json(path), read_json(gate_path)
    hashes = {gate_path.name: sha256_file(gate_path), **_hashes(exported)}
    try:
        approved = {gate_path.name: approval["gate"], **approval["files"]}
    except (KeyError, TypeError):
        raise InputError(
            f"{path}: not readable as an approval. Run `plumbline approve` again.",
            key="approval.unreadable",
        ) from None
    changed = sorted(
        name for name in {*hashes, *approved} if hashes.get(name) != approved.get(name)
    )
    if changed:
        raise GateRefused(
            f"{path}: not as approved: {', '.join(changed)}. Run `plumbline approve` again.",
            key="approval.changed_since",
        )
    require_pass(gate, gate_path)
    return gate


def check_evidence(gate: Any, path: Path, **hashes: str) -> None:
    """Refuse a verdict on other evidence.

    Args:
        gate: content of the `gate.json` at `path`. hashes: key of `EVIDENCE` -> SHA-256 of
            what is there now.

    Raises:
        InputError: the verdict is on something else.
    """
    for key, sha256 in hashes.items():
        if gate.get(key, {}).get("sha256") != sha256:
            subject, stage = EVIDENCE[key]
            raise InputError(
                f"{path}: measured on other {subject}. Run `plumbline {stage}` again.",
                key="gate.other_evidence",
            )


def _hashes(exported: Path) -> dict[str, str]:
    """Return the SHA-256 of each file below a folder, by its name there."""
    files = sorted(path for path in exported.rglob("*") if path.is_file())
    return {path.relative_to(exported).as_posix(): sha256_file(path) for path in files}
