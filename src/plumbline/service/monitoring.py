"""Count requests and jobs of the service, and answer probes and Prometheus."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import get_args

from fastapi import APIRouter, Response
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from plumbline.serve.score.results import read_drifts
from plumbline.service.job_store import ENDED, JobStore, Kind
from plumbline.service.models import Models
from plumbline.service.problems import Problem, refusals

SEVERAL = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable with the folder in which several processes write their figures."""
MIN_FREE_MB = 200.0
"""Smallest free space on the disk of the service's folder with which jobs are accepted."""
DISK_SECONDS = 60
"""Time after which a client may ask again where the disk is full."""
REQUEST_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
JOB_BUCKETS_S = (1, 3, 10, 30, 60, 180, 600, 1800, 3600, 7200)
BUILDING_BUCKETS = (1, 4, 16, 64, 256, 1024, 4096)


class Meters:
    """Figures of one process."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "plumbline_http_requests", "Requests.", ["method", "route", "status"], registry=registry
        )
        self.seconds = Histogram(
            "plumbline_http_request_seconds",
            "Time to answer.",
            ["route"],
            buckets=REQUEST_BUCKETS_S,
            registry=registry,
        )
        self.inferred = Histogram(
            "plumbline_infer_buildings",
            "Buildings of a request for tensors.",
            buckets=BUILDING_BUCKETS,
            registry=registry,
        )
        self.refused = Counter(
            "plumbline_busy", "Requests refused for load.", ["what"], registry=registry
        )
        self.jobs = Histogram(
            "plumbline_job_seconds",
            "Time from the start of a job to its end.",
            ["kind", "outcome"],
            buckets=JOB_BUCKETS_S,
            registry=registry,
        )
        for kind, outcome in product(
            get_args(Kind), ENDED
        ):  # begin at 0: Prometheus sees no increase
            self.jobs.labels(kind, outcome)  # in a series that begins with its first event
        for queue in ("jobs", "infer"):
            self.refused.labels(queue)

    def text(self, live: Collector) -> bytes:
        """Return the figures of all processes, and those of `live`, in the format of Prometheus."""
        scraped = CollectorRegistry()
        scraped.register(live)
        if SEVERAL not in os.environ:
            return generate_latest(self.registry) + generate_latest(scraped)
        MultiProcessCollector(scraped)  # type: ignore[no-untyped-call]
        return generate_latest(scraped)


class LiveFigures(Collector):
    """Figures that are read whenever Prometheus asks: jobs, models, disk, drift of deliveries."""

    def __init__(
        self, root: Path, store: JobStore, models: Models, score_folder: Path | None
    ) -> None:
        self._root, self._store, self._models, self._score_folder = (
            root,
            store,
            models,
            score_folder,
        )

    def collect(self) -> Iterator[Metric]:
        """Yield the figures."""
        jobs = GaugeMetricFamily("plumbline_jobs", "Jobs on the list.", labels=["status"])
        for status, count in self._store.counts().items():
            jobs.add_metric([status], count)
        yield jobs
        served = GaugeMetricFamily(
            "plumbline_model_info", "Models served.", labels=["name", "family", "version"]
        )
        for model in self._models.describe():
            served.add_metric([str(model[key]) for key in ("name", "family", "version")], 1)
        yield served
        yield GaugeMetricFamily(
            "plumbline_disk_free_bytes",
            "Free space on the disk of the service's folder.",
            shutil.disk_usage(self._root).free,
        )
        yield GaugeMetricFamily(
            "plumbline_disk_needed_bytes",
            "Free space below which jobs are refused.",
            MIN_FREE_MB * 1e6,
        )
        if self._score_folder is not None:
            yield from _drift_figures(self._score_folder)


def _drift_figures(score_folder: Path) -> Iterator[Metric]:
    verdicts = GaugeMetricFamily(
        "plumbline_drift_verdict",
        "1 for the verdict of a place's latest delivery.",
        labels=["place", "verdict"],
    )
    distances = GaugeMetricFamily(
        "plumbline_drift_distance",
        "Kolmogorov-Smirnov distance of a column of the latest delivery from the nearest "
        "training city.",
        labels=["place", "column"],
    )
    novel = GaugeMetricFamily(
        "plumbline_drift_novel_share",
        "Share of the latest delivery's buildings that are unlike any in training.",
        labels=["place"],
    )
    for place, drift in read_drifts(score_folder).items():
        verdicts.add_metric([place, drift["verdict"]], 1)
        novel.add_metric([place], drift["shares"]["novel"])
        for column, feature in drift["features"].items():
            if "distance" in feature:
                distances.add_metric([place, column], feature["distance"])
    yield from (verdicts, distances, novel)


def check_disk(folder: Path, status: int) -> None:
    """Refuse work if the disk of a folder has less than `MIN_FREE_MB` of free space.

    Raises:
        Problem: with this status.
    """
    free_mb = shutil.disk_usage(folder).free / 1e6
    if free_mb < MIN_FREE_MB:
        raise Problem(
            status,
            f"The disk of the service has {free_mb:.0f} MB of free space; {MIN_FREE_MB:.0f} MB "
            "are needed for a job.",
            DISK_SECONDS,
            "disk.little_space",
        )


def monitoring_routes(
    root: Path, store: JobStore, models: Models, meters: Meters, score_folder: Path | None
) -> APIRouter:
    """Return the routes of probes and figures."""
    router, live = APIRouter(tags=["operation"]), LiveFigures(root, store, models, score_folder)

    @router.get("/healthz", summary="Tell whether the process answers")
    def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @router.get("/readyz", summary="Tell whether work can be taken", responses=refusals(503))
    def readyz() -> dict[str, str]:
        store.counts()  # raises where the list is locked
        check_disk(root, 503)
        return {"status": "ok", "model": models.diagnosis.manifest.version}

    @router.get(
        "/metrics",
        summary="Return figures for Prometheus",
        response_class=Response,
        responses=refusals(503),
    )
    def metrics() -> Response:
        return Response(meters.text(live), media_type=CONTENT_TYPE_LATEST)

    return router
