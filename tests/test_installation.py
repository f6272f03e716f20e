"""An installation in a checkout cannot lie: what DVC files under the checkout's code was made by that code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from plumbline.core.source_code import SOURCES
from tests.tiny import PARAMS

ROOT = Path(__file__).parents[1]
SMALL = {
    **PARAMS["simulate"],
    "cities": {"town": {"band": "C", "buildings": 12, "seed": 1}},
    "showcase": {"band": "C", "buildings": 6, "seed": 3},
}
pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Clone:
    """A copy of this checkout, and an environment into which `pip install .` has put a copy of its code."""

    folder: Path
    environment: Path

    def run(
        self, *words: str, cwd: str = ".", variables: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in the clone."""
        path = [str(self.environment / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
        usual = {
            name: value
            for name, value in os.environ.items()
            if name not in ("PYTHONPATH", "SHELL") and not name.startswith(("PLUMBLINE_", "DVC_"))
        }
        return subprocess.run(
            words,
            cwd=self.folder / cwd,
            env=usual | {"PATH": os.pathsep.join(path)} | (variables or {}),
            capture_output=True,
            text=True,
            check=False,
        )

    def python(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the environment's Python in the clone."""
        return self.run(str(self.environment / "bin" / "python"), *words)

    def repro(self, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the first stage by DVC."""
        return self.run(sys.executable, "-m", "dvc", "repro", "simulate", variables=variables)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    folder = tmp_path_factory.mktemp("clone")
    for name in ("pyproject.toml", "README.md", "LICENSE", "dvc.yaml", ".dvcignore"):
        shutil.copy(ROOT / name, folder)
    for name in ("src", "requirements", "data/borrowed"):
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    (folder / "params.yaml").write_text(yaml.safe_dump({**params, "simulate": SMALL}))
    (folder / "restoration").mkdir()
    (folder / "restoration" / "params.yaml").write_text("family: restoration\n")
    environment = folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    # The libraries of this environment, without its own editable installation.
    place = environment / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    (place / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    made = Clone(folder, environment)
    subprocess.run(
        [sys.executable, "-m", "dvc", "init", "--no-scm", "--quiet"], cwd=folder, check=True, capture_output=True
    )
    pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "."]
    done = made.python(*pip)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(folder / "build", ignore_errors=True)
    return made


def test_dvc_makes_nothing_with_a_copy_of_the_code(clone):
    ended = clone.repro()
    assert ended.returncode != 0
    assert "exited with 2" in ended.stderr
    assert f"ERROR simulate: {clone.environment}/lib/" in ended.stderr
    assert f"`make install` in {clone.folder}" in ended.stderr
    assert not (clone.folder / "data/simulate").exists()
    assert not (clone.folder / "dvc.lock").exists()


def test_a_stage_by_hand_is_refused_too_and_other_commands_are_not(clone):
    ended = clone.run("plumbline", "ingest", cwd="restoration")
    assert (ended.returncode, f"`make install` in {clone.folder}" in ended.stderr) == (2, True)
    ended = clone.run("plumbline", "predict", "--points", "no.csv", "--buildings", "no.gpkg", "--output", "o.csv")
    assert ended.returncode == 2
    assert "no.csv" in ended.stderr
    assert "make install" not in ended.stderr


def test_the_code_of_the_checkout_may_come_by_the_path_as_it_does_in_a_worker(clone):
    done = clone.repro(PYTHONPATH=str(clone.folder / "src"))
    assert done.returncode == 0, done.stderr
    for folder in ("data/simulate", ".dvc/cache"):
        shutil.rmtree(clone.folder / folder)
    (clone.folder / "dvc.lock").unlink()


def test_make_installs_the_code_of_the_checkout_in_the_place_of_a_copy(clone):
    """What its last line runs; extras come from an index, and are not asked for here."""
    install = ["requirements/install.py", "--extras"]
    refused = clone.python(*install, "nothing")
    assert refused.returncode == 2
    assert refused.stderr.startswith("EXTRAS: nothing found, one or more of torch, pipeline, ")
    imported = ["-P", "-c", "import plumbline; print(plumbline.__file__)"]
    for again in (False, True):
        done = clone.python(*install)
        assert done.returncode == 0, done.stderr
        assert clone.python(*imported).stdout == f"{clone.folder / SOURCES / '__init__.py'}\n", again
    done = clone.repro()
    assert done.returncode == 0, done.stderr
    assert "simulate:" in (clone.folder / "dvc.lock").read_text()
