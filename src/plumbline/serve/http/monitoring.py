"""Report the state of the service: probes for Kubernetes, and figures for Prometheus."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from plumbline.serve.http.job_store import JobStore
from plumbline.serve.http.models import Models
from plumbline.serve.http.problems import Problem

SEVERAL = "PROMETHEUS_MULTIPROC_DIR"
"""Folder in which several processes gather their figures; Prometheus's client reads the name."""
LEAST_FREE_MB = 200.0
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
BUILDINGS = (1, 4, 16, 64, 256, 1024, 4096)


class Meters:
    """Figures of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "plumbline_http_requests", "Requests.", ["method", "route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "plumbline_http_request_seconds", "Time to answer.", ["route"], buckets=SECONDS, registry=self.registry
        )
        self._inferred = Histogram(
            "plumbline_infer_buildings",
            "Buildings of a request for tensors.",
            buckets=BUILDINGS,
            registry=self.registry,
        )
        self._refused = Counter("plumbline_busy", "Requests refused for load.", ["what"], registry=self.registry)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def inferred(self, buildings: int) -> None:
        """Count the buildings of a request for tensors."""
        self._inferred.observe(buildings)

    def refused(self, what: str) -> None:
        """Count a request that was refused because the service is busy."""
        self._refused.labels(what).inc()

    def text(self, jobs: dict[str, int], models: list[tuple[str, str, str]]) -> bytes:
        """Return all figures in the format of Prometheus, summed over the processes."""
        now = CollectorRegistry()
        if SEVERAL in os.environ:
            MultiProcessCollector(now)  # type: ignore[no-untyped-call]
        gauge = Gauge("plumbline_jobs", "Jobs on the list.", ["status"], registry=CollectorRegistry())
        served = Gauge(
            "plumbline_model_info", "Models served.", ["name", "family", "version"], registry=CollectorRegistry()
        )
        for status, count in jobs.items():
            gauge.labels(status).set(count)
        for about in models:
            served.labels(*about).set(1)
        own = now if SEVERAL in os.environ else self.registry
        return generate_latest(own) + _one(gauge) + _one(served)


def _one(gauge: Gauge) -> bytes:
    alone = CollectorRegistry()
    alone.register(gauge)
    return generate_latest(alone)


def monitoring_routes(root: Path, store: JobStore, models: Models, meters: Meters) -> APIRouter:
    """Return the routes of probes and figures."""
    router = APIRouter(tags=["operation"])

    @router.get("/healthz", summary="Tell whether the process answers")
    def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @router.get("/readyz", summary="Tell whether work can be taken")
    def readyz() -> dict[str, str]:
        store.counts()
        free = shutil.disk_usage(root).free / 1e6
        if free < LEAST_FREE_MB:
            raise Problem(503, f"{free:.0f} MB are free for files; {LEAST_FREE_MB:.0f} are needed.", 30)
        return {"status": "ok", "model": models.diagnosis.manifest.version}

    @router.get("/metrics", summary="Return figures for Prometheus", response_class=Response)
    def metrics() -> Response:
        about = [(str(one["name"]), str(one["family"]), str(one["version"])) for one in models.describe()]
        return Response(meters.text(store.counts(), about), media_type=CONTENT_TYPE_LATEST)

    return router
