"""What stands beside the code for those who install, cite or build it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement

import plumbline
from plumbline.core.extras import DISTRIBUTION

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RECIPE = yaml.safe_load((ROOT / "conda/recipe.yaml").read_text())


def test_the_version_is_one():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"]
    assert {plumbline.__version__, PROJECT["version"], cited, RECIPE["context"]["version"]} == {PROJECT["version"]}
    assert f"## {PROJECT['version']}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_name_is_one():
    assert DISTRIBUTION == PROJECT["name"] == RECIPE["package"]["name"]


def test_the_recipe_asks_for_what_the_package_does():
    asked = {Requirement(text).name for text in PROJECT["dependencies"]}
    assert {text.split()[0] for text in RECIPE["requirements"]["run"]} == asked | {"python"}
