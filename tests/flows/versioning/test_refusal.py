"""A gate that refuses, under DVC itself: the last good package stays, and another bound costs no measuring."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.versioning.families import DIAGNOSIS, RESTORATION, Family
from flows.versioning.stage_runner import STAGES, StageFailedError, reproduce
from plumbline.core.files import read_json, sha256_folder
from tests.flows.conftest import IDENTITY, ROOT, dvc
from tests.tiny import Tiny
from tests.tiny_fields import TinyFields

METRIC = {DIAGNOSIS: "severity_mae", RESTORATION: "crps_mm"}
FAILED = 255
"""How DVC ends where a stage fails."""


class Checkout:
    """The real graph and the real stages, which are made as the tiny run made them."""

    def __init__(self, family: Family, made: Tiny | TinyFields, root: Path) -> None:
        self.family, self.root, self.folder = family, root, root / family.folder
        ignore = shutil.ignore_patterns("__pycache__", "cache", "tmp", "*.pyc", "node_modules")
        for name in ("src", ".dvc", "data/raw", "data/borrowed"):
            shutil.copytree(ROOT / name, root / name, ignore=ignore)
        self.folder.mkdir(exist_ok=True)
        for path in (Path(".gitignore"), Path(".dvcignore"), family.folder / ".gitignore", family.folder / "dvc.yaml"):
            if (ROOT / path).exists():
                shutil.copy(ROOT / path, root / path)
        graph = yaml.safe_load((self.folder / "dvc.yaml").read_text())["stages"]
        for name in STAGES:
            shutil.copytree(made.data(name), self.folder / "data" / name)
            for path in (self.folder / name for figures in graph[name].get("metrics", []) for name in figures):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("{}")
        # With every default: DVC asks for the parameters by name.
        self.params: dict[str, Any] = made.params.model_dump(mode="json", by_alias=True)
        self.rules: list[dict[str, Any]] = list(self.params["gate"]["rules"])
        self.bound(1e9)
        subprocess.run(["git", *IDENTITY, "init", "--quiet"], cwd=root, check=True)
        with contextlib.chdir(self.folder):
            dvc("commit", "--force", *STAGES)

    def bound(self, most: float) -> None:
        """Bound one more figure."""
        self.params["gate"]["rules"] = [*self.rules, {"metric": METRIC[self.family], "artifact": "int8", "max": most}]
        (self.folder / "params.yaml").write_text(yaml.safe_dump(self.params))

    def data(self, stage: str) -> Path:
        """Output folder of a stage."""
        return self.folder / "data" / stage


@pytest.fixture(params=[DIAGNOSIS, pytest.param(RESTORATION, marks=pytest.mark.slow)], ids=lambda family: family.name)
def checkout(request: pytest.FixtureRequest, tmp_path: Path, inside: None, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """A project with a good package, in whose folder the test stands."""
    monkeypatch.delenv("SHELL", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "src"))  # its own code, as `make install` would have it
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    made = request.getfixturevalue("tiny" if request.param == DIAGNOSIS else "tiny_fields")
    found = Checkout(request.param, made, tmp_path)
    monkeypatch.chdir(found.folder)
    return found


def refused(checkout: Checkout) -> str:
    """Let the gate refuse under `dvc repro`; return the hash of the package, which stays."""
    assert "Running stage 'validate'" not in dvc("repro", "package")
    last = sha256_folder(checkout.data("package"))
    checkout.bound(0.0)
    said = dvc("repro", code=FAILED)
    begun = [line for line in said.splitlines() if line.startswith("Running stage")]
    assert begun == ["Running stage 'gate':", "Running stage 'approve':"]
    assert "exited with 3" in said
    assert "The last good package stays in data/package." in " ".join(said.split())
    assert sha256_folder(checkout.data("package")) == last
    return last


@pytest.mark.heavy  # as the runs that it asks for by name
def test_a_refusal_leaves_the_last_package_and_its_verdict_in_the_cache(checkout: Checkout) -> None:
    refused(checkout)
    # The verdict is a result: it is in the cache, which is pushed.
    shutil.rmtree(checkout.data("gate"))
    dvc("checkout", "gate")
    assert read_json(checkout.data("gate") / "gate.json")["verdict"] == "fail"
    assert read_json(checkout.folder / "metrics" / "gate.json")["verdict"] == "fail"


@pytest.mark.slow
def test_after_a_refusal_package_and_approval_come_back_from_the_cache(checkout: Checkout) -> None:
    last = refused(checkout)
    # As a flow runs it, which looks at one stage at a time.
    with pytest.raises(StageFailedError, match=f"approve refused: {METRIC[checkout.family]} of int8 on all") as error:
        reproduce("approve", str)
    assert error.value.exit_code == 3
    assert sha256_folder(checkout.data("package")) == last

    # Whoever asks for the package alone loses it: DVC removes it before it looks for the approval. It is in the cache.
    dvc("repro", "--single-item", "package", code=FAILED)
    dvc("checkout", "package")
    assert sha256_folder(checkout.data("package")) == last

    checkout.bound(1e9)
    assert "Running stage 'validate'" not in dvc("repro", "package")
    assert sha256_folder(checkout.data("package")) == last
