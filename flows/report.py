"""Report a run at its end: the gate, the figures beside the baseline, the places of the results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console

GATE = Path("data/gate/gate.json")
METRICS = Path("data/validate/metrics.json")
PREDICTIONS = Path("data/predict/predictions.gpkg")
MAP = Path("data/predict/map.html")
FIELD = Path("data/restore/field.tif")

ARTIFACTS = {
    "float32": "float32",
    "pruned": "pruned",
    "fp16": "fp16",
    "int8": "int8",
    "baseline": "baseline",
    "gaussian_process": "Gaussian process",
}
"""Columns in the order shown, with their headers; one that was not measured is left out."""
ROWS = {
    "quadrant_accuracy": "quadrant accuracy",
    "quadrant_macro_f1": "quadrant macro-F1",
    "severity_mae": "severity MAE (permille)",
    "severity_r2": "severity R²",
    "interval_coverage": "interval coverage",
    "rmse_mm": "RMSE (mm)",
    "psnr_db": "PSNR (dB)",
    "ssim": "SSIM",
    "gradient_error_mm_m": "gradient error (mm/m)",
    "crps_mm": "CRPS (mm)",
    "coverage": "coverage of the 90 % interval",
    "missed_share": "missed, of 1.5 permille and more",
    "damage_calibration_2": "calibration error of damage at 2 %",
    "parity_probability": "parity, probability",
    "parity_severity_permille": "parity, severity (permille)",
    "parity_mm": "parity (mm)",
    "size_bytes": "size (bytes)",
}
"""Metrics in the order shown; one that was not measured is left out."""


def version_of(package: Path) -> str:
    """Return the version in a package's manifest."""
    return str(_read(package / "manifest.json").get("version", "unknown"))


def verdict() -> str:
    """Return the verdict of the gates."""
    return str(_read(GATE).get("verdict", "none"))


def failed_rules() -> list[str]:
    """List each rule that did not pass, with its figure and bound."""
    return [str(rule["text"]) for rule in _rules() if rule.get("passed") is not True]


def markdown() -> str:
    """Return the gate table and the figures, for Prefect to show beside the run."""
    rules = [
        [str(rule["text"]), "pass" if rule.get("passed") is True else "**fail**"]
        for rule in _rules()
    ]
    return "\n".join(
        [
            f"# Gate: {verdict()}",
            "",
            *_markdown_table(["rule", "verdict"], rules),
            "",
            "# Figures on the test split",
            "",
            *_markdown_table(*_figures()),
        ]
    )


def show(console: Console, closing: dict[str, str]) -> None:
    """Print the figures and then `closing` (name: value)."""
    header, figures = _figures()
    # Within the 80 columns that a log is taken to have.
    widths = [max(10, len(name) + 2) for name in header[1:]]
    for row in [header, *figures] if figures else []:
        cells = "".join(f"{cell:>{width}}" for cell, width in zip(row[1:], widths, strict=True))
        console.print(f"{row[0]:<28}{cells}", highlight=False)
    for name, value in closing.items():
        console.print(f"{name}: {value}", highlight=False, soft_wrap=True, markup=False)


def _figures() -> tuple[list[str], list[list[str]]]:
    """Return header and rows of the table of figures."""
    everything = _read(METRICS).get("all", {})
    columns = [artifact for artifact in ARTIFACTS if artifact in everything]
    figures = [
        [label, *(_number(everything[artifact].get(metric)) for artifact in columns)]
        for metric, label in ROWS.items()
    ]
    header = ["metric", *(ARTIFACTS[artifact] for artifact in columns)]
    return header, [row for row in figures if any(cell != "-" for cell in row[1:])]


def _rules() -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = _read(GATE).get("rules", [])
    return rules


def _number(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _markdown_table(header: list[str], rows: list[list[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


def _read(path: Path) -> dict[str, Any]:
    """Read a JSON file; return nothing without it, since a report shows what there is and
    the gates fail closed."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
