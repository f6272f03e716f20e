"""What orchestration costs: the flow's wall time beside its stages run bare, and with nothing left to compute.

`python -m benchmarks.flow [PARAMS]`; without PARAMS the project's own, which take some ten minutes on two cores. Prints
Markdown; `docs/benchmarks` keeps dated copies. `--smoke` runs the tests' scratch project, whose stages take no time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import ROOT, head, line, parse, parser, stamp

STAGES = ("simulate", "ingest", "prepare", "train", "compress", "export", "validate", "gate", "approve", "package")
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


# The scratch project's stages by the names of the command line, which knows the release alone.
BARE = """
import runpy, sys
if sys.argv[1] == "release":
    runpy.run_path("plumbline/release.py", run_name="__main__")
else:
    sys.argv = ["stage.py", sys.argv[1]]
    runpy.run_path("stage.py", run_name="__main__")
"""


def scratch_project(folder: Path) -> Path:
    """The project of the tests of flows, with a command line for its stages."""
    from tests.flows.conftest import make_project

    project = make_project(folder)
    command = folder / "plumbline" / "__main__.py"
    command.rename(command.with_name("release.py"))
    command.write_text(BARE)
    project.commit()
    return folder


def run(folder: Path, *command: str) -> float:
    """Run a module in a project: seconds."""
    path = os.pathsep.join([str(folder / "src"), str(folder)])
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    took = time.perf_counter() - began
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return took


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    asked = parser("flow", __doc__)
    asked.add_argument("params", type=Path, nargs="?", default=ROOT / "params.yaml")
    given = parse(asked, argv)
    with tempfile.TemporaryDirectory() as scratch:
        places = [Path(scratch) / name for name in ("bare", "flow")]
        for place in places:
            place.mkdir()
        bare, flow = (scratch_project(one) if given.smoke else project(one, given.params.resolve()) for one in places)
        took = {stage: run(bare, "plumbline", stage) for stage in STAGES}
        took["release"] = run(bare, "plumbline", "release", "promote", "data/package")
        city = bare / "data" / "simulate" / "showcase"
        points = [word for path in sorted(city.glob("EGMS_*.csv")) for word in ("--points", str(path))]
        asked = ("--buildings", str(city / "footprints.geojson"), "--model", "data/package")
        told = ("--output", "data/predict/predictions.gpkg", "--map", "data/predict/map.html")
        if not given.smoke:
            (bare / "data" / "predict").mkdir()
        took["predict"] = run(bare, "plumbline", "predict", *points, *asked, *told)
        whole = run(flow, "flows.pipeline")
        cached = run(flow, "flows.pipeline")
    total = sum(took.values())
    print("# The flow beside its stages run bare\n\nMade by `python -m benchmarks.flow`; nothing else running.\n")
    print(f"{stamp()}\n")
    print(head("", "s", "ratio", "bar"))
    for name, seconds in took.items():
        print(line(f"{name}, bare", f"{seconds:.1f}", "", ""))
    print(line("all bare", f"{total:.1f}", 1, ""))
    print(line("the flow", f"{whole:.1f}", f"{whole / total:.3f}", f"at most {1 + MOST_OVERHEAD:g}"))
    print(line("the flow, nothing to compute", f"{cached:.1f}", "", f"at most {MOST_CACHED_S:g} s"))


if __name__ == "__main__":
    main()
