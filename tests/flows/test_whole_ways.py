"""The deployments as an operator uses them: a fresh clone, `make up`, real stages, small parameters; in this order."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.versioning import clones
from plumbline.core.files import sha256_folder
from plumbline.params.fields import RestorationParams
from tests import tiny_fields
from tests.flows.conftest import IDENTITY, ROOT, Project
from tests.flows.system import ENDED, System, system_of
from tests.serve.score.conftest import PLACE, Town
from tests.tiny import PARAMS, City
from tests.waiting import until

pytestmark = pytest.mark.slow
SMALL = PARAMS | {
    "prepare": {**PARAMS["prepare"], "buffer_m": 2.0, "min_points": 5, "max_points": 128},  # DVC looks for them
    "score": {"settle_s": 0, "drift": {"min_buildings": 15}},
    # A model of two epochs may be worse than the one before by chance.
    "gate": {"rules": [rule for rule in PARAMS["gate"]["rules"] if rule.get("max_drop_vs") != "champion"]},
}
LEFT_OUT = ("tests", "benchmarks", "docs")


def make_clone(folder: Path) -> Project:
    """Commit the files of this checkout with small parameters to a new repository; copy the built page."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    for name in listed:
        if not name.startswith(tuple(f"{part}/" for part in LEFT_OUT)) and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / clones.PAGE, folder / clones.PAGE)
    (folder / "params.yaml").write_text(yaml.safe_dump(SMALL))
    # With every default: DVC asks for the parameters by name.
    fields = RestorationParams.model_validate(tiny_fields.PARAMS).model_dump(mode="json", by_alias=True)
    (folder / "restoration/params.yaml").write_text(yaml.safe_dump(fields))
    subprocess.run(["git", *IDENTITY, "init", "--quiet"], cwd=folder, check=True)
    project = Project(folder)
    project.commit()
    return project


@pytest.fixture(scope="module")
def system(prefect_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    folder = tmp_path_factory.mktemp("whole")
    project = make_clone(folder)
    for name in ("SHELL", "MLFLOW_TRACKING_URI", "PLUMBLINE_MAP_PAGE"):
        project.environment.pop(name, None)
    with system_of(project, prefect_database) as running:
        yield running


def wait_for_end(system: System, run: str) -> Any:
    """Return the ended run. Each line of its log is a step on the way: the wait for one has an end, for all none."""
    while (found := system.run(run))["state"]["type"] not in ENDED:
        count = len(system.said(run))
        until(partial(_has_moved, system, run, count), f"line {count + 1} of its log", pause_s=1.0)
    return found


def _has_moved(system: System, run: str, count: int) -> bool:
    return len(system.said(run)) > count or system.run(run)["state"]["type"] in ENDED


def run_to_end(system: System, deployment: str) -> str:
    """Run a deployment; return the message of its completed state."""
    run = system.start(deployment)
    state = wait_for_end(system, run)["state"]
    assert state["type"] == "COMPLETED", "\n".join([state["message"] or "", *system.said(run)])
    return str(state["message"])


def remote_names(folder: Path) -> set[str]:
    return {path.name for path in (folder / ".dvc-remote/files").rglob("*") if path.is_file()}


def dvc_list(folder: Path, outs: str) -> str:
    """Return the hash that a lock has for an output."""
    lock = yaml.safe_load((folder / "dvc.lock").read_text())
    (found,) = [out["md5"] for stage in lock["stages"].values() for out in stage["outs"] if out["path"] == outs]
    return str(found).removesuffix(".dir")


def test_the_nightly_run_completes_and_the_second_takes_all_from_the_cache(system: System) -> None:
    message = run_to_end(system, "pipeline/nightly")
    assert message.startswith("recomputed: simulate, ingest, prepare, train, compress, export, validate")
    assert message.endswith("predict")
    home = system.home("cpu")
    assert (home / "data/predict/map.html").stat().st_size > 100_000
    pushed = remote_names(system.project.folder)
    for outs in ("data/train", "data/package", "data/predict"):
        # A remote names a folder's list by its hash without the first two digits.
        assert f"{dvc_list(home, outs)[2:]}.dir" in pushed
    shown = subprocess.run(
        ["git", "show", "results:dvc.lock"], cwd=system.project.folder, check=True, capture_output=True, text=True
    )
    assert shown.stdout == (home / "dvc.lock").read_text()
    names = {run["name"] for run in system.ask("/task_runs/filter", limit=200)}
    assert {"simulate", "train", "compress", "predict", "push"} <= names
    assert not [name for name in names if "{" in name]

    package = sha256_folder(home / "data/package")
    message = run_to_end(system, "pipeline/nightly")
    assert message == "nothing was recomputed"
    assert sha256_folder(home / "data/package") == package


def test_another_machine_takes_the_results_with_plain_git_and_dvc(system: System, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    source = system.project.folder
    subprocess.run(["git", "clone", "--quiet", "--branch", "results", str(source), str(clone)], check=True)
    (clone / ".dvc/config.local").write_text(f"['remote \"local\"']\n    url = {source / '.dvc-remote'}\n")
    pull = [sys.executable, "-m", "dvc", "pull", "data/package", "data/predict"]
    done = subprocess.run(pull, cwd=clone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for outs in ("data/package", "data/predict"):
        assert sha256_folder(clone / outs) == sha256_folder(system.home("cpu") / outs)


def test_a_delivery_is_judged_and_one_unlike_the_training_data_trains_a_model(system: System) -> None:
    folder = system.project.folder
    params = (folder / "params.yaml").read_text()
    town = Town(City(system.home("cpu")), folder)
    (folder / "params.yaml").write_text(params)
    town.deliver("noisy", noise_mm=40.0)
    run_to_end(system, "score/score")
    result = until(lambda: town.results().get("noisy"), "the result of the delivery")
    assert (result / "predictions.gpkg").is_file()
    # The event of the drift starts the training.
    deployment = system.call("GET", "/deployments/name/retrain/retrain")["id"]
    ours = {"deployments": {"id": {"any_": [deployment]}}}
    (run,) = until(lambda: system.ask("/flow_runs/filter", **ours), "a run of retrain", pause_s=1.0)
    ended = wait_for_end(system, run["id"])
    assert ended["state"]["type"] == "COMPLETED", "\n".join([ended["state"]["message"] or "", *system.said(run["id"])])
    assert ended["state"]["message"].startswith(f"{PLACE} lends its points")


def test_the_second_family_completes_and_comes_from_the_cache(system: System) -> None:
    message = run_to_end(system, "restoration/restoration")
    assert message.startswith("recomputed: simulate, ingest, prepare, train")
    assert (system.home("cpu") / "restoration/data/restore/field.tif").is_file()
    message = run_to_end(system, "restoration/restoration")
    assert message == "nothing was recomputed"
