"""What each way of sending gradients costs and what it does to accuracy: a table in Markdown.

    python benchmarks/communication.py [--prepared data/prepare] [--epochs 8] [--seeds 1] [--processes 2]

Trains the network of params.yaml in several processes of this machine, once with each hook and seed, everything else
the same. Bytes are those that one process sends a step, once compression has begun.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import yaml

from plumbline.train.distributed.comm_hooks import HOOKS


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--params", type=Path, default=Path("params.yaml"))
    parser.add_argument("--prepared", type=Path, default=Path("data/prepare"))
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    content = yaml.safe_load(arguments.params.read_text(encoding="utf-8"))
    content["train"] |= {"epochs": arguments.epochs, "devices": arguments.processes, "accelerator": "cpu"}
    size = content["train"].get("batch_size")  # found from free memory, or not stated: one that all hooks can have
    content["train"]["batch_size"] = max(1, (size if isinstance(size, int) and size else 128) // arguments.processes)
    sys.stdout.write("| hook | bytes a step | of `none` | quadrant accuracy | severity MAE, permille |\n")
    sys.stdout.write("|---|---:|---:|---:|---:|\n")
    plain = 0.0
    for name in HOOKS:
        rows = []
        for seed in range(arguments.seeds):
            content["train"] |= {"communication": name, "seed": seed}
            rows.append(run(content, arguments.prepared.resolve()))
        sent, accuracy, error = np.mean(rows, axis=0)
        plain = plain or sent
        sys.stdout.write(f"| {name} | {sent:,.0f} | {sent / plain:.3f} | {accuracy:.3f} | {error:.3f} |\n")
        sys.stdout.flush()


def run(content: dict[str, dict[str, object]], prepared: Path) -> tuple[float, float, float]:
    """Bytes a step, and quadrant accuracy and severity error of the best epoch on the tune split."""
    # PowerSGD would wait for a GPU.
    environment = {**os.environ, "MLFLOW_TRACKING_URI": "sqlite:///mlflow.db", "CUDA_VISIBLE_DEVICES": ""}
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
    return record["communication"]["bytes_a_step"], metrics["quadrant_accuracy"], metrics["severity_mae"]


if __name__ == "__main__":
    main()
