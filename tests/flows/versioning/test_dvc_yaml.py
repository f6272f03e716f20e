"""The stage graph says the truth: names, order, caching, and the code each stage really imports."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import grimp
import pytest
import yaml
from dvc.utils.hydra import apply_overrides

from flows.versioning.stage_runner import STAGES
from plumbline.params.load import Params, load_params
from plumbline.params.prepare import JUDGED, SEQUENCES
from plumbline.release.package import NO_PART
from tests.flows.conftest import ROOT

DVC: dict[str, Any] = yaml.safe_load((ROOT / "dvc.yaml").read_text())
# What reads, writes, reports and checks parameters, but decides no number; see the head of dvc.yaml.
NO_NUMBERS = {"reporting", "console", "database", "errors", "extras", "files", "jobs", "params"}
STARTS = {"ingest": "sources", "package": "release.package", "predict": "serve"}


def test_the_flow_runs_the_stages_of_the_graph_in_its_order() -> None:
    assert tuple(DVC["stages"]) == (*STAGES, "predict")


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/padding.md"])
def test_experiments_of_the_docs_set_parameters_that_dvc_finds(page: str, tmp_path: Path) -> None:
    """It sets none that the file does not have, unless two plus signs stand before it."""
    told = re.findall(r"dvc exp run((?: -S \S+)+)", (ROOT / page).read_text())
    assert told
    for options in told:
        path = shutil.copy(ROOT / "params.yaml", tmp_path / "params.yaml")
        apply_overrides(path, [option.replace("$fold", "4") for option in options.split(" -S ") if option])
        load_params(path)


def test_a_stage_is_named_as_its_command_and_its_parameters() -> None:
    sections = yaml.safe_load((ROOT / "params.yaml").read_text())
    for name, stage in DVC["stages"].items():
        command = stage["cmd"][-1] if isinstance(stage["cmd"], list) else stage["cmd"]
        assert command.startswith(f"exec plumbline {name}")
        if name in STAGES:
            assert name in stage["params"]
        for key in stage.get("params", []):
            value = sections
            for part in key.split("."):
                value = value[part]
        assert stage["outs"] == [f"data/{name}"]  # plain, so cached, and alone, so nothing is left out
        assert stage["deps"]


def test_a_package_is_made_anew_where_a_parameter_in_its_hash_is_another() -> None:
    sections = {field.alias or name for name, field in Params.model_fields.items()}
    assert set(DVC["stages"]["package"]["params"]) == sections - NO_PART


def test_limits_of_other_sections_that_a_stage_goes_by_are_its_parameters() -> None:
    """`train` records how a model's scatterers were prepared, `validate` judges as `predict` does (`abstention`)."""
    stated = yaml.safe_load((ROOT / "params.yaml").read_text())["prepare"]  # DVC knows no key that is not stated
    for stage, keys in (("train", SEQUENCES), ("validate", ("min_points", *JUDGED))):
        assert {f"prepare.{key}" for key in keys if key in stated} <= set(DVC["stages"][stage]["params"])


def test_figures_and_curves_lie_in_outputs() -> None:
    outs = {out for stage in DVC["stages"].values() for out in stage["outs"]}
    paths = [*DVC["metrics"]]
    for plot in DVC["plots"]:
        ((name, settings),) = plot.items()
        paths += list(settings["y"]) if isinstance(settings["y"], dict) else [name]
    assert all(outs.intersection(map(str, Path(path).parents)) for path in paths)


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    return grimp.build_graph("plumbline")


@pytest.mark.parametrize("name", list(DVC["stages"]))
def test_a_stage_depends_on_all_the_code_it_imports(name: str, imports: grimp.ImportGraph) -> None:
    start = f"plumbline.{STARTS.get(name, name)}"
    used = {start, *imports.find_descendants(start), *imports.find_upstream_modules(start, as_package=True)}
    paths = [path for module in used for path in sources(module) if not NO_NUMBERS & {path.stem, path.parent.name}]
    named = [ROOT / dep for dep in DVC["stages"][name]["deps"]]
    missing = {str(path) for path in paths if not any(path.is_relative_to(dep) for dep in named)}
    assert not missing


def sources(module: str) -> list[Path]:
    """The file of a module; nothing for a package, whose own file only describes it."""
    path = ROOT / "src" / f"{module.replace('.', '/')}.py"
    return [path] if path.exists() else []
