"""Parts and tiles on a real Dask cluster of two workers, under a real flow."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from distributed import Client, LocalCluster
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.orchestration.portions import on_dask, score_on_dask
from plumbline.core.errors import InputError
from plumbline.core.files import sha256_folder
from plumbline.core.jobs import alone
from plumbline.params import load_params
from plumbline.prepare.stage import prepare
from plumbline.simulate.stage import simulate
from plumbline.sources.city.files import city_folders
from plumbline.sources.city.ingest import ingest
from tests.flows.conftest import Server
from tests.serve.score.conftest import Town
from tests.tiny import PARAMS, Tiny

pytestmark = pytest.mark.slow
ONE_CITY = {
    "simulate": {**PARAMS["simulate"], "cities": {"town": {"band": "C", "buildings": 120, "seed": 5}}},
    "ingest": {"tile_m": 500},
    "prepare": {**PARAMS["prepare"], "block_m": 40},
}


@pytest.fixture
def town(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(PARAMS | ONE_CITY))
    simulate(load_params().simulate, tmp_path / "data" / "simulate", 1)
    return tmp_path


@contextmanager
def workers(server: Server, *, processes: bool) -> Iterator[str]:
    """The scheduler of two workers; either way each job reaches them by TCP, pickled."""
    with (
        temporary_settings({PREFECT_API_URL: server.url}),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=processes,
            protocol="tcp://",
            host="127.0.0.1",
            dashboard_address=None,
        ) as local,
    ):
        yield local.scheduler_address


@pytest.fixture
def cluster(town: Path, prefect_server: Server) -> Iterator[str]:
    """The scheduler of workers in this process, which stands in the project's folder."""
    with workers(prefect_server, processes=False) as address:
        yield address


@pytest.fixture
def cluster_of_processes(town: Path, prefect_server: Server) -> Iterator[str]:
    """The scheduler of two processes in the project's folder, each of which loads for seconds."""
    with workers(prefect_server, processes=True) as address:
        with Client(address) as client:
            client.run(os.chdir, str(town))
            assert len({os.getpid(), *client.run(os.getpid).values()}) == 3
        yield address


def test_a_cluster_does_the_portions_and_the_stage_puts_them_together(town, cluster, caplog):
    params = load_params()
    for stage, run in (
        ("ingest", lambda out: ingest(city_folders(Path("data")), params.ingest, out, 1)),
        ("prepare", lambda out: prepare(Path("data/ingest"), params.prepare, out, 1)),
    ):
        with alone(stage), pytest.raises(InputError, match=f"{stage}: another process is at it"):
            on_dask(stage, cluster)
        portions = on_dask(stage, cluster)
        assert portions >= 2
        with Client(cluster) as client:
            assert len(client.scheduler_info()["workers"]) == 2
        caplog.clear()
        with caplog.at_level("INFO", "plumbline"):
            run(Path("data") / stage)
        assert f"{stage}: going on, {portions} of {portions} portions are there from before" in caplog.text
        run(Path("alone") / stage)
        assert sha256_folder(Path("data") / stage) == sha256_folder(Path("alone") / stage)

    (town / "data/simulate/cities/town/labels.csv").write_text("building_id\n")
    with pytest.raises(InputError, match=r"labels\.csv, line 1: missing: severity_permille, quadrant;"):
        on_dask("ingest", cluster)


@pytest.mark.chaos
def test_a_cluster_judges_the_tiles_of_a_delivery_and_score_puts_them_together(
    town: Path, cluster_of_processes: str, tiny: Tiny
):
    place = Town(tiny, town)
    place.settings(tile_m=100)
    place.deliver("one")
    broken = place.deliver("broken", footprints=False)
    tiles = score_on_dask(cluster_of_processes, str(place.package))
    assert tiles > 3
    shutil.rmtree(broken)
    ended = place.score()
    assert ended.code == 0, ended.err
    assert f"score: going on, {tiles} of {tiles} portions are there from before" in ended.err
    assert list(place.results()) == ["one"]
