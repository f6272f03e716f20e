"""Summarise a benchmark: a table, a JSON document, and advice on the artifact for this machine."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Table

from plumbline.export.package import Manifest
from plumbline.export.runtime import installed_versions
from plumbline.validate.bench.inputs import BenchInputs
from plumbline.validate.bench.run import Row

PACKAGES = ("plumbline", "torch", "onnxruntime", "onnxruntime-gpu", "onnx", "numpy")
CLEARLY = 1.05
"""A ratio of times below this is noise."""


def advice(rows: Sequence[Row], default: str) -> list[str]:
    """Name the fastest artifact here, and say of each other one whether it is slower than `default`.

    An artifact is taken at its best, over all runtimes and batches.
    """
    ran = [row for row in rows if row.artifact.endswith(".onnx") and not row.trouble]
    if not ran:
        return ["No artifact could be run on this machine."]
    quickest, most = min(ran, key=_latency), max(ran, key=_rate)
    said = [
        f"Fastest for one building: {quickest.artifact} under {quickest.runtime}, {_latency(quickest):.3g} ms.",
        f"Most buildings a second: {most.artifact} under {most.runtime}, {_rate(most):,.0f}.",
    ]
    named = {row.artifact for row in ran}
    if default not in named:
        return said
    latency = {name: min(_latency(row) for row in ran if row.artifact == name) for name in named}
    rate = {name: max(_rate(row) for row in ran if row.artifact == name) for name in named}
    for name in sorted(named - {default}):
        slower = latency[name] > CLEARLY * latency[default], rate[default] > CLEARLY * rate[name]
        faster = latency[default] > CLEARLY * latency[name], rate[name] > CLEARLY * rate[default]
        figures = (
            f"{latency[name]:.3g} ms against {latency[default]:.3g} ms, {rate[name]:,.0f} buildings/s against "
            f"{rate[default]:,.0f}"
        )
        if any(slower) and not any(faster):
            said.append(f"{name} is slower than {default} here ({figures}): prefer {default} on this machine.")
        elif any(slower):
            what = "for one building" if slower[0] else "in batches"
            said.append(f"{name} is slower than {default} here {what} only ({figures}): choose by your load.")
        elif any(faster):
            said.append(f"{name} is faster than {default} here ({figures}).")
        else:
            said.append(f"{name} is as fast as {default} here ({figures}): choose by size and accuracy.")
    return said


def bench_document(
    rows: Sequence[Row], manifest: Manifest, inputs: BenchInputs, machine: Mapping[str, Any], said: Sequence[str]
) -> dict[str, Any]:
    """Return the benchmark as JSON content, without figures that are NaN or infinite.

    Args:
        rows: see `bench`. machine: processor, cores, memory and GPUs. said: see `advice`.
    """
    length = np.asarray(inputs.sequences.length)
    return {
        "format": 1,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "package": {"name": manifest.name, "version": manifest.version, "default_model": manifest.default_model},
        "machine": dict(machine),
        "versions": {"python": platform.python_version(), **installed_versions(PACKAGES)},
        "inputs": {
            "source": inputs.source,
            "buildings": len(length),
            "labelled": inputs.labelled,
            "scatterers": {
                "least": int(length.min()),
                "median": float(np.median(length)),
                "most": int(length.max()),
            },
        },
        "rows": [row.as_json() for row in rows],
        "advice": list(said),
    }


def bench_table(rows: Sequence[Row], manifest: Manifest, inputs: BenchInputs, machine: Mapping[str, Any]) -> Table:
    """Return the rows as a table for a terminal; `B 16 /s` is buildings a second in batches of 16."""
    compared = rows[0].artifact if rows[0].artifact.endswith(".onnx") else "torch"
    batches = sorted({batch for row in rows for batch in row.buildings_per_second})
    result = Table(
        title=escape(f"{manifest.name} {manifest.version} on {machine['processor']}, {machine['cores']} cores"),
        caption=escape(inputs.source),
    )
    result.add_column("artifact", no_wrap=True)
    result.add_column("runtime", no_wrap=True)
    heads = (
        "file\nKB",
        "weights\nKB",
        "p50\nms",
        "p99\nms",
        *(f"B {batch}\n/s" for batch in batches),
        f"from {compared}\nprobability",
        f"from {compared}\npermille",
    )
    for head in (*heads, *(("quadrant\naccuracy", "severity MAE\npermille") if inputs.labelled else ())):
        result.add_column(head, justify="right")
    last = None
    for row in rows:
        if row.artifact != last and last is not None:
            result.add_section()
        last = row.artifact
        if row.trouble:
            result.add_row(escape(row.artifact), row.runtime, "did not run")
            continue
        cell = _cells(row)
        cells = [
            cell("size_bytes", lambda v: f"{v / 1000:,.0f}"),
            cell("weight_bytes", lambda v: f"{v / 1000:,.0f}"),
            cell("latency_p50_ms", lambda v: f"{v:.3g}"),
            cell("latency_p99_ms", lambda v: f"{v:.3g}"),
            *(f"{row.buildings_per_second[batch]:,.0f}" for batch in batches),
            cell("parity_probability", lambda v: f"{v:.2g}"),
            cell("parity_severity_permille", lambda v: f"{v:.2g}"),
        ]
        if inputs.labelled:
            cells += [cell(name, lambda v: f"{v:.3f}") for name in ("quadrant_accuracy", "severity_mae")]
        result.add_row(escape(row.artifact), row.runtime, *cells)
    return result


def _cells(row: Row) -> Callable[[str, Callable[[float], str]], str]:
    return lambda name, show: show(row.figures[name]) if name in row.figures else ""


def _latency(row: Row) -> float:
    return row.figures["latency_p50_ms"]


def _rate(row: Row) -> float:
    return max(row.buildings_per_second.values())
