"""The flow `score`: fetched by DVC, judged with the champion, told by the chosen block."""

from __future__ import annotations

import json
import os
import shutil
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from prefect.blocks.abstract import NotificationError
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Completed

from flows.orchestration.notifications import LocalFile, Mail
from flows.score import call_drifted, main, score
from plumbline.prepare.abstention import ABSTENTIONS
from plumbline.serve.score.messages import unsent, unsent_aside
from tests.flows.conftest import ROOT
from tests.serve.score.conftest import PLACE, Town
from tests.serve.score.test_results import publish
from tests.tiny import PARAMS, Tiny, empty_registry, run_cli


class Receiver:
    """A web server that keeps what is posted, and answers with `status`."""

    def __init__(self) -> None:
        self.status, self.got = 200, list[dict[str, str]]()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(outer.status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)

    @contextmanager
    def listening(self) -> Iterator[str]:
        thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{self.server.server_port}/"
        finally:
            self.server.shutdown()
            self.server.server_close()


@pytest.fixture
def one_core() -> Iterator[None]:
    """For this process and those it starts: `score` has no worker processes then, which would load for seconds."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    yield
    os.sched_setaffinity(0, cores)


@pytest.fixture
def imported(
    tiny: Tiny,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    one_core: None,
) -> Town:
    """A project with a champion, and a place that DVC imports from `elsewhere`."""
    elsewhere = Town(tiny, tmp_path / "elsewhere")
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    shutil.copytree(ROOT / ".dvc", project / ".dvc", ignore=shutil.ignore_patterns("cache", "tmp"))
    for name in (".gitignore", ".dvcignore"):
        shutil.copy(ROOT / name, project / name)
    (project / "data" / "deliveries").mkdir(parents=True)
    shutil.copy(elsewhere.folder / "params.yaml", project / "params.yaml")
    subprocess.run(["git", "init", "--quiet"], check=True)
    shutil.copy(empty_registry(tmp_path_factory), project)
    assert run_cli("release", "promote", elsewhere.package, cwd=project).code == 0
    return elsewhere


def ended(**parameters: object):
    state = score(**parameters, return_state=True)
    return state.type.value, state.message


@pytest.mark.slow
def test_new_deliveries_are_fetched_judged_and_told_and_no_message_is_lost(imported: Town, harness: None):
    imported.deliver("a")
    command = [sys.executable, "-m", "dvc", "import-url", str(imported.source / PLACE), f"data/deliveries/{PLACE}"]
    subprocess.run(command, check=True, capture_output=True)
    out = Path("data/score")
    assert run_cli("score", cwd=Path.cwd()).code == 0
    assert unsent(out, PLACE) == unsent_aside(out) == []  # the first has nothing to be compared with
    assert len(list(out.glob(f"{PLACE}/a-*/manifest.json"))) == 1

    # One in four points, so that many buildings cannot be judged any more; and the one who is told does not answer.
    imported.deliver("b", every=4)
    broken = imported.deliver("c_broken", footprints=False)
    receiver = Receiver()
    with receiver.listening() as url:
        hook = CustomWebhookNotificationBlock(
            name="ops", url=url, json_data={"subject": "{{subject}}", "body": "{{body}}"}
        )
        hook.save("ops")
        receiver.status = 500
        kind, said = ended(block="custom-webhook/ops")
        assert kind == "FAILED"
        assert said.startswith("2 messages could not be sent, and will be the next time: ")
        (result,) = out.glob(f"{PLACE}/b-*/manifest.json")
        assert not (out / "_sent").exists()
        receiver.status, receiver.got = 200, []
        assert ended(block="custom-webhook/ops") == ("COMPLETED", "2 messages sent")
        assert unsent(out, PLACE) == unsent_aside(out) == []
    news, aside = receiver.got
    changed = json.loads(result.read_text())["changes"]["changed"]
    assert changed > 0
    assert news["subject"] == f"Plumbline: {PLACE}, {changed} buildings changed (b)"
    assert any(f"now {reason}" in news["body"] for reason in ABSTENTIONS)
    assert news["body"].endswith(f"Message: {PLACE}/{result.parent.name}")
    assert aside["subject"] == f"Plumbline: {PLACE}, delivery c_broken set aside"
    assert "one file of footprints is needed" in aside["body"]

    # A source that does not answer: nothing is judged by halves, and the reason is told.
    shutil.rmtree(broken.parents[0])
    kind, said = ended()
    assert kind == "FAILED"
    assert f"dvc update data/deliveries/{PLACE}.dvc" in said
    assert not Path("data/score/messages.jsonl").exists()


def test_a_drift_is_called_for_where_a_server_stays_to_hear_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    one = publish(tmp_path, "one", drift="drift")
    (tmp_path / "town" / one.folder_name / "drift.json").write_text('{"reasons": ["far"]}')
    event = tmp_path / "_events" / "town" / f"{one.folder_name}.json"
    events: list[dict[str, Any]] = []
    waiting = {"an event"}
    monkeypatch.setattr("flows.score.emit_event", lambda name, **about: events.append({"name": name, **about}))
    worker = SimpleNamespace(drain_all=lambda timeout: SimpleNamespace(not_done=waiting))
    monkeypatch.setattr("flows.score.EventsWorker", worker)
    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        assert call_drifted(tmp_path, "town") == []
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        with monkeypatch.context() as patch:
            patch.setattr("flows.orchestration.embedded_server.at_work", lambda: True)
            assert call_drifted(tmp_path, "town") == events == []
        (said,) = call_drifted(tmp_path, "town")
        assert "not taken" in said
        assert not event.exists()
        waiting.clear()
        for _ in range(2):
            assert call_drifted(tmp_path, "town") == []
    assert event.exists()
    assert len(events) == 2  # the first was not taken, and after the second none is due
    assert events[0] == events[1]
    assert (events[0]["name"], events[0]["payload"]["result"]) == ("plumbline.drift", one.folder_name)
    assert events[0]["payload"]["reasons"] == ["far"]


@pytest.mark.slow
def test_a_damaged_result_holds_up_the_news_of_no_other_place(
    tmp_path: Path, harness: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "deliveries").mkdir(parents=True)
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(PARAMS))
    out = tmp_path / "data" / "score"
    sound, cut = publish(out, "one", drift="look"), publish(out, "two")
    (out / "town" / sound.folder_name / "drift.json").write_text('{"reasons": ["others"]}')
    shutil.move(out / "town" / cut.folder_name, out / "harbour" / cut.folder_name)
    (out / "harbour" / cut.folder_name / "manifest.json").write_text("{")
    kind, said = ended()
    assert kind == "FAILED"
    assert said.count("harbour/two-abababab/manifest.json") == 1
    (line,) = (out / "messages.jsonl").read_text().splitlines()
    assert "others" in line


def test_bad_input_ends_with_2_and_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    # Without a server: the flow's function alone.
    monkeypatch.setattr("flows.score.score", lambda dask, block, return_state: score.fn(dask, block))
    monkeypatch.setattr("flows.orchestration.tasks.signal.signal", lambda *_: None)  # the test's process keeps its own
    (tmp_path / "params.yaml").write_text("score: {settle_s: soon}")
    assert "settle_s" in score.fn().message
    assert main() == 2

    # A damaged result: told, and no message of half of them is sent.
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(PARAMS))
    damaged = tmp_path / "data/score/town/first-01234567/manifest.json"
    damaged.parent.mkdir(parents=True)
    damaged.write_text("{}")
    monkeypatch.setattr("flows.score.judge", lambda *_, **__: Completed(data=""))
    said = score.fn().message
    assert said.startswith(f"{damaged.relative_to(tmp_path)}: place: Field required. Move the folder away")
    assert main() == 2


def test_the_local_file_takes_every_message_whole(tmp_path: Path):
    sink = LocalFile(path=tmp_path / "deep" / "messages.jsonl")
    sink.notify("one\ntwo", "subject")
    sink.notify("three")
    lines = [json.loads(line) for line in sink.path.read_text().splitlines()]
    assert [(line["subject"], line["body"]) for line in lines] == [("subject", "one\ntwo"), (None, "three")]


class _MailServer(socketserver.StreamRequestHandler):
    """A server of RFC 5321 that takes one mail."""

    def handle(self) -> None:
        self.wfile.write(b"220 ready\r\n")
        for line in self.rfile:
            verb = line.split()[0].upper()
            self.wfile.write(b"354 go on\r\n" if verb == b"DATA" else b"250 fine\r\n")
            if verb == b"DATA":
                self.server.mails.append(b"".join(iter(self.rfile.readline, b".\r\n")))  # type: ignore[attr-defined]
                self.wfile.write(b"250 taken\r\n")
            if verb == b"QUIT":
                return


def test_mail_arrives_and_one_that_does_not_is_an_error():
    with socketserver.TCPServer(("127.0.0.1", 0), _MailServer) as server:
        server.mails = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        port = server.server_address[1]
        mail = Mail(url=f"mailto://127.0.0.1:{port}?from=plumbline@example.org&to=ops@example.org&mode=insecure")
        with mail.raise_on_failure():
            mail.notify("the body", "the subject")
        thread.join()
        assert b"the subject" in server.mails[0]  # type: ignore[attr-defined]
    with mail.raise_on_failure(), pytest.raises(NotificationError):
        mail.notify("the body", "nobody listens")
