"""Measure what only a GPU can show, part by part, into one dated page.

    python -m benchmarks.gpu [--dry] [--parts NAME ...]

Each part runs in a process of its own, three minutes at most, and leaves `build/gpu/PART.json`. The same command again
runs the parts that are not done, for the same commit, versions and GPU. The page is `docs/benchmarks/DATE-gpu.md`. With
`--dry` all parts run at toy size on the CPU, and the page is `build/gpu/DATE-gpu-dry.md`. It ends with 0 if all parts
ran, with 1 if one failed, with 2 without a GPU. `make gpu` installs what it needs.
"""

from __future__ import annotations

import argparse
import fcntl
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import ROOT
from benchmarks.gpu.page import write_page
from benchmarks.gpu.results import DONE, NOT_MEASURED, read, this_key
from benchmarks.gpu.runner import catalogue, measure, run_parts

CATALOGUE = "benchmarks.gpu.parts"
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
    asked.add_argument("--parts", nargs="+", metavar="NAME", help="only these")
    asked.add_argument("--seconds", type=float, default=180.0, help="of a part at most")
    asked.add_argument("--minutes", type=float, default=20.0, help="after which no part begins")
    asked.add_argument("--output", type=Path, default=ROOT / "build" / "gpu", help="folder for results")
    asked.add_argument("--catalogue", default=CATALOGUE, help=argparse.SUPPRESS)
    asked.add_argument("--part", help=argparse.SUPPRESS)
    given = asked.parse_args(argv)
    given.output = given.output.resolve()
    folder = given.output / "dry" if given.dry else given.output
    if not given.dry and (why := _without_gpu()):
        print(NO_GPU.format(why=why), file=sys.stderr)
        return 2
    key, machine = this_key(given.dry)
    if given.part:
        return measure(given.part, given.catalogue, folder, key)
    known = list(catalogue(given.catalogue))
    if unknown := [name for name in given.parts or () if name not in known]:
        print(f"ERROR --parts {unknown[0]}: no such part. Give some of: {', '.join(known)}.", file=sys.stderr)
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"ERROR {folder}: another run is at work here. Wait for its end.", file=sys.stderr)
            return 2
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the part at work is ended, too
        names = given.parts or known
        found = list(run_parts(names, given.catalogue, folder, key, given.seconds, 60 * given.minutes))
    kept = [read(folder / f"{name}.json", key) for name in known if name not in names]
    print(write_page([*found, *filter(None, kept)], key, machine, given.output))
    return int(any(result.state not in (DONE, NOT_MEASURED) for result in found))


def _without_gpu() -> str:
    """Say why there is no GPU to measure on; empty where there is one."""
    import torch  # takes seconds

    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA"
    return "" if torch.cuda.is_available() else "its driver is missing or too old (`nvidia-smi` says which)"


if __name__ == "__main__":
    sys.exit(main())
