"""A project of its own with all that is real: the package, its stages on tiny params, git, DVC, the flow."""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from plumbline.core.source_code import MAP_PAGE, SOURCES
from plumbline.params import parse_params
from tests.flows.conftest import IDENTITY, ROOT, Project
from tests.tiny import PARAMS

FOLDERS = ("src", "flows", "deploy", ".dvc", "data")
FILES = ("dvc.yaml", ".dvcignore", ".gitignore", "prefect.yaml")
EPOCHS = 40
"""Enough that a training can be met in the middle; patience lasts as long."""


class Real(Project):
    """The project's folder, and ways to change what it makes."""

    def train_with(self, seed: int, **train: Any) -> str:
        """Commit params by which the training, and what follows it, is another; the commit's hash."""
        params: dict[str, Any] = copy.deepcopy(PARAMS)
        params["train"] |= {"epochs": EPOCHS, "patience": EPOCHS, "seed": seed} | train
        # Whether one short training beats another is luck; the faults are not to depend on it.
        for rule in params["gate"]["rules"]:
            if rule.get("max_drop_vs") == "champion":
                rule["margin"] = 100.0
        # With every default: DVC asks for the parameters by name.
        complete = parse_params(params).model_dump(mode="json", by_alias=True)
        (self.folder / "params.yaml").write_text(yaml.safe_dump(complete))
        return self.commit(f"seed {seed}")

    def releases(self) -> list[tuple[str, bool]]:
        """Version of each registered package, the newest first, and whether it is the champion."""
        from plumbline.release.registry import Registry

        registry = Registry(uri=f"sqlite:///{self.folder / 'mlflow.db'}")
        return [(item.version, item.champion) for item in registry.versions()]

    def champion(self) -> str:
        """Version of the champion, whose files are asked to be whole."""
        from plumbline.export.package import verify_package
        from plumbline.release.registry import Registry

        registry = Registry(uri=f"sqlite:///{self.folder / 'mlflow.db'}")
        found = registry.champion()
        assert found is not None
        assert verify_package(registry.folder(found)).version == found.version
        return found.version


def make_real(folder: Path) -> Real:
    """A real project with one commit; nothing was run in it yet."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["git", "ls-files", "-z", "--", *FOLDERS, *FILES]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, listed.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / SOURCES / MAP_PAGE, folder / SOURCES / MAP_PAGE)
    subprocess.run(["git", *IDENTITY, "init", "--quiet"], cwd=folder, check=True)
    project = Real(folder)
    # Each clone's own code, not that of the project the tests belong to.
    paths = [str(folder / "src"), str(folder)]
    project.environment |= {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    project.environment.pop("MLFLOW_TRACKING_URI", None)
    project.train_with(seed=1, epochs=2)
    return project
