"""The stage graph says the truth: names, order, caching, and the code each stage really imports."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import grimp
import pytest
import yaml
from dvc.utils.hydra import apply_overrides

from flows.versioning.families import DIAGNOSIS, FAMILIES, RESTORATION, Family
from flows.versioning.stage_runner import STAGES
from plumbline.core.source_code import MAP_PAGE, SOURCES, STAGE_OF_PAGE
from plumbline.params.fields import RestorationParams
from plumbline.params.load import Params, load_params, load_restoration
from plumbline.params.prepare import JUDGED, SEQUENCES
from plumbline.release.package import NO_PART
from tests.flows.conftest import ROOT

GRAPHS: dict[Family, dict[str, Any]] = {
    family: yaml.safe_load((ROOT / family.folder / "dvc.yaml").read_text()) for family in FAMILIES.values()
}
DVC = GRAPHS[DIAGNOSIS]
EACH = pytest.mark.parametrize("family", list(GRAPHS), ids=lambda family: family.name)
# What reads, writes, reports and checks parameters, but decides no number; see the head of dvc.yaml.
NO_NUMBERS = {
    "reporting",
    "arrays",
    "console",
    "sqlite",
    "errors",
    "extras",
    "files",
    "geopackage",
    "jobs",
    "params",
    "source_code",
}
STARTS = {
    DIAGNOSIS: {
        "ingest": "sources",
        "gate": "validate.gate",
        "approve": "release.approval",
        "package": "release.package",
        "predict": "serve",
    },
    RESTORATION: {
        "ingest": "fields.simulate",
        "compress": "fields.release.onnx",
        "export": "fields.release.onnx",
        "validate": "fields.release.validate",
        "gate": "fields.release.gates",
        "approve": "release.approval",
        "package": "fields.release.validate",
    },
}


@EACH
def test_the_flow_runs_the_stages_of_the_graph_in_its_order(family: Family) -> None:
    assert tuple(GRAPHS[family]["stages"]) == (*STAGES, family.showcase)
    assert family.steps == (*STAGES, "release", family.showcase)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/training.md"])
def test_experiments_of_the_docs_set_parameters_that_dvc_finds(page: str, tmp_path: Path) -> None:
    """It sets none that the file does not have, unless two plus signs stand before it."""
    told = re.findall(r"dvc exp run((?: -S \S+)+)", (ROOT / page).read_text())
    assert told
    for options in told:
        path = shutil.copy(ROOT / "params.yaml", tmp_path / "params.yaml")
        apply_overrides(path, [option.replace("$fold", "4") for option in options.split(" -S ") if option])
        load_params(path)


@EACH
def test_a_stage_is_named_as_its_command_and_its_parameters(family: Family) -> None:
    sections = yaml.safe_load((ROOT / family.folder / "params.yaml").read_text())
    for name, stage in GRAPHS[family]["stages"].items():
        commands = stage["cmd"] if isinstance(stage["cmd"], list) else [stage["cmd"]]
        (own,) = (command for command in commands if "exec plumbline" in command)
        assert own.removeprefix("OGR_CURRENT_DATE=2000-01-01T00:00:00.000Z ").startswith(f"exec plumbline {name}")
        if name in STAGES and name != "approve":  # which no parameter changes
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
    fields = {field.alias or name for name, field in RestorationParams.model_fields.items()}
    assert set(GRAPHS[RESTORATION]["stages"]["package"]["params"]) == fields - {"family"}


def test_the_parameters_of_restoration_are_read() -> None:
    load_restoration(ROOT / RESTORATION.folder / "params.yaml")
    load_restoration(ROOT / "pretrained" / "restoration.yaml")


def test_limits_of_other_sections_that_a_stage_goes_by_are_its_parameters() -> None:
    """`train` records how a model's scatterers were prepared, `validate` judges as `predict` does (`abstention`)."""
    stated = yaml.safe_load((ROOT / "params.yaml").read_text())["prepare"]  # DVC knows no key that is not stated
    for stage, keys in (("train", SEQUENCES), ("validate", ("min_points", *JUDGED))):
        assert {f"prepare.{key}" for key in keys if key in stated} <= set(DVC["stages"][stage]["params"])


@EACH
def test_curves_lie_in_outputs(family: Family) -> None:
    outs = {out for stage in GRAPHS[family]["stages"].values() for out in stage["outs"]}
    paths: list[str] = []
    for plot in GRAPHS[family]["plots"]:
        ((name, settings),) = plot.items()
        paths += list(settings["y"]) if isinstance(settings["y"], dict) else [name]
    assert all(outs.intersection(map(str, Path(path).parents)) for path in paths)


@EACH
def test_git_keeps_the_lock_and_the_figures_and_nothing_that_a_stage_makes_else(family: Family) -> None:
    stages = GRAPHS[family]["stages"].values()
    figures = [one for stage in stages for one in stage.get("metrics", [])]
    assert all(settings == {"cache": False} for one in figures for settings in one.values())
    kept = ["dvc.lock", *(path for one in figures for path in one)]
    assert ignored(family, kept) == []
    outs = [out for stage in stages for out in stage["outs"]]
    assert ignored(family, outs) == outs


@EACH
def test_figures_that_git_keeps_are_copies_of_what_the_stage_makes(family: Family) -> None:
    """Else a clone that takes the stage from the remote would not find them there."""
    for name, stage in GRAPHS[family]["stages"].items():
        if "metrics" in stage:
            *_, copy = stage["cmd"]
            files = [word for word in copy.split() if "/" in word and not word.startswith("metrics/")]
            assert copy.startswith("exec install -D -m 644 ")
            assert files
            assert all(file.startswith(f"data/{name}/") for file in files)


def ignored(family: Family, paths: list[str]) -> list[str]:
    command = ["git", "check-ignore", "--no-index", *paths]
    done = subprocess.run(command, cwd=ROOT / family.folder, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def imports() -> dict[Family, grimp.ImportGraph]:
    """What imports what."""
    return dict.fromkeys(FAMILIES.values(), grimp.build_graph("plumbline"))


@pytest.mark.parametrize(
    ("family", "name"),
    [(family, name) for family, graph in GRAPHS.items() for name in graph["stages"]],
    ids=lambda value: value.name if isinstance(value, Family) else value,
)
def test_a_stage_depends_on_all_the_code_it_imports(
    family: Family, name: str, imports: dict[Family, grimp.ImportGraph]
) -> None:
    graph, own = imports[family], name if family == DIAGNOSIS else f"fields.{name}"
    start = f"plumbline.{STARTS[family].get(name, own)}"
    used = {start, *graph.find_descendants(start), *graph.find_upstream_modules(start, as_package=True)}
    paths = [path for module in used for path in sources(module) if not NO_NUMBERS & {path.stem, path.parent.name}]
    assert paths
    folder = ROOT / family.folder
    named = [(folder / dep).resolve() for dep in GRAPHS[family]["stages"][name]["deps"]]
    assert all(dep.exists() for dep in named if dep.is_relative_to(ROOT / "src"))
    missing = {str(path) for path in paths if not any(path.is_relative_to(dep) for dep in named)}
    assert not missing


def test_the_map_depends_on_the_page_that_it_is_drawn_with() -> None:
    assert f"{SOURCES / MAP_PAGE}" in DVC["stages"][STAGE_OF_PAGE]["deps"]


def sources(module: str) -> list[Path]:
    """The file of a module; nothing for a package, whose own file only describes it."""
    path = ROOT / "src" / f"{module.replace('.', '/')}.py"
    return [path] if path.exists() else []


def test_an_edit_of_fields_leaves_the_stages_of_diagnosis_up_to_date_and_the_reverse() -> None:
    """What both share, they may both depend on; what is one family's own, the other's stages never see."""
    for stage in DVC["stages"].values():
        assert not [dep for dep in stage["deps"] if dep.startswith("src/plumbline/fields")]
    own = ("model/network", "train/fit", "prepare/features", "compress", "serve/predict", "export/onnx")
    for name in ("simulate", "ingest", "prepare", "compress", "export"):
        named = GRAPHS[RESTORATION]["stages"][name]["deps"]
        inside = [Path("../src/plumbline") / part for part in own]
        assert not [part for part in inside for dep in named if part.is_relative_to(dep)], name
