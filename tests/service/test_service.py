"""The service as a whole: who may ask it, what it says of itself, and that it outlives its processes."""

import json
import logging
import os
import re
import shutil
import signal
import stat
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import httpx
import psutil
import pytest
from pydantic import SecretStr, ValidationError
from starlette.testclient import TestClient

from plumbline.cli.service import read_tokens
from plumbline.core.errors import InputError
from plumbline.fields.release.package import adapters_in
from plumbline.service import job_store as job_files
from plumbline.service import monitoring, runner
from plumbline.service.app import make_app
from plumbline.service.job_store import MOST_ATTEMPTS, JobStore, is_alive, this_process
from plumbline.service.models import Models
from plumbline.service.problems import for_requests
from plumbline.service.settings import ServiceSettings
from tests.service.forked import ForkedJob, place
from tests.service.served import ended, files, is_problem, process, service
from tests.tiny import run_cli
from tests.waiting import PATIENCE_S, until, until_gone

pytest.importorskip("fastapi")
TOKEN = "a-word-that-nobody-guesses"


@pytest.fixture(scope="module")
def guarded(package, fields_package, tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    with service(folder, package, fields_package, tokens=(SecretStr(TOKEN),)) as client:
        yield client


def test_a_token_is_asked_for_but_by_probes_and_documentation(guarded):
    for path in ("/v1/models", "/v2", "/metrics", "/docs/more", "/v1/jobs", "/v1/jobs/" + "0" * 32):
        refused = guarded.get(path)
        assert is_problem(refused, 401, "request.no_token")
        assert refused.headers["www-authenticate"] == "Bearer"
        for wrong in (f"Bearer {TOKEN}x", TOKEN, f"bearer {TOKEN[:-1]}"):
            assert guarded.get(path, headers={"authorization": wrong}).status_code == 401
    for prefix in ("/docs", "/v1", "/metrics", "//x"):  # what a proxy says of the path opens nothing
        refused = guarded.get("/v1/models", headers={"x-forwarded-prefix": prefix})
        assert is_problem(refused, 401, "request.no_token")
    assert 'href="openapi.json"' in guarded.get("/docs").text
    assert guarded.get("/openapi.json").json()["info"]["title"] == "Plumbline"
    assert guarded.get("/healthz").json() == {"status": "ok"}
    assert guarded.get("/readyz").json()["status"] == "ok"
    assert guarded.get("/v2/health/ready").json() == {"ready": True}
    assert guarded.get("/v2/health/live").json() == {"live": True}
    assert guarded.get("/v1/models", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_two_tokens_in_one_request_are_refused(guarded):
    token = f"Bearer {TOKEN}"
    for second in ("Bearer another-word-of-letters", token):
        headers = [("authorization", second), ("authorization", token)]
        assert is_problem(guarded.get("/v1/models", headers=headers), 400, "request.two_tokens")


def test_an_answer_and_its_problem_name_the_request(guarded):
    for sent in ("abc-1", "0af7651916cd43dd/8448eb211c80319c:1", "", "two words", "x" * 129, "\u00e9".encode()):
        refused = guarded.get("/v1/models", headers={"x-request-id": sent})
        name = refused.headers["x-request-id"]
        assert refused.json()["request_id"] == name
        is_valid = sent in ("abc-1", "0af7651916cd43dd/8448eb211c80319c:1")
        assert (name == sent) == is_valid
        assert is_valid or len(name) == 32
    authorised = {"authorization": f"Bearer {TOKEN}"}
    missing = guarded.get("/v1/jobs/" + "0" * 32, headers=authorised)  # by the application itself
    assert missing.json()["request_id"] == missing.headers["x-request-id"]


def test_a_request_is_followed_into_the_figures_and_the_log_of_its_job(city, package, tmp_path, monkeypatch):
    """As `serve --log-format json` writes them, on another server than uvicorn's."""
    (tmp_path / "a.csv").write_text("no points")
    jobs, figures = [], []

    def make_server(config):
        def run():
            with TestClient(config.app, headers={"x-request-id": "from-the-proxy/7"}) as client:
                sent = client.post("/v1/predict", files=files([tmp_path / "a.csv"], city.footprints))
                jobs.append(ended(client, sent.json()["id"]))
                figures.append(client.get("/metrics").text)

        return SimpleNamespace(run=run, started=True)

    place()
    for where, name, value in ((runner, "LocalJob", ForkedJob), (tempfile, "tempdir", tempfile.tempdir)):
        monkeypatch.setattr(where, name, value)
    monkeypatch.setattr("uvicorn.Server", make_server)
    monkeypatch.setattr(logging.getLogger("uvicorn"), "handlers", [])
    folder = tmp_path / "service"
    words = ("--log-format", "json", "--folder", folder, "--model", package)
    served, ((job,),) = run_cli("serve", *words, cwd=tmp_path), (jobs,)
    assert (served.code, job["status"]) == (0, "failed"), served.err
    text = (folder / job_files.JOBS / job["id"] / "log.txt").read_text()
    lines, of_job = ([json.loads(line) for line in part.splitlines()] for part in (served.err, text))
    followed = [line for line in lines if line.get("request_id") == "from-the-proxy/7"]
    (sent,) = (line for line in followed if line.get("path") == "/v1/predict")
    assert (sent["method"], sent["status"], sent["seconds"] > 0) == ("POST", 202, True)
    (over,) = (line for line in followed if "outcome" in line)
    assert (over["job"], over["outcome"], over["seconds"] > 0) == (job["id"], "failed", True)
    assert {line["request_id"] for line in of_job} == {"from-the-proxy/7"}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in lines)
    assert 'plumbline_job_seconds_count{kind="predict",outcome="failed"} 1.0' in figures[0]


def test_probe_and_uploads_refuse_alike_at_a_full_disk(guarded, monkeypatch):
    authorised = {"authorization": f"Bearer {TOKEN}"}
    monkeypatch.setattr(monitoring, "MIN_FREE_MB", 1e12)
    assert is_problem(guarded.get("/readyz"), 503, "disk.little_space")
    for path in ("/v1/predict", "/v1/restore"):
        refused = guarded.post(path, files=[("points", ("a.csv", b"1"))], headers=authorised)
        assert is_problem(refused, 507, "disk.little_space")
        assert int(refused.headers["retry-after"]) > 0
    assert guarded.get("/v1/jobs", headers=authorised).json() == []
    assert guarded.get("/healthz").status_code == 200


def test_it_says_what_it_serves_and_how_much(guarded, fields_package):
    headers = {"authorization": f"Bearer {TOKEN}"}
    listed = guarded.get("/v1/models", headers=headers).json()
    assert [one["family"] for one in listed] == ["diagnosis", "restoration"]
    assert all(one["gate"]["verdict"] == "pass" and one["version"] for one in listed)
    assert listed[1]["adapters"] == adapters_in(fields_package)
    text = guarded.get("/metrics", headers=headers).text
    assert 'plumbline_http_requests_total{method="GET",route="/v1/models",status="200"}' in text
    assert 'plumbline_jobs{status="queued"} 0.0' in text
    assert f'version="{listed[0]["version"]}"' in text
    document = guarded.get("/openapi.json", headers=headers).json()
    assert {"/v1/predict", "/v1/restore", "/v2/models/{name}/infer"} <= set(document["paths"])
    assert is_problem(guarded.get("/nowhere", headers=headers), 404, None, "Not Found")
    assert is_problem(guarded.delete("/healthz"), 405, None, "Not Allowed")


def test_a_proxy_may_show_it_under_a_path(guarded):
    for path in ("/v1/models/", "/tools/v1/models/"):  # the proxy took the prefix off, or left it on
        told = guarded.get(
            path,
            headers={"authorization": f"Bearer {TOKEN}", "x-forwarded-prefix": "/tools/"},
            follow_redirects=False,
        )
        assert told.headers["location"].endswith("/tools/v1/models")
    assert guarded.get("/openapi.json", headers={"x-forwarded-prefix": "/tools"}).json()["servers"] == [
        {"url": "/tools"}
    ]
    for prefix in ("tools", "//tools", "/a b", "/\u00e9".encode(), ""):
        told = guarded.get("/openapi.json", headers={"x-forwarded-prefix": prefix})
        assert "servers" not in told.json()


def test_another_address_needs_a_token(tmp_path):
    for host in ("0.0.0.0", "192.168.0.7", "example.org", "::"):
        with pytest.raises(ValidationError, match="needs a token"):
            ServiceSettings(folder=tmp_path, host=host)
        assert ServiceSettings(folder=tmp_path, host=host, tokens=(SecretStr(TOKEN),)).host == host
    for host in ("127.0.0.1", "::1", "localhost"):
        assert ServiceSettings(folder=tmp_path, host=host).tokens == ()
    with pytest.raises(ValidationError, match="fewer than 16"):
        ServiceSettings(folder=tmp_path, tokens=(SecretStr(TOKEN), SecretStr("short")))


def test_tokens_are_read_from_a_file_of_ones_own(tmp_path):
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n\n{TOKEN}-too\n")
    path.chmod(0o600)
    both = (SecretStr(TOKEN), SecretStr(f"{TOKEN}-too"))
    assert read_tokens(path) == both
    for mode in (0o600 | stat.S_IROTH, 0o444):
        path.chmod(mode)
        with pytest.raises(InputError, match=r"everybody may read it.* `chmod 600"):
            read_tokens(path)
    path.chmod(0o440)
    assert read_tokens(path) == both  # the group is this process's own, as a Secret's is by fsGroup
    with mock.patch("os.getegid", return_value=path.stat().st_gid + 1), mock.patch("os.getgroups", return_value=[]):
        with pytest.raises(InputError, match="the foreign group"):
            read_tokens(path)
        path.chmod(0o600)
        assert read_tokens(path) == both
    for wrong in ("two words", "", "\n"):
        path.write_text(wrong)
        with pytest.raises(InputError, match="one word"):
            read_tokens(path)
    with pytest.raises(InputError, match="not readable"):
        read_tokens(tmp_path / "none")


@pytest.mark.parametrize(
    ("sent", "safe"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\data\\EGMS L2b.csv", "EGMS_L2b.csv"),
        ("..", "points-0"),
        ("-rf", "rf"),
        ("\u0421\u043d\u0438\u043c\u043e\u043a 1.csv", "\u0421\u043d\u0438\u043c\u043e\u043a_1.csv"),
        ("geba\u0308ude.gpkg", "geb\u00e4ude.gpkg"),  # as macOS writes it
        ("\u00e4" * 300 + ".csv", "\u00e4" * 98 + ".csv"),
        ("a" * 300 + ".geojson", "a" * 192 + ".geojson"),
        ("\u5730" * 119 + ".csv", "\u5730" * 65 + ".csv"),
    ],
)
def test_names_of_files_are_made_safe(sent, safe):
    assert job_files.safe_name(sent, "points-0") == safe
    assert len(safe.encode()) <= job_files.MAX_NAME_BYTES


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("/srv/a-b/x.csv: no; see /tmp/q/y.zip", "x.csv: no; see y.zip"),
        ("mm/year or 1/2; a--b.csv", "mm/year or 1/2; a--b.csv"),
        ("--damage-rate 2: no. Name it (`--layer`), or", "`damage_rate` 2: no. Name it (`layer`), or"),
        ("in a file that --params names (`plumbline inspect` shows):", "in a file that `params` names:"),
    ],
)
def test_messages_name_files_without_folders_and_fields_instead_of_options(message, shown):
    assert for_requests(message) == shown


def test_what_is_no_file_of_a_form_is_refused_with_how_to_send_one(guarded):
    headers = {"authorization": f"Bearer {TOKEN}"}
    for body in ({"data": {"points": "a.csv"}}, {"files": [("points", (None, b"1")), ("buildings", ("b", b"1"))]}):
        answer = guarded.post("/v1/predict", headers=headers, **body)
        assert is_problem(answer, 422, "request.invalid", "multipart/form-data")


def test_the_list_gives_each_job_to_one_and_begins_no_more_than_asked(tmp_path):
    store = JobStore(tmp_path / "jobs.sqlite")
    assert store.add("a", "predict", {"x": 1}, queue=2)
    assert store.add("b", "restore", {}, queue=2)
    assert not store.add("c", "restore", {}, queue=2)
    first = store.claim(at_once=1)
    assert (first.id, first.options, first.attempts, first.owner) == ("a", {"x": 1}, 1, this_process())
    assert store.claim(at_once=1) is None
    assert store.recover() == ([], [])
    second = JobStore(tmp_path / "jobs.sqlite").claim(at_once=2)
    assert second.id == "b"
    store.finish("b", "failed", {"title": "no"})
    assert store.get("b").problem == {"title": "no"}
    assert store.counts() == {"queued": 0, "running": 1, "done": 0, "failed": 1, "cancelled": 0}
    store.put_back("a")
    assert store.get("a").attempts == 0
    assert store.cancel("a").status == "cancelled"
    assert set(store.remove_ended(time.time() + 1)) == {"a", "b"}
    assert store.get("a") is None
    assert is_alive(this_process())
    assert not is_alive(f"{os.getpid()}:0.00")


def test_the_newest_jobs_of_one_token_are_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(job_files, "MOST_LISTED", 3)
    store = JobStore(tmp_path / "jobs.sqlite")
    for number in range(9):
        store.add(str(number), "predict", {}, queue=9, holder="ab"[number % 2], name=f"{number}.csv")
    assert [(row.id, row.name) for row in store.newest("a")] == [("8", "8.csv"), ("6", "6.csv"), ("4", "4.csv")]
    assert [row.id for row in store.newest("a", store.get("4").created)] == ["2", "0"]
    assert [row.id for row in store.newest(None)] == ["8", "7", "6"]


def test_a_job_whose_service_ends_again_and_again_is_given_up(tmp_path, monkeypatch):
    store = JobStore(tmp_path / "jobs.sqlite")
    store.add("a", "predict", {}, queue=1)
    for attempt in range(1, MOST_ATTEMPTS + 1):
        with monkeypatch.context() as patch:
            patch.setattr("plumbline.service.job_store.this_process", lambda: "4000000:1.00")
            assert store.claim(1).attempts == attempt
        assert store.recover() == ((["a"], []) if attempt < MOST_ATTEMPTS else ([], ["a"]))
    store.cancel("a")  # it was to end, and does not begin again
    assert store.recover() == ([], [])
    assert (store.get("a").status, store.claim(1)) == ("cancelled", None)


def test_another_champion_is_served_without_losing_a_request(package, fields_package, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", tempfile.tempdir)  # which the service sets
    first, other = (Path(shutil.copytree(package, tmp_path / name)) for name in ("package", "other"))
    link = tmp_path / "model"
    link.symlink_to(first)
    settings = ServiceSettings(folder=tmp_path / "s", model=str(link), restoration_model=str(fields_package))
    models = Models(settings)
    before = models.diagnosis
    models.refresh()
    assert models.diagnosis is before
    link.unlink()
    link.symlink_to(other)
    models.refresh()
    assert models.diagnosis.package == other.resolve()
    assert before.model.category_share  # who had it still may ask it
    link.unlink()
    link.symlink_to(tmp_path / "nowhere")
    models.refresh()
    assert models.diagnosis.package == other.resolve()
    for model, words in (("nothing", "no such folder"), (str(fields_package), "judges no buildings")):
        with pytest.raises(InputError, match=words):
            make_app(ServiceSettings(folder=tmp_path, model=model))


@pytest.mark.slow
def test_what_was_accepted_outlives_a_kill_and_leaves_no_orphan(city, package, tmp_path):
    folder = tmp_path / "service"
    with process(folder, package, "--queue", "5") as (begun, address):
        given = files(city.products(), city.footprints)
        with httpx.Client(timeout=PATIENCE_S) as client:
            jobs = [client.post(f"{address}/v1/predict", files=given).json()["id"] for _ in range(2)]
        own = until(psutil.Process(begun.pid).children, "a process of a job", needs=begun)
        begun.send_signal(signal.SIGKILL)
        begun.wait()
        until_gone(*(one.pid for one in own))  # one that is still loading ends once it has loaded
    with process(folder, package) as (begun, address), httpx.Client(timeout=PATIENCE_S) as client:
        assert [ended(client, job, address)["status"] for job in jobs] == ["done", "done"]
        begun.send_signal(signal.SIGTERM)
        assert begun.wait() in (0, -signal.SIGTERM)
