"""Parts and tiles on a real Dask cluster: two worker processes, of which one is killed on the way."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

import plumbline
from flows.orchestration.portions import ForeignWorkerError, check_worker, place_here
from plumbline.core.files import sha256_folder
from plumbline.core.jobs import ONE_THREAD
from plumbline.export.package import verify_package
from plumbline.params import load_params
from plumbline.prepare.stage import prepare
from plumbline.serve.score.results import ASIDE
from plumbline.sources.city.files import city_folders
from plumbline.sources.city.ingest import ingest
from tests.flows.conftest import ROOT, Project, Server, make_project
from tests.flows.orchestration.cluster import cluster_in, running
from tests.refusals import refuses
from tests.serve.score.conftest import PLACE, Town
from tests.tiny import PARAMS, City, empty_registry, run_cli
from tests.waiting import until

ONE_CITY = {
    "simulate": {**PARAMS["simulate"], "cities": {"town": {"band": "C", "buildings": 120, "seed": 5}}},
    "ingest": {"tile_m": 100},
    "prepare": {**PARAMS["prepare"], "block_m": 40},
}
REAL = ("simulate", "ingest", "prepare")
"""Stages that are the package's own in the project of the pipeline; the others are stand-ins."""


@contextmanager
def run_of(project: Project, flow: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Start a flow in a project; yield its process, and the file of what it prints."""
    log = project.folder / "run.log"
    with (
        log.open("w") as stream,
        running(
            [sys.executable, "-m", flow], cwd=project.folder, env=project.environment, stdout=stream, stderr=stream
        ) as run,
    ):
        yield run, log


def output_of(run: subprocess.Popen[bytes], log: Path) -> str:
    """Return what a run has printed, once it has ended well."""
    assert run.wait() == 0, log.read_text()
    return log.read_text()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project whose first three stages are real."""
    project = make_project(tmp_path / "project")
    graph = yaml.safe_load((project.folder / "dvc.yaml").read_text())
    original = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    for name in REAL:
        stage = original[name]
        stage["deps"] = [dep for dep in stage["deps"] if dep.startswith(("data/simulate", "data/ingest"))]
        graph["stages"][name] = stage
    graph["stages"]["train"]["deps"] = ["stage.py", "data/prepare"]
    for name in ("approve", "predict"):
        del graph["stages"][name]["params"]  # real parameters have no such section
    (project.folder / "dvc.yaml").write_text(yaml.safe_dump(graph))
    (project.folder / "params.yaml").write_text(yaml.safe_dump(PARAMS | ONE_CITY))
    with (project.folder / "plumbline/__init__.py").open("a") as stream:
        stream.write(f"__version__ = {plumbline.__version__!r}\n")  # which the package's readers import
    project.commit()
    return project


@pytest.mark.slow
def test_the_pipeline_on_a_cluster_loses_a_worker_in_each_stage_and_makes_the_same_bytes(
    project: Project, monkeypatch: pytest.MonkeyPatch
):
    project.environment |= {"OMP_NUM_THREADS": "1"}
    with cluster_in(project.folder) as cluster:
        project.environment["PLUMBLINE_DASK"] = cluster.address
        with run_of(project, "flows.pipeline") as (run, log):
            lost = cluster.kill_at_work(run, log)
            cluster.add_worker()
            until((project.folder / "data/ingest/town").is_dir, "the end of ingest", needs=run, found=log)
            lost += cluster.kill_at_work(run, log)
            output = output_of(run, log)
        assert lost >= 2
        assert len(cluster.workers()) == 1
    for stage in ("ingest", "prepare"):
        assert f"portions done on {cluster.address}" in output
        assert f"{stage}: going on, " in output
    monkeypatch.chdir(project.folder)
    params = load_params()
    ingest(city_folders(Path("data")), params.ingest, Path("alone/ingest"), 1)
    prepare(Path("data/ingest"), params.prepare, Path("alone/prepare"), 1)
    for stage in ("ingest", "prepare"):
        assert sha256_folder(Path("data") / stage) == sha256_folder(Path("alone") / stage)


@pytest.fixture
def town(city: City, package: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Town:
    """A project with a champion, and one delivery of many tiles."""
    town = Town(city, tmp_path, package)
    town.settings(tile_m=100)
    path = tmp_path / "params.yaml"
    settings = yaml.safe_load(path.read_text())
    settings["package"]["name"] = verify_package(package).name  # that of the registered model
    path.write_text(yaml.safe_dump(settings))
    shutil.copy(empty_registry(tmp_path_factory), tmp_path)
    assert run_cli("release", "promote", town.package, cwd=tmp_path).code == 0
    town.deliver("first")
    return town


def files_of_results(town: Town) -> dict[str, dict[str, str]]:
    """Return the hash of each file of each result."""
    manifests = {name: json.loads((path / "manifest.json").read_text()) for name, path in town.results().items()}
    return {
        name: {file: about["sha256"] for file, about in manifest["files"].items()}
        for name, manifest in manifests.items()
    }


@pytest.mark.slow
def test_score_on_a_cluster_loses_a_worker_and_makes_the_same_bytes(town: Town, prefect_server: Server):
    broken = town.deliver("broken", footprints=False)
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "PREFECT_HOME": str(town.folder / ".prefect"),
        "PREFECT_API_URL": prefect_server.url,
        "OMP_NUM_THREADS": "1",
    }
    project = Project(town.folder)
    project.environment = environment
    with cluster_in(town.folder) as cluster:
        environment["PLUMBLINE_DASK"] = cluster.address
        with run_of(project, "flows.score") as (run, log):
            assert cluster.kill_at_work(run, log) >= 1
            output = output_of(run, log)
        assert len(cluster.workers()) == 1
    tiles = json.loads((town.results()["first"] / "manifest.json").read_text())["tiles"]
    assert tiles > 3
    assert f"score: {tiles} portions done on {cluster.address}" in output
    assert f"score: going on, {tiles} of {tiles} portions are there from before" in output
    assert list(town.results()) == ["first"]
    assert (town.out / ASIDE / PLACE).is_dir(), output
    on_cluster = files_of_results(town)
    shutil.rmtree(town.out)
    shutil.rmtree(broken)
    del environment["PLUMBLINE_DASK"]
    with run_of(project, "flows.score") as (run, log):
        output_of(run, log)
    assert files_of_results(town) == on_cluster


@pytest.fixture
def simulated(city: City, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with simulated cities, in which this test works."""
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(PARAMS))
    shutil.copytree(city.data("simulate"), tmp_path / "data/simulate")
    monkeypatch.chdir(tmp_path)
    for name in ONE_THREAD:
        monkeypatch.setenv(name, "1")
    return tmp_path


def test_a_worker_in_another_place_than_the_run_is_refused(simulated: Path, monkeypatch: pytest.MonkeyPatch):
    place = place_here()
    check_worker(place)
    with refuses("worker.other_folder", simulated, "/elsewhere", error=ForeignWorkerError):
        check_worker(place._replace(folder=Path("/elsewhere")))
    with refuses("worker.other_code", error=ForeignWorkerError):
        check_worker(place._replace(code="another"))
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "8")
    with refuses("worker.other_threads", "OPENBLAS_NUM_THREADS is 8", error=ForeignWorkerError):
        check_worker(place)
