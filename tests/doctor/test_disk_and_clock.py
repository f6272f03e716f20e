"""Disk and clock: a limit that no disk meets, a run that no disk holds, files of the future, a server of the past."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from plumbline.doctor.machine import check_clock, check_disk, check_server, last_run
from plumbline.doctor.probes import Place, State, size
from tests.doctor.conftest import PLACE, faults, states, warnings


def small(free_bytes: int) -> Place:
    return Place(PLACE.commands, PLACE.seconds, free_bytes)


def test_room_enough(project: Path) -> None:
    found = list(check_disk(small(0)))
    assert {item.state for item in found} == {State.OK}
    assert any("no run recorded" in item.found for item in found)


def test_less_free_than_there_shall_be(project: Path) -> None:
    assert "Free some" in faults(check_disk, small(10**18))


def test_a_run_larger_than_the_disk(project: Path) -> None:
    Path("dvc.lock").write_text(
        "schema: '2.0'\nstages:\n  train:\n    cmd: a\n    outs:\n    - {path: data/train, size: 900000000000000000}\n"
        "  package:\n    cmd: a\n    outs:\n    - {path: data/package, size: 5}\n"
    )
    assert last_run() == {"train": 9 * 10**17, "package": 5}
    said = faults(check_disk, small(0))
    assert "as much as the last run made: 1800000000.0 GB" in said  # in the cache and in data


@pytest.mark.parametrize("text", ["", "stages: [", "stages: {train: 3}", "nothing"])
def test_a_record_that_says_nothing(project: Path, text: str) -> None:
    Path("dvc.lock").write_text(text)
    assert last_run() == {}


def test_a_place_that_takes_no_file(project: Path) -> None:
    Path("data").touch()
    assert "nothing can be written to data" in faults(check_disk, small(0))


def test_sizes() -> None:
    assert [size(n) for n in (0, 999, 1000, 2_500_000, 10**9, 10**15)] == [
        "0 bytes",
        "999 bytes",
        "1.0 kB",
        "2.5 MB",
        "1.0 GB",
        "1000000.0 GB",
    ]


def test_a_file_of_the_future(project: Path) -> None:
    path = Path(".dvc/cache/files/md5/00/11")
    path.parent.mkdir(parents=True)
    path.touch()
    assert "was written" not in warnings(check_clock)
    os.utime(path, (time.time() + 3 * 86_400,) * 2)
    said = warnings(check_clock)
    assert f"{path} was written 3 days from now" in said
    os.utime(path, (time.time() + 20,) * 2)
    assert "was written" not in warnings(check_clock)


@contextmanager
def server(clock: float) -> Iterator[str]:
    """A server whose clock is off by some seconds; it is no Prefect."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response_only(200)
            self.send_header("Date", formatdate(time.time() + clock, usegmt=True))
            self.end_headers()
            self.wfile.write(b"hello")

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{made.server_port}/api"
        made.shutdown()


@pytest.mark.parametrize(("clock", "way"), [(-7200, "2 hours ahead of"), (600, "10 minutes behind"), (0, "")])
def test_a_server_with_another_time(folder: Path, monkeypatch: pytest.MonkeyPatch, clock: int, way: str) -> None:
    with server(clock) as url:
        monkeypatch.setenv("PREFECT_API_URL", url)
        said = faults(check_clock)
    assert way in said
    assert bool(said) == bool(way)


def test_no_prefect_server(folder: Path, dead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert states(check_server) == [State.NOTHING]
    with server(0) as url:
        monkeypatch.setenv("PREFECT_API_URL", url)
        assert "is no Prefect server" in faults(check_server)
    monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{dead}/api")
    assert "Connection refused" in faults(check_server)
    monkeypatch.setenv("PREFECT_API_URL", "localhost:4200/api")
    assert "no address" in faults(check_server)
