"""The list of versions says what a rollback goes back to."""

from __future__ import annotations

import shutil
import subprocess
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import yaml
from mlflow import MlflowClient

from plumbline.pretrained import FIELDS
from plumbline.release.promotion import promote
from plumbline.release.registry import Registry
from tests.release.conftest import MakePackage
from tests.tiny import PARAMS, run_cli

ROOT = Path(__file__).parents[2]


def git(*arguments: str) -> str:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    return subprocess.run(["git", *who, *arguments], check=True, capture_output=True, text=True).stdout.strip()


def rows(folder: Path) -> dict[str, list[str]]:
    """The cells of each version in the list, by its number."""
    ended = run_cli("release", "list", cwd=folder)
    assert ended.code == 0, ended.err
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in ended.out.splitlines() if "│" in line]
    return {cells[0]: cells for cells in lines}


def test_each_version_has_its_figures_its_commit_its_time_and_who_made_it(
    registry: Registry, make_package: MakePackage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "ada")
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(PARAMS))
    git("init", "--quiet")
    git("add", "params.yaml")
    git("commit", "--quiet", "-m", "one")
    first = git("rev-parse", "HEAD")
    one = promote(make_package("one"), lambda *_: None, registry).champion
    (tmp_path / "params.yaml").write_text(f"{yaml.safe_dump(PARAMS)}\n# changed")
    two = promote(make_package("two"), lambda *_: None, registry).champion
    listed = rows(tmp_path)
    assert list(listed) == ["2", "1"]
    for item, state, commit in ((one, "former", first[:12]), (two, "champion", f"{first[:12]}-dirty")):
        when = f"{item.registered:%Y-%m-%d %H:%M} UTC"
        about = [str(item.number), item.version, state, when, "ada", commit, "pass", "0.625", "0.75"]
        assert listed[str(item.number)] == about
    assert "quadrant accuracy" in run_cli("release", "list", cwd=tmp_path).out
    tags = MlflowClient(registry.server.uri, registry.server.uri).get_model_version("plumbline", "2").tags
    assert tags["plumbline.user"] == "ada"
    assert tags["plumbline.commit"] == f"{first}-dirty"
    assert abs(datetime.fromisoformat(tags["plumbline.created"]) - two.registered) < timedelta(minutes=5)


def test_fields_are_listed_with_figures_of_their_own_and_without_a_commit_outside_a_repository(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(ROOT / "restoration" / "params.yaml", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    promote(FIELDS, lambda *_: None, Registry("plumbline-restoration"))
    (cells,) = rows(tmp_path).values()
    assert cells[5:] == ["", "pass", "1.198", "0.9032"]
    assert "CRPS, mm" in run_cli("release", "list", cwd=tmp_path).out
