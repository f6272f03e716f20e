"""The project of the soak: stages that take no time, and a real registry of real packages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tests.flows.conftest import ROOT, STAGE, STAGES, Project, make_project

# The package of the project's own code, of which only the command line is another.
INIT = """
__path__.append({real!r})
"""
# A promotion without the comparison with the champion, which takes a trained model; all else is the command line's own.
COMMAND = """
import pathlib, sys
from plumbline.cli import main
from plumbline.core.console import setup_logging
from plumbline.release.promotion import promote
if sys.argv[1:3] == ["release", "promote"]:
    setup_logging(False)
    promote(pathlib.Path(sys.argv[3]), lambda candidate, champion: None)
else:
    main()
"""
# Each result is another for each wish; `package` writes what the registry takes.
PACKAGE = """
(out / "file.txt").write_text(name + json.dumps(want))
(out / "weight.bin").write_bytes(os.urandom(200_000))
if name == "package":
    from plumbline.export.package import write_package
    from plumbline.params import Prepare
    about = {"name": "plumbline", "default_model": "model.onnx", "prepare": Prepare().model_dump(),
             "hashes": {"data": "d" * 64}, "metrics": {"int8": {"severity_mae": 0.25}}, "gate": {"verdict": "pass"}}
    write_package({"model.onnx": out / "weight.bin"}, about, "A card.", out)
"""
LATE = ("package", "gate", "export")
"""Stages that most runs change: few come after them, so that a run takes seconds."""
EVERY = 10
"""One run in so many changes the training, which goes to the other worker."""


class Stand(Project):
    """The project's folder, and what each run changes."""

    def change(self, number: int) -> str:
        """Have the next run compute something; the commit's hash."""
        stage = "train" if number % EVERY == 0 else LATE[number % len(LATE)]
        wishes = json.loads((self.folder / "behave.json").read_text()) | {stage: {"run": number}}
        (self.folder / "behave.json").write_text(json.dumps(wishes))
        told = {stage: {"wish": json.dumps(wishes.get(stage))} for stage in STAGES}
        (self.folder / "wishes.yaml").write_text(yaml.safe_dump(told))
        return self.commit(f"run {number}")


def make_stand(folder: Path, tidy: dict[str, Any]) -> Stand:
    """A new project with one commit.

    Args:
        folder: where. tidy: section `tidy` of its parameters.
    """
    make_project(folder)
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    (folder / "params.yaml").write_text(yaml.safe_dump(params | {"tidy": tidy}))
    (folder / "stage.py").write_text(STAGE + PACKAGE)
    (folder / "plumbline/__init__.py").write_text(INIT.format(real=str(ROOT / "src/plumbline")))
    (folder / "plumbline/__main__.py").write_text(COMMAND)
    graph = yaml.safe_load((folder / "dvc.yaml").read_text())
    for name, stage in graph["stages"].items():
        stage["params"] = [{"wishes.yaml": [name]}]
        stage["deps"] = [path.replace("package/file.txt", "package/manifest.json") for path in stage["deps"]]
    (folder / "dvc.yaml").write_text(yaml.safe_dump(graph))
    stand = Stand(folder)
    stand.change(0)
    return stand
