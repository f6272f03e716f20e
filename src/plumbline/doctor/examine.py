"""Run all checks, and show the findings as lines or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from plumbline.core.console import hidden
from plumbline.doctor import installation, project
from plumbline.doctor.findings import Check, CheckState, Finding, fault


def checks(free_bytes: int) -> Mapping[str, Check]:
    """Return all checks by name, in the order in which they are shown.

    Args:
        free_bytes: bytes that shall be free on every disk, besides a run.
    """
    return {
        "python": installation.check_python,
        "extras": installation.check_extras,
        "onnxruntime": installation.check_onnxruntime,
        "gpu": installation.check_gpu,
        "environment": installation.check_environment,
        "grids": installation.check_grids,
        "params.yaml": project.check_params,
        "registry": project.check_registry,
        "disk": partial(project.check_disk, free_bytes),
    }


def examine(checks: Mapping[str, Check]) -> dict[str, list[Finding]]:
    """Run the checks in order, and return the findings of each. An error in one becomes a fault."""
    results = {}
    for name, check in checks.items():
        findings: list[Finding] = []
        try:
            findings.extend(check())
        except Exception as error:
            message = " ".join(str(error).split()) or "no message"
            findings.append(
                fault(
                    f"the check itself failed: {type(error).__name__}: {message}",
                    "Mend what the message names; if it names nothing of yours, report it as a "
                    "bug.",
                )
            )
        results[name] = [replace(f, found=hidden(f.found), mend=hidden(f.mend)) for f in findings]
    return results


def lines(results: Mapping[str, list[Finding]]) -> Iterator[str]:
    """Yield one line per finding: state, check, what was found, what to do."""
    for name, findings in results.items():
        for finding in findings:
            advice = f" -> {finding.mend}" if finding.mend else ""
            yield f"{finding.state}: {name}: {finding.found}{advice}"


def document(results: Mapping[str, list[Finding]]) -> dict[str, Any]:
    """Return the findings as a JSON document, for programs."""
    checks = [
        {"check": name, "findings": [asdict(f) for f in findings]}
        for name, findings in results.items()
    ]
    return {"faults": count_faults(results), "checks": checks}


def count_faults(results: Mapping[str, list[Finding]]) -> int:
    """Return the number of findings that are faults."""
    return sum(f.state is CheckState.FAULT for findings in results.values() for f in findings)
