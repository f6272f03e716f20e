"""One whole run of the pipeline, tiny but real, shared by every test that needs a model or a package."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import hashlib
import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml

import plumbline
from plumbline import cli
from plumbline.core.console import log
from plumbline.export.stage import ARTIFACTS
from plumbline.params import Params, parse_params

STAGES = ("simulate", "ingest", "prepare", "train", "compress", "export", "validate", "gate", "approve", "package")
OPTIMISE = {"patience": 3, "learning_rate": 0.003, "batch_size": 32}
PARAMS: dict[str, Any] = {
    "simulate": {
        "cities": {
            "c_band": {"band": "C", "buildings": 90, "seed": 1},
            "x_band": {"band": "X", "buildings": 60, "seed": 2},
        },
        "showcase": {"band": "C", "buildings": 24, "seed": 3},
        "years": 1.0,
    },
    "ingest": {},
    "prepare": {
        "block_m": 40.0,
        "split": {"train": 0.4, "tune": 0.2, "calibrate": 0.2, "test": 0.2},
        # A year of a few buildings shows little, and is to be judged.
        "max_strain_error_permille": 100.0,
        "min_quadrant_confidence": 0.0,
    },
    "model": {"channels": 8, "blocks": 1, "heads": 2, "attention_layers": 1, "hidden": 16},
    "train": {"epochs": 2, "threads": 1, "accelerator": "cpu", **OPTIMISE},
    "compress": {"pruning_ratio": 0.5, "epochs": 1, "importance_batches": 2, **OPTIMISE},
    "export": {"calibration_batches": 3, "calibration_batch_size": 16},
    "validate": {
        "min_slice": 5,
    },
    "gate": {
        "rules": [
            {"metric": "parity_probability", "artifact": "pruned", "max": 1e-4},
            {"metric": "parity_severity_permille", "artifact": "pruned", "max": 1e-3},
            *({"metric": "severity_mae", "artifact": name, "max": 100.0} for name in ARTIFACTS),
            {"metric": "severity_mae", "artifact": "int8", "max_drop_vs": "baseline", "margin": 100.0},
            {"metric": "severity_mae", "artifact": "int8", "max_drop_vs": "champion", "margin": 0.05},
            {"metric": "quadrant_accuracy", "artifact": "pruned", "max_drop_vs": "champion", "margin": 0.05},
        ],
    },
    "package": {},
}


@dataclass(frozen=True)
class City:
    """A project folder after the stage `simulate`. Tests read it; what they change, they copy first."""

    root: Path

    def data(self, stage: str) -> Path:
        """Output folder of a stage."""
        return self.root / "data" / stage

    def products(self) -> list[Path]:
        """The showcase's two EGMS files."""
        return sorted(self.data("simulate").glob("showcase/EGMS_*.csv"))

    @property
    def footprints(self) -> Path:
        """The showcase's footprints."""
        return self.data("simulate") / "showcase" / "footprints.geojson"


@dataclass(frozen=True)
class Tiny(City):
    """A project folder after the stage `package`. Tests read it; what they change, they copy first."""

    said: str
    """All that the stages wrote to standard error."""

    @property
    def params(self) -> Params:
        """Parameters of the run."""
        return parse_params(PARAMS)

    def copy(self, target: Path, *stages: str) -> Path:
        """A project folder of the test's own, with the record of runs and the outputs of these stages."""
        target.mkdir(exist_ok=True)
        shutil.copy(self.root / "params.yaml", target)
        self.copy_runs(target)
        for stage in stages:
            shutil.copytree(self.data(stage), target / "data" / stage)
        return target

    def copy_runs(self, target: Path) -> None:
        """The record of runs, for runs that are recorded in `target`: to make its tables anew takes seconds."""
        shutil.copy(self.root / "mlflow.db", target)
        with closing(sqlite3.connect(target / "mlflow.db")) as runs, runs:
            places = (str(self.root), str(target.resolve()))
            runs.execute("UPDATE experiments SET artifact_location = replace(artifact_location, ?, ?)", places)


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


def run_cli(*arguments: object, cwd: Path) -> Ended:
    """Run `plumbline ARGUMENTS` within this process, in the folder `cwd`.

    Anything but the program's own way of ending, a traceback for one, gets through to the test.
    """
    out, err = io.StringIO(), io.StringIO()
    words = ["plumbline", *map(str, arguments)]
    before = (list(log.handlers), log.level, log.propagate)
    code: Any = 0
    try:
        with (
            contextlib.chdir(cwd),
            mock.patch.object(sys, "argv", words),
            mock.patch.object(threading, "excepthook", threading.excepthook),  # which the program sets
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            cli.main()
    except SystemExit as end:
        code = end.code or 0
    finally:
        log.handlers, log.propagate = before[0], before[2]
        log.setLevel(before[1])
    return Ended(int(code), out.getvalue(), err.getvalue())


def run_process(*arguments: object, cwd: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `python -m plumbline ARGUMENTS` as a process of its own, whether the package is installed or not."""
    environment = os.environ | {"PYTHONPATH": str(Path(plumbline.__file__).parents[1])}
    command = [sys.executable, "-m", "plumbline", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, check=False, **options)


def shared_run() -> Tiny:
    """The run, made by the commands a user would type, and kept for the next session: see `kept`."""
    root = kept("tiny", _make, Path(__file__))
    return Tiny(root / "run", (root / "said.txt").read_text(encoding="utf-8"))


def shared_city() -> City:
    """The files of its cities alone, as the first stage writes them, and kept as it is."""
    return City(kept("city", _make_city, Path(__file__)) / "run")


def empty_registry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of a registry with nothing in it, for tests to copy."""
    return shared(tmp_path_factory, "registry", copy_registry) / "mlflow.db"


def copy_registry(folder: Path) -> None:
    """Put an empty registry into a folder: making its tables takes seconds, copying them none."""
    shutil.copy(kept("registry", _make_registry) / "mlflow.db", folder)


def shared(tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that `make` fills once a session, whichever worker needs it first. Tests only read it."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, made = base / name, base / f"{name}.made"
    with (base / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of another worker, which failed
            folder.mkdir()
            make(folder)
            made.touch()
    return folder


KEPT = Path(__file__).parents[1] / ".plumbline" / "tests"
"""What is kept between sessions, in the checkout that it was made from."""
MANIFEST = "sha256.json"


def kept(name: str, make: Callable[[Path], None], *own: Path) -> Path:
    """A folder that `make` fills, kept for later sessions until anything that it depends on changes.

    That is the package's code, the locked libraries, Python, and the files `own`. What a test has changed in it by
    mistake is found by its hashes, and the folder is made anew. Whichever worker, or session, needs it first makes it.
    """
    folder = KEPT / f"{name}-{_key(*own)}"
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        manifest = folder / MANIFEST
        if not manifest.is_file() or json.loads(manifest.read_text()) != _hashes(folder):
            for old in KEPT.glob(f"{name}-*"):
                shutil.rmtree(old)
            folder.mkdir()
            # As in a folder of a test's own: no part of this checkout.
            with mock.patch.dict(os.environ, GIT_CEILING_DIRECTORIES=str(KEPT)):
                make(folder)
            manifest.write_text(json.dumps(_hashes(folder)))
    return folder


def _key(*own: Path) -> str:
    code = Path(plumbline.__file__).parent
    lock = Path(__file__).parents[1] / "requirements" / "test.lock"
    whole = hashlib.sha256(f"{sys.version} {code}".encode())
    for path in sorted([*code.rglob("*.py"), lock, Path(__file__), *own]):
        whole.update(path.read_bytes())
    return whole.hexdigest()[:16]


def _hashes(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / MANIFEST)
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _make_registry(folder: Path) -> None:
    from plumbline.release.registry import Registry  # MLflow takes a second to load

    assert Registry(uri=f"sqlite:///{folder / 'mlflow.db'}").versions() == []


def _make_city(folder: Path) -> None:
    _run(folder / "run", "simulate")


def _make(folder: Path) -> None:
    (folder / "said.txt").write_text(_run(folder / "run", *STAGES), encoding="utf-8")


def _run(root: Path, *stages: str) -> str:
    """Run these stages in a new folder; what they said."""
    root.mkdir()
    (root / "params.yaml").write_text(yaml.safe_dump(PARAMS))
    if "train" in stages:
        copy_registry(root)
    said = ""
    gc.disable()  # an export makes so many objects that to look for cycles takes a tenth of its time
    with contextlib.ExitStack() as stack, mock.patch.dict(os.environ):
        stack.callback(gc.enable)
        os.environ.pop("MLFLOW_TRACKING_URI", None)  # the record of a test stays in the test's folder
        for stage in stages:
            ended = run_cli(stage, cwd=root)
            assert ended.code == 0, f"{stage}: {ended.err}"
            said += ended.err
    return said
