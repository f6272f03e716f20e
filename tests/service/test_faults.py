"""What the service does when a disk is full, and when uploads are slow or cut."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from plumbline.service import job_store as job_files
from tests.full_disk import largest_file
from tests.ports import free_port
from tests.service.served import ended, files, is_problem, process
from tests.waiting import PATIENCE_S, until

pytest.importorskip("fastapi")
DOCS = Path(__file__).parents[2] / "docs"
BOUNDARY = "--------------------------0123456789abcdef"


def left(folder: Path) -> list[str]:
    """Files that uploads have left behind, which no job has."""
    return sorted(path.name for path in (folder / job_files.INCOMING).iterdir())


def begin_upload(address: str, length: int) -> socket.socket:
    """Send the head of an upload of points, and no more."""
    host, port = address.removeprefix("http://").split(":")
    own = socket.create_connection((host, int(port)))
    own.sendall(
        f"POST /v1/predict HTTP/1.1\r\nHost: {host}\r\nContent-Type: multipart/form-data; boundary={BOUNDARY}\r\n"
        f"Content-Length: {length}\r\n\r\n--{BOUNDARY}\r\n"
        'Content-Disposition: form-data; name="points"; filename="a.csv"\r\n\r\n'.encode()
    )
    return own


@pytest.fixture(scope="module")
def served(package, tmp_path_factory):
    """One service for all, in a process of its own: it, its address and its folder."""
    folder = tmp_path_factory.mktemp("served") / "service"
    with process(folder, package) as (begun, address):
        yield begun, address, folder


def jobs(folder: Path) -> set[str]:
    return {path.name for path in (folder / job_files.JOBS).iterdir()}


@pytest.mark.heavy
def test_slow_and_cut_uploads_keep_nobody_waiting_and_leave_nothing(served, city):
    begun, address, folder = served
    before = jobs(folder)
    slow = [begin_upload(address, 50_000_000) for _ in range(8)]
    for number, one in enumerate(slow):
        one.sendall(b"x" * (100_000 * number))
        one.sendall(b"y")
    with httpx.Client(timeout=PATIENCE_S) as client:  # it answers while they are open
        assert client.get(f"{address}/healthz").status_code == 200
        job = client.post(f"{address}/v1/predict", files=files(city.products(), city.footprints)).json()["id"]
        for one in slow[::2]:
            one.close()
        assert ended(client, job, address)["status"] == "done"
    for one in slow[1::2]:
        one.close()
    until(lambda: not left(folder), "an end of what uploads left", found=lambda: left(folder))
    assert jobs(folder) - before == {job}
    assert begun.poll() is None


@pytest.mark.heavy
@pytest.mark.skipif(sys.platform != "linux", reason="sets a limit of another process")
def test_a_full_disk_is_told_nothing_is_kept_and_smaller_requests_go_on(served, city):
    begun, address, folder = served
    before = jobs(folder)
    with largest_file(3_000_000, begun.pid):
        large = [("points", ("a.csv", os.urandom(4_000_000))), ("buildings", ("f.geojson", b"{}"))]
        answer = httpx.post(f"{address}/v1/predict", files=large, timeout=PATIENCE_S)
        assert is_problem(answer, 507, "disk.full")
        assert int(answer.headers["retry-after"]) > 0
        assert left(folder) == []
        assert jobs(folder) == before
        with httpx.Client(timeout=PATIENCE_S) as client:
            job = client.post(f"{address}/v1/predict", files=files(city.products(), city.footprints)).json()["id"]
            assert ended(client, job, address)["status"] == "done"
    assert begun.poll() is None


@pytest.mark.heavy
@pytest.mark.parametrize("page", ["service.md", "tutorial-fields.md"])
def test_a_documented_loop_ends_whatever_became_of_the_job(served, city, page):
    _, address, _ = served
    text = (DOCS / page).read_text()
    (loop,) = re.findall(r"^(?:while|until) curl.*$", text, re.MULTILINE)
    waiting, queued = (
        httpx.post(f"{address}/v1/predict", files=files(city.products(), city.footprints)).json() for _ in range(2)
    )
    for job in (queued, waiting):
        httpx.delete(f"{address}/v1/jobs/{job['id']}")
    with httpx.Client(timeout=PATIENCE_S) as client:
        assert ended(client, queued["id"], address)["status"] == "cancelled"
    gone = f"http://127.0.0.1:{free_port()}"
    for server, job in ((address, queued["id"]), (address, waiting["id"]), (address, "0" * 32), (gone, "0" * 32)):
        command = ["bash", "-c", loop.replace("http://127.0.0.1:8000", server)]
        subprocess.run(command, env=os.environ | {"JOB": job}, check=True, timeout=PATIENCE_S)
