"""What orchestration costs: the flow's wall time beside its stages run bare, and with nothing left to compute.

`python benchmarks/flow.py [PARAMS]`; without PARAMS the project's own, which take some ten minutes on two cores. Prints
Markdown; `docs/benchmarks` keeps dated copies.
"""

from __future__ import annotations

import datetime
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
STAGES = ("simulate", "ingest", "prepare", "train", "compress", "export", "validate", "package")
FILES = (
    "params.yaml",
    "dvc.yaml",
    "prefect.yaml",
    ".dvcignore",
    ".gitignore",
    ".dvc/config",
    "data/raw",
    "flows",
    "src",
)
MOST_OVERHEAD = 0.08
MOST_CACHED_S = 15.0


def project(folder: Path, params: Path) -> Path:
    """The project without results, under git: what a run reads."""
    for name in FILES:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    shutil.copy(params, folder / "params.yaml")
    (folder / "data" / "borrowed").mkdir(exist_ok=True)
    who = ("-c", "user.name=Benchmark", "-c", "user.email=benchmark@example.org")
    for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "All"]):
        subprocess.run(["git", *who, *command], cwd=folder, check=True)
    return folder


def run(folder: Path, *command: str) -> float:
    """Run a module in a project: seconds."""
    path = os.pathsep.join([str(folder / "src"), str(folder)])
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    took = time.perf_counter() - began
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return took


def main() -> None:
    """Measure and print."""
    params = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "params.yaml").resolve()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    with tempfile.TemporaryDirectory() as scratch:
        bare, flow = (project(Path(scratch) / name, params) for name in ("bare", "flow"))
        took = {stage: run(bare, "plumbline", stage) for stage in STAGES}
        took["release"] = run(bare, "plumbline", "release", "promote", "data/package")
        city = bare / "data" / "simulate" / "showcase"
        points = [word for path in sorted(city.glob("EGMS_*.csv")) for word in ("--points", str(path))]
        asked = ("--buildings", str(city / "footprints.geojson"), "--model", "data/package")
        told = ("--output", "data/predict/predictions.gpkg", "--map", "data/predict/map.html")
        (bare / "data" / "predict").mkdir()
        took["predict"] = run(bare, "plumbline", "predict", *points, *asked, *told)
        whole = run(flow, "flows.pipeline")
        cached = run(flow, "flows.pipeline")
    total = sum(took.values())
    print("# The flow beside its stages run bare\n\nMade by `python benchmarks/flow.py`; nothing else running.\n")
    print(f"{datetime.date.today()}, {os.cpu_count()} cores {platform.machine()}, commit {commit.strip()}\n")
    print("| | s | ratio | bar |\n|---|---|---|---|")
    for name, seconds in took.items():
        print(f"| {name}, bare | {seconds:.1f} | | |")
    print(f"| all bare | {total:.1f} | 1 | |")
    print(f"| the flow | {whole:.1f} | {whole / total:.3f} | at most {1 + MOST_OVERHEAD:g} |")
    print(f"| the flow, nothing to compute | {cached:.1f} | | at most {MOST_CACHED_S:g} s |")


if __name__ == "__main__":
    main()
