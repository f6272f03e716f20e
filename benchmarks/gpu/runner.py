"""Run each part in a process of its own, for so long at most, and keep what it found or why it found nothing."""

from __future__ import annotations

import contextlib
import datetime
import importlib
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.common import ROOT
from benchmarks.gpu.results import (
    DONE,
    FAILED,
    NOT_BEGUN,
    NOT_MEASURED,
    OVER,
    Found,
    Key,
    NotMeasured,
    Result,
    Work,
    read,
)
from plumbline.core.jobs import die_with_parent

Part = Callable[[Work], Found]
REASON_LINES = 3
"""Of a process that ended by itself, the last lines that it wrote."""


def catalogue(module: str) -> dict[str, Part]:
    """Return the parts that a module names, in their order."""
    parts: dict[str, Part] = importlib.import_module(module).PARTS
    return parts


def run_parts(
    names: list[str], module: str, folder: Path, key: Key, seconds: float, whole_seconds: float
) -> Iterator[Result]:
    """Run the parts that were not done under this key.

    Args:
        names: of the parts. module: whose `PARTS` has them. folder: for their results. key: of this run.
        seconds: of a part at most. whole_seconds: after which no part begins.

    Yields:
        What was found of each, or was kept.
    """
    began = time.monotonic()
    for name in names:
        path = folder / f"{name}.json"
        kept = read(path, key)
        if kept is not None and kept.state == DONE:
            print(f"{name}: done already, at {kept.at}", flush=True)
            yield kept
            continue
        if time.monotonic() - began > whole_seconds:
            reason = f"the run had taken its {whole_seconds / 60:.0f} minutes; the same command goes on here"
            yield Result(name, key, NOT_BEGUN, reason)
            continue
        path.unlink(missing_ok=True)
        result = _apart(name, module, path, key, seconds)
        print(f"{name}: {result.state}, {result.seconds:.0f} s {result.reason}".rstrip(), flush=True)
        yield result


def _apart(name: str, module: str, path: Path, key: Key, seconds: float) -> Result:
    """Run one part; whatever it started ends with it."""
    dry = key["size"] == "toy"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src"), *_given_path()])}
    if dry:  # one thread: on a busy machine two wait for one another
        environment |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
        environment["TRITON_INTERPRET"] = "1" if name == "kernels" else "0"
    output = path.parent.parent if dry else path.parent
    command = [sys.executable, "-m", "benchmarks.gpu", "--catalogue", module, "--output", str(output), "--part", name]
    command += ["--dry"] * dry
    log = path.with_suffix(".log")
    began = time.monotonic()
    with log.open("w", encoding="utf-8") as stream:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end(process)
    taken = time.monotonic() - began
    found = read(path, key)
    if found is None:  # it ended before it could write
        lines = [
            line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()
        ]
        said = " / ".join(lines[-REASON_LINES:])
        found = Result(name, key, FAILED, f"ended with {code}: {said} (all of it: {log})")
        if code is None:
            found.state, found.reason = OVER, f"ended after {seconds:.0f} s. Last words: {said} (all of it: {log})"
    found.seconds, found.at = taken, _now()
    found.write(path)
    return found


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and all in its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _given_path() -> list[str]:
    return [word for word in os.environ.get("PYTHONPATH", "").split(os.pathsep) if word]


def _now() -> str:
    return f"{datetime.datetime.now():%Y-%m-%d %H:%M}"


def measure(name: str, module: str, folder: Path, key: Key) -> int:
    """Measure one part in this process and write what it found; 0 unless it failed."""
    if not die_with_parent():
        return 1
    result = Result(name, key, DONE)
    work = Work(key["size"] == "toy", folder / "work")
    work.folder.mkdir(parents=True, exist_ok=True)
    try:
        found = catalogue(module)[name](work)
        result.tables, result.figures = found.tables, found.figures
        if found.failed:
            result.state, result.reason = FAILED, found.failed
    except NotMeasured as missing:
        result.state, result.reason = NOT_MEASURED, str(missing)
    except Exception as error:  # whatever it is, the other parts go on
        traceback.print_exc()
        first = (str(error).splitlines() or [""])[0]
        result.state, result.reason = FAILED, f"{type(error).__name__}: {first} (all of it: {folder / name}.log)"
    result.peak_mb = _peak_mb()
    result.write(folder / f"{name}.json")
    return int(result.state == FAILED)


def _peak_mb() -> float:
    if "torch" not in sys.modules:  # nothing was computed, and torch takes seconds to load
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    from benchmarks.memory import most_memory

    return most_memory()
