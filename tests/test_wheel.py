"""The wheel without extras, in an environment of its own: it predicts the same, and brings no pipeline along."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from plumbline.core.extras import LIBRARIES
from tests.locks import pinned
from tests.tiny import run_process

ROOT = Path(__file__).parents[1]
USTICA = ROOT.parent / "shared/data/ustica"
MOST_BYTES = 900_000_000
NO_INDEX = re.compile(r"failed to fetch|error sending request|could not connect|dns error|connection|timed out", re.I)
"""What uv says where no index can be reached."""
ABSENT = ("torch", "lightning", "prefect", "dvc", "mlflow", "onnxscript", "tensorboard", "sqlalchemy", "fastapi")
pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class City:
    """Products and footprints."""

    products: list[Path]
    footprints: Path


@dataclass(frozen=True)
class Base:
    """An environment with the wheel and what it asks for."""

    folder: Path
    bytes: int
    """Of all its files, as they were installed."""

    def run(self, *words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
        """`plumbline WORDS` in it."""
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        command = [self.folder / "bin" / "plumbline", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing is left in the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "-w", folder, folder], check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Base:
    """The versions are those that the lock file has and the other tests ran with."""
    folder = tmp_path_factory.mktemp("base")
    (folder / "constraints.txt").write_text("\n".join(f"{name}=={one}" for name, one in pinned("pipeline").items()))
    install = f"""
import os, subprocess, sys
sys.path.insert(0, {str(ROOT / "requirements")!r})
from install import pip_settings, uv_environment
environment = os.environ | uv_environment(pip_settings()) | {{"UV_CACHE_DIR": "cache", "UV_HTTP_RETRIES": "1"}}
uv = [sys.executable, "-m", "uv"]
subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, "venv"], env=environment, check=True)
ended = subprocess.run([*uv, "pip", "install", "--quiet", "--python", "venv", "-c", "constraints.txt",
                        {str(wheel)!r}], env=environment)
sys.exit(ended.returncode)
"""
    ended = subprocess.run([sys.executable, "-c", install], capture_output=True, text=True, cwd=folder, check=False)
    if ended.returncode and NO_INDEX.search(ended.stderr):
        pytest.skip(f"no package index can be reached: {ended.stderr[-300:]}")
    assert ended.returncode == 0, ended.stderr
    venv = folder / "venv"
    return Base(venv, sum(path.lstat().st_size for path in venv.rglob("*") if path.is_file()))


@pytest.fixture(scope="module")
def city(request: pytest.FixtureRequest) -> City:
    """Ustica's real products; a simulated city where they are not there."""
    if USTICA.is_dir():
        return City(sorted(USTICA.glob("EGMS_L2b_*.zip")), USTICA / "footprints_synthetic.geojson")
    tiny = request.getfixturevalue("tiny")
    return City(tiny.products(), tiny.footprints)


@pytest.mark.realdata
def test_it_predicts_byte_for_byte_what_the_whole_environment_does(base, city, tmp_path):
    words = ["predict", "--points", *city.products, "--buildings", city.footprints]
    small = base.run(*words, "--output", "small.csv", "--map", "map.html", cwd=tmp_path)
    assert small.returncode == 0, small.stderr
    whole = run_process(*words, "--output", "whole.csv", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    found = (tmp_path / "small.csv").read_bytes()
    assert found == (tmp_path / "whole.csv").read_bytes()
    assert found.count(b",ok,") > 10
    assert (tmp_path / "map.html").stat().st_size > 100_000


def test_it_brings_no_pipeline_along_and_stays_small(base):
    asked = f"import importlib.util as u, json; print(json.dumps([n for n in {ABSENT!r} if u.find_spec(n)]))"
    ended = subprocess.run([base.folder / "bin" / "python", "-I", "-c", asked], capture_output=True, check=True)
    assert json.loads(ended.stdout) == []
    assert set(ABSENT) <= set(LIBRARIES["pipeline"])
    assert base.bytes <= MOST_BYTES


def test_triton_and_doctor_work_in_it(base, tmp_path):
    refused = base.run("explain", "--points", "a.csv", "--buildings", "f.gpkg", "--output", "o.csv", cwd=tmp_path)
    assert (refused.returncode, '`pip install "./WHEEL[torch]"`' in refused.stderr) == (2, True)
    for words in (["triton", "pretrained", "--output", "triton"], ["doctor", "--free", "0"]):
        ended = base.run(*words, cwd=tmp_path)
        assert ended.returncode == 0, (words, ended.stdout, ended.stderr)
    assert "added by extras: none" in ended.stdout
    assert list(tmp_path.glob("triton/*/config.pbtxt"))
