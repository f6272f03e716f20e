"""Alerts and dashboard name only figures that a running service has, and alerts begin when they should."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import httpx
import numpy as np
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from plumbline.core.files import write_json
from plumbline.params.serve import Drift
from plumbline.prepare.audit.distributions import ColumnValues
from plumbline.serve.score.drift import drift_of
from plumbline.serve.score.results import DRIFT, LATEST
from tests.service.served import ended, files, process, service
from tests.waiting import PATIENCE_S

pytest.importorskip("fastapi")
FOLDER = Path(__file__).parents[2] / "deploy/monitoring"
RULES = [rule for group in yaml.safe_load((FOLDER / "rules.yaml").read_text())["groups"] for rule in group["rules"]]
PANELS = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
EXPRESSIONS = [
    *(rule["expr"] for rule in RULES),
    *(target["expr"] for panel in PANELS for target in panel["targets"]),
]
OF_PROMETHEUS = {"up", "instance", "job"}
"""Name of a figure, and of labels, that Prometheus adds to each scrape."""
SERIES = re.compile(r"(plumbline_\w+|\bup\b)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"')


def write_drift(score_folder):
    """Write the drift of a delivery of `athens`, of which half the buildings are novel."""
    numbers = np.random.default_rng(0)
    trained, found = (
        ColumnValues(values={"geometry.log_points": numbers.normal(mean, 1, 200)}, buildings=200) for mean in (0, 5)
    )
    counts = {"statuses": {"ok": 100, "out_of_distribution": 100}, "categories": {"0": 100}}
    drift = drift_of(found, {"trained": trained}, counts, None, Drift())
    for folder in ("athens/2026-08-3fa94c1e", "corinth", "_sent/athens"):
        (score_folder / folder).mkdir(parents=True)
    write_json(score_folder / "athens/2026-08-3fa94c1e" / DRIFT, drift)
    write_json(score_folder / "athens" / LATEST, {"folder": "2026-08-3fa94c1e"})
    write_json(score_folder / "corinth" / LATEST, {"folder": "gone"})
    return drift


@pytest.fixture
def scraped(package, fields_package, tmp_path):
    """Samples of `/metrics` of a service that has answered a request, and the drift that it serves."""
    drift = write_drift(tmp_path / "score")
    with service(tmp_path / "service", package, fields_package, score_folder=tmp_path / "score") as client:
        assert client.get("/v1/models").status_code == 200
        return read_samples(client.get("/metrics").text), drift


def read_samples(text):
    return [one for family in text_string_to_metric_families(text) for one in family.samples]


@pytest.fixture(scope="module")
def judged(package, city, tmp_path_factory):
    """Samples of `/metrics` of a service in a process of its own that has judged a city, the job and both logs."""
    folder = tmp_path_factory.mktemp("monitored")
    options = ("--log-format", "json")
    with (
        process(folder / "service", package, *options) as (_, address),
        httpx.Client(timeout=PATIENCE_S) as client,
    ):
        job = client.post(
            f"{address}/v1/predict",
            files=files(city.products(), city.footprints),
            headers={"x-request-id": "from-the-proxy/7"},
        ).json()["id"]
        assert ended(client, job, address)["status"] == "done"
        text = client.get(f"{address}/metrics").text
    logs = (folder / "said.txt", folder / "service/jobs" / job / "log.txt")
    return read_samples(text), job, [path.read_text().splitlines() for path in logs]


def test_what_alerts_and_dashboard_name_is_there(scraped):
    samples, _ = scraped
    labels = {}
    for one in samples:
        labels.setdefault(one.name, set()).update(one.labels)
    for expression in EXPRESSIONS:
        series = SERIES.findall(expression)
        assert series, expression
        for name, matchers in series:
            assert name in {*labels, *OF_PROMETHEUS}, expression
            asked = {label for label, _ in MATCHER.findall(matchers)}
            assert asked <= labels.get(name, set()) | OF_PROMETHEUS, expression


def values_of(samples):
    return {(one.name, *sorted(one.labels.items())): one.value for one in samples}


DONE = ("plumbline_job_seconds_count", ("kind", "predict"), ("outcome", "done"))


def test_jobs_disk_and_drift_have_figures(scraped):
    samples, drift = scraped
    values = values_of(samples)
    assert values[DONE] == values[DONE[0], ("kind", "restore"), ("outcome", "failed")] == 0
    free = shutil.disk_usage(Path.cwd()).total
    assert 0 < values[("plumbline_disk_free_bytes",)] <= free
    place = ("place", "athens")
    assert values["plumbline_drift_verdict", place, ("verdict", "drift")] == 1
    assert values["plumbline_drift_novel_share", place] == 0.5
    ((column, feature),) = drift["features"].items()
    distance = values["plumbline_drift_distance", ("column", column), place]
    assert distance == feature["distance"] > 0.9
    assert "corinth" not in str(values)


@pytest.mark.slow
def test_a_request_is_followed_into_the_figures_and_the_log_of_its_job(judged):
    samples, job, (lines, of_job) = judged
    values = values_of(samples)
    assert values[DONE] == 1
    assert 0 < values["plumbline_job_seconds_sum", *DONE[1:]] < PATIENCE_S
    lines, of_job = ([json.loads(line) for line in part] for part in (lines, of_job))
    followed = [line for line in lines if line.get("request_id") == "from-the-proxy/7"]
    access, begun, over = sorted(followed, key=lambda line: "job" in line)
    assert (access["method"], access["path"], access["status"]) == ("POST", "/v1/predict", 202)
    assert access["seconds"] > 0
    assert (begun["job"], over["job"], over["outcome"]) == (job, job, "done")
    assert over["seconds"] > 0
    assert {line["request_id"] for line in of_job} == {"from-the-proxy/7"}
    assert any(job in line["message"] for line in of_job)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in lines)


def test_promtool_accepts_the_rules_and_alerts_begin_when_they_should(tmp_path):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is missing (Debian: prometheus)")
    cases = Path(__file__).with_name("rules.test.yaml").read_text()
    (tmp_path / "test.yaml").write_text(cases.replace("RULES", str(FOLDER / "rules.yaml")))
    told = subprocess.run(
        [promtool, "test", "rules", tmp_path / "test.yaml"], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr
    named = {case["alertname"] for test in yaml.safe_load(cases)["tests"] for case in test["alert_rule_test"]}
    assert named == {rule["alert"] for rule in RULES}
