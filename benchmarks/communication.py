"""What each way of sending gradients costs and what it does to accuracy: a table in Markdown.

    python -m benchmarks.communication [--prepared data/prepare] [--epochs 8] [--seeds 1] [--processes 2]

Trains the network of params.yaml in several processes of this machine, once with each hook and seed, everything else
the same. Bytes are those that one process sends a step, once compression has begun.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import yaml

from benchmarks.common import ROOT, head, line, parse, parser, stamp, toy
from plumbline.train.distributed.comm_hooks import HOOKS


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    asked = parser("communication", __doc__)
    asked.add_argument("--params", type=Path, default=Path("params.yaml"))
    asked.add_argument("--prepared", type=Path, default=Path("data/prepare"))
    asked.add_argument("--hooks", nargs="+", choices=list(HOOKS), default=list(HOOKS))
    asked.add_argument("--epochs", type=int, default=8)
    asked.add_argument("--seeds", type=int, default=1)
    asked.add_argument("--processes", type=int, default=2)
    given = parse(asked, argv, params=None, prepared=None, hooks=["int8"], epochs=1)
    with tempfile.TemporaryDirectory() as scratch:
        if given.prepared is None:
            toy(Path(scratch))
            given.params, given.prepared = Path(scratch) / "params.yaml", Path(scratch) / "data" / "prepare"
        measure(given)


def measure(arguments: Namespace) -> None:
    """Train with each hook, and print a row each."""
    content = yaml.safe_load(arguments.params.read_text(encoding="utf-8"))
    content["train"] |= {"epochs": arguments.epochs, "devices": arguments.processes, "accelerator": "cpu"}
    size = content["train"].get("batch_size")  # found from free memory, or not stated: one that all hooks can have
    content["train"]["batch_size"] = max(1, (size if isinstance(size, int) and size else 128) // arguments.processes)
    print(f"{stamp()}\n")
    print(head("hook", "bytes a step", "of `none`", "quadrant accuracy", "severity MAE, permille"))
    for name in arguments.hooks:
        rows = []
        for seed in range(arguments.seeds):
            content["train"] |= {"communication": name, "seed": seed}
            rows.append(run(content, arguments.prepared.resolve()))
        sent, share, accuracy, error = np.mean(rows, axis=0)
        print(line(name, f"{sent:,.0f}", f"{share:.3f}", f"{accuracy:.3f}", f"{error:.3f}"), flush=True)


def run(content: dict[str, dict[str, object]], prepared: Path) -> tuple[float, float, float, float]:
    """Bytes a step, their share of float32's, and quadrant accuracy and severity error of the best epoch (tune)."""
    # PowerSGD would wait for a GPU.
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "MLFLOW_TRACKING_URI": "sqlite:///mlflow.db",
        "CUDA_VISIBLE_DEVICES": "",
    }
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "data").mkdir()
        (work / "data" / "prepare").symlink_to(prepared)
        (work / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "plumbline", "train"], cwd=work, env=environment, capture_output=True, text=True
        )
        if done.returncode:
            raise SystemExit(done.stderr)
        metrics = json.loads((work / "data" / "train" / "metrics.json").read_text())
        record = json.loads((work / "data" / "train" / "record.json").read_text())
    sent = record["communication"]["bytes_a_step"]
    share = sent / record["communication"]["uncompressed"]
    return sent, share, metrics["quadrant_accuracy"], metrics["severity_mae"]


if __name__ == "__main__":
    main()
