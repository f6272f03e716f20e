"""What `ingest` and `prepare` cost on a Dask cluster of 1 and of 2 worker processes, and what a lost worker costs.

    python -m benchmarks.cluster [--buildings 4000] [--tile-m 500]

Workers are processes of this machine with one thread each, started as docs/operations/cluster.md does. CPU seconds are
those of the workers alone, from a worker that has its libraries loaded. The lost worker is killed with `kill -9` in the
middle of a portion of `prepare`.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psutil
import yaml

from benchmarks.common import ROOT, head, line, parse, parser, stamp
from flows.orchestration import embedded_server
from plumbline.params import load_params
from plumbline.prepare.stage import prepare
from plumbline.simulate.stage import simulate
from plumbline.sources.city.files import city_folders
from plumbline.sources.city.ingest import ingest
from tests.flows.orchestration.cluster import Cluster, cluster_in
from tests.tiny import PARAMS

STAGES = ("ingest", "prepare")


class Cost(NamedTuple):
    """Cost of the portions of one stage."""

    portions: int
    cpu_s: float
    """Of all workers, also of a lost one."""
    wall_s: float


def cpu_seconds(pids: Sequence[int]) -> dict[int, float]:
    """Return the CPU seconds that each process has used."""
    seconds = {}
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            times = psutil.Process(pid).cpu_times()
            seconds[pid] = times.user + times.system
    return seconds


def measure(stage: str, cluster: Cluster, lose: bool = False) -> Cost:
    """Do the portions of a stage on the cluster; `lose`: kill a worker in the middle of one."""
    from flows.orchestration.portions import on_dask  # loads Prefect, which the server must precede

    pids = list(cluster.workers().values())
    before = cpu_seconds(pids)
    latest, done = dict(before), threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            latest.update(cpu_seconds(pids))

    watcher = threading.Thread(target=watch)
    watcher.start()
    killer = threading.Thread(target=cluster.kill_at_work, args=(None, None))
    began = time.perf_counter()
    if lose:
        killer.start()
    count = on_dask(stage, cluster.address)
    wall_s = time.perf_counter() - began
    latest.update(cpu_seconds(pids))
    done.set()
    watcher.join()
    if lose:
        killer.join()
    return Cost(count, sum(latest.values()) - sum(before.values()), wall_s)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    asked = parser("cluster", __doc__)
    asked.add_argument("--buildings", type=int, default=4_000)
    asked.add_argument("--tile-m", type=float, default=500.0)
    given = parse(asked, argv, buildings=60, tile_m=100.0)
    town = {"band": "C", "buildings": given.buildings, "seed": 1}
    content = PARAMS | {
        "simulate": {**PARAMS["simulate"], "cities": {"town": town}, "years": 5.0},
        "ingest": {"tile_m": given.tile_m},
    }
    print(f"{stamp(f'{given.buildings:,} buildings')}\n")
    columns = "stage", "workers", "portions", "CPU s of the workers", "CPU h per million buildings", "s"
    print(head(*columns))
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("params.yaml").write_text(yaml.safe_dump(content))
        params = load_params()
        os.environ |= {"PREFECT_HOME": str(Path.cwd() / ".prefect"), "PYTHONPATH": str(ROOT)}
        embedded_server.begin()
        simulate(params.simulate, Path("data/simulate"), 1)
        embedded_server.wait()
        for count, lose in ((1, False), (2, False), (2, True)):
            with cluster_in(Path.cwd(), count) as cluster:
                cluster.client.run(exec, "import flows.orchestration.portions")  # a worker loads its libraries once
                for stage in STAGES:
                    cost = measure(stage, cluster, lose and stage == "prepare")
                    if stage == "ingest":
                        ingest(city_folders(Path("data")), params.ingest, Path("data/ingest"), 1)
                    else:
                        prepare(Path("data/ingest"), params.prepare, Path("data/prepare"), 1)
                    workers = f"{count}, one lost" if lose and stage == "prepare" else count
                    per_million_h = cost.cpu_s / given.buildings * 1e6 / 3600
                    cells = f"{cost.cpu_s:.1f}", f"{per_million_h:.2f}", f"{cost.wall_s:.1f}"
                    print(line(stage, workers, cost.portions, *cells), flush=True)


if __name__ == "__main__":
    main()
