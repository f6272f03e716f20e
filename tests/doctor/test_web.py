"""A server behind a login is asked with the name and password that its own clients would send."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from plumbline.doctor.probes import ask, mlflow_headers, prefect_api

VARIABLES = (
    "PREFECT_API_KEY",
    "PREFECT_API_AUTH_STRING",
    "MLFLOW_TRACKING_USERNAME",
    "MLFLOW_TRACKING_PASSWORD",
    "MLFLOW_TRACKING_TOKEN",
)


class Telling(BaseHTTPRequestHandler):
    """Answers with the header that it was asked with."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.headers.get("Authorization", "none").encode())

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
    assert sent(ask(f"http://me:p%40ss%2Fword@{host}/health").content) == "me:p@ss/word"
    assert sent(ask(f"http://me@{host}/health").content) == "none"


def test_prefects_word_goes_before_its_key_as_for_prefect(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", f"http://{host}/api/")
    monkeypatch.setenv("PREFECT_API_KEY", "key")
    assert prefect_api() == (f"http://{host}/api", {"Authorization": "Bearer key"})
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "me:word")
    told = prefect_api()
    assert told is not None
    assert sent(told[1]["Authorization"]) == "me:word"


def test_mlflows_login_is_that_of_its_variables(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(f"http://{host}/health", headers=mlflow_headers()).content == "none"
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "token")
    assert ask(f"http://{host}/health", headers=mlflow_headers()).content == "Bearer token"
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "me")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "word")
    assert sent(ask(f"http://{host}/health", headers=mlflow_headers()).content) == "me:word"
