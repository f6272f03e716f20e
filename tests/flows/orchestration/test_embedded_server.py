"""Prefect's server of one run: there once it is waited for, and gone with the run, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flows.orchestration import embedded_server
from tests.flows.conftest import ROOT
from tests.waiting import until_gone

# Asks the server for its health, by the address that everybody in the process is given, and waits to be ended.
RUN = """
import os, signal, urllib.request
from flows.orchestration import embedded_server as embedded
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test that runs in the background inherits no handler
embedded.begin()
embedded.wait()
print(urllib.request.urlopen(os.environ["PREFECT_API_URL"] + "/health").read().decode(), flush=True)
input()
"""


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_home")
@pytest.mark.parametrize(
    "end", [signal.SIGKILL, *(pytest.param(end, marks=pytest.mark.chaos) for end in (signal.SIGINT, None))]
)
def test_the_server_is_gone_with_the_run(end: signal.Signals | None) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PREFECT_HOME": str(Path.cwd() / ".prefect")}
    run = subprocess.Popen(
        [sys.executable, "-c", RUN],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with run:
        assert run.stdout is not None
        assert run.stdout.readline() == "true\n"
        server = int(embedded_server.RECORD.read_text())
        assert embedded_server._is_server(server)
        assert os.getpgid(server) == server  # Ctrl-C ends the run alone, which then tells the server of it
        if end is None:
            run.communicate("\n")
        else:
            run.send_signal(end)
    until_gone(server)


def test_a_server_that_is_named_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    embedded_server.begin()
    embedded_server.wait()
    assert not embedded_server.at_work()
    assert not embedded_server.RECORD.exists()
