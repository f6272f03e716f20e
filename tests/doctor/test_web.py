"""A server behind a login is asked as its own clients would ask it; and one that is no Prefect."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from plumbline.doctor.probes import State, ask, prefect_api
from plumbline.doctor.servers import check_server
from tests.doctor.conftest import faults, states

VARIABLES = ("PREFECT_API_KEY", "PREFECT_API_AUTH_STRING")


class Telling(BaseHTTPRequestHandler):
    """Answers with the header that it was asked with."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.headers.get("Authorization", "none").encode())

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), Telling) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def sent(word: str) -> str:
    kind, _, code = word.partition(" ")
    return base64.b64decode(code).decode() if kind == "Basic" else word


def test_a_password_in_an_address_is_sent_as_it_is_and_not_as_it_is_written(host: str) -> None:
    assert sent(ask(f"http://me:p%40ss%2Fword@{host}/health")) == "me:p@ss/word"
    assert sent(ask(f"http://me@{host}/health")) == "none"


def test_prefects_word_goes_before_its_key_as_for_prefect(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", f"http://{host}/api/")
    monkeypatch.setenv("PREFECT_API_KEY", "key")
    assert prefect_api() == (f"http://{host}/api", {"Authorization": "Bearer key"})
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "me:word")
    told = prefect_api()
    assert told is not None
    assert sent(told[1]["Authorization"]) == "me:word"


def test_no_prefect_server(folder: Path, host: str, dead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert states(check_server) == [State.NOTHING]
    monkeypatch.setenv("PREFECT_API_URL", f"http://{host}/api")
    assert "is no Prefect server" in faults(check_server)
    monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{dead}/api")
    assert "Connection refused" in faults(check_server)
    monkeypatch.setenv("PREFECT_API_URL", "localhost:4200/api")
    assert "no address" in faults(check_server)
