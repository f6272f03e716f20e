"""Measure what only a GPU can show, part by part, into one dated page.

    python -m benchmarks.gpu [--dry] [--parts NAME ...]

Each part runs in a process of its own, three minutes at most; one that fails does not stop the others. The page is
`build/gpu/DATE-gpu.md`, with `--dry` (toy size on the CPU) in `build/gpu/dry`; `PART.log` keeps the output of each.
It ends with 0 if all parts ran, with 1 if one failed, with 2 without a GPU. `make gpu` installs what it needs.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from benchmarks.common import ROOT, head, line, stamp
from benchmarks.gpu.parts import PARTS, Found, NotMeasured, Table, Work, load_part

LIBRARIES = ("torch", "triton", "lightning", "onnxruntime", "onnxruntime-gpu", "tensorrt", "torch-tensorrt")
DONE, FAILED, NOT_MEASURED = "done", "failed", "not measured"
TOY = "**These are toy figures of a CPU.** They show that every part runs, and measure nothing."
NO_GPU = (
    "ERROR torch sees no GPU: {why}.\nOn a machine with an NVIDIA GPU and its driver, `make gpu` installs a CUDA build "
    "and runs this.\n`make gpu DRY=1` runs all parts at toy size on the CPU."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is asked for; return the exit code."""
    asked = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    asked.add_argument("--dry", action="store_true", help="toy size, on the CPU")
    asked.add_argument("--parts", nargs="+", metavar="NAME", choices=list(PARTS), default=list(PARTS))
    asked.add_argument("--seconds", type=float, default=180.0, help="of a part at most")
    asked.add_argument("--output", type=Path, default=ROOT / "build" / "gpu", help="folder for page and logs")
    asked.add_argument("--part", help=argparse.SUPPRESS)
    given = asked.parse_args(argv)
    folder = given.output.resolve() / "dry" if given.dry else given.output.resolve()
    if not given.dry and (why := _without_gpu()):
        print(NO_GPU.format(why=why), file=sys.stderr)
        return 2
    if given.part:
        return _measure(given.part, folder, given.dry)
    folder.mkdir(parents=True, exist_ok=True)
    rows, tables = [head("part", "state", "s")], dict[tuple[str, ...], Table]()
    states = []
    for name in given.parts:
        state, reason, seconds, found = _run_part(name, given, folder)
        print(f"{name}: {state}, {seconds:.0f} s {reason}".rstrip(), flush=True)
        states.append(state)
        rows.append(line(f"`{name}`", f"{state}: {reason}" if reason else state, f"{seconds:.0f}"))
        for table in found:
            tables.setdefault((table.title, *table.columns), Table(table.title, table.columns)).rows += table.rows
    blocks = ["# On a GPU", *([TOY] if given.dry else []), stamp(*_machine(given.dry)), "\n".join(rows)]
    for table in tables.values():
        blocks.append("\n".join([f"## {table.title}\n", head(*table.columns), *(line(*row) for row in table.rows)]))
    page = folder / f"{datetime.date.today()}-gpu.md"
    page.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
    print(f"The page: {page}")
    return int(FAILED in states)


def _run_part(name: str, given: argparse.Namespace, folder: Path) -> tuple[str, str, float, list[Table]]:
    """Run one part in a process of its own; return its state, the reason, seconds and tables."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}:{os.environ.get('PYTHONPATH', '')}"}
    if given.dry:  # one thread: on a busy machine two wait for one another
        environment |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.gpu", "--output", str(given.output), "--part", name]
    log, result = folder / f"{name}.log", folder / f"{name}.json"
    result.unlink(missing_ok=True)
    began = time.monotonic()
    with log.open("w", encoding="utf-8") as stream:
        try:
            subprocess.run(
                [*command, *["--dry"] * given.dry], cwd=ROOT, env=environment, stdout=stream,
                stderr=subprocess.STDOUT, check=False, timeout=given.seconds,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return FAILED, f"ended after {given.seconds:.0f} s ({log})", time.monotonic() - began, []
    seconds = time.monotonic() - began
    if not result.is_file():  # it ended before it could write
        return FAILED, f"ended by itself ({log})", seconds, []
    content = json.loads(result.read_text(encoding="utf-8"))
    return content["state"], content["reason"], seconds, [Table(**table) for table in content["tables"]]


def _measure(name: str, folder: Path, dry: bool) -> int:
    """Measure one part in this process and write what it found; 0 unless it failed."""
    work = Work(dry, folder / "work")
    work.folder.mkdir(parents=True, exist_ok=True)
    state, reason, found = DONE, "", Found([])
    try:
        found = load_part(name)(work)
        if found.failed:
            state, reason = FAILED, found.failed
    except NotMeasured as missing:
        state, reason = NOT_MEASURED, str(missing)
    except Exception as error:  # whatever it is, the page has a line of it
        traceback.print_exc()
        state, reason = FAILED, f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    content = {"state": state, "reason": reason, "tables": [dataclasses.asdict(table) for table in found.tables]}
    (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return int(state == FAILED)


def _machine(dry: bool) -> list[str]:
    """Return the GPU and the versions of libraries."""
    names = []
    if not dry:
        import torch  # takes seconds

        names = [torch.cuda.get_device_name(0), f"CUDA {torch.version.cuda}"]
    installed = {one.metadata["Name"]: one.version for one in metadata.distributions()}
    return [*names, *(f"{name} {installed[name]}" for name in LIBRARIES if name in installed)]


def _without_gpu() -> str:
    """Say why there is no GPU to measure on; empty where there is one."""
    import torch  # takes seconds

    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA"
    return "" if torch.cuda.is_available() else "its driver is missing or too old (`nvidia-smi` says which)"


if __name__ == "__main__":
    sys.exit(main())
