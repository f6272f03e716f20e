"""What the service does when a disk is full, and when uploads are slow or cut."""

import http.client
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from plumbline.service import job_store as job_files
from plumbline.service.job_store import JobStore
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
        assert client.get(f"{address}/v1/jobs/{job}").json()["status"] != "failed"
    for one in slow[1::2]:
        one.close()
    until(lambda: not left(folder), "an end of what uploads left", found=lambda: left(folder))
    assert jobs(folder) - before == {job}
    httpx.delete(f"{address}/v1/jobs/{job}")
    until(lambda: jobs(folder) == before, "the end of the job's files", needs=begun)


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
def test_a_documented_loop_ends_whatever_became_of_the_job(served, city):
    _, address, _ = served
    texts = [(DOCS / page).read_text() for page in ("service.md", "tutorial-fields.md")]
    loops = [loop for text in texts for loop in re.findall(r"^(?:while|until) curl.*$", text, re.MULTILINE)]
    assert len(loops) == 2
    waiting, queued = (
        httpx.post(f"{address}/v1/predict", files=files(city.products(), city.footprints)).json() for _ in range(2)
    )
    for job in (queued, waiting):
        httpx.delete(f"{address}/v1/jobs/{job['id']}")
    with httpx.Client(timeout=PATIENCE_S) as client:
        assert ended(client, queued["id"], address)["status"] == "cancelled"
    gone = f"http://127.0.0.1:{free_port()}"
    for server, job in ((address, queued["id"]), (address, waiting["id"]), (address, "0" * 32), (gone, "0" * 32)):
        for loop in loops:
            command = ["bash", "-c", loop.replace("http://127.0.0.1:8000", server)]
            subprocess.run(command, env=os.environ | {"JOB": job}, check=True, timeout=PATIENCE_S)


@pytest.mark.heavy
def test_a_client_that_leaves_ends_the_preparation(served, city):
    begun, address, folder = served
    before, store = jobs(folder), JobStore(folder / job_files.DATABASE)
    rows = {row.id for row in store.newest(None)}
    request = httpx.Request("POST", f"{address}/v1/tensors", files=files(city.products(), city.footprints))
    client = http.client.HTTPConnection(request.url.host, request.url.port)
    client.request("POST", request.url.path, request.read(), dict(request.headers))

    def begun_since():
        return [row for row in store.newest(None) if row.id not in rows]

    until(begun_since, "the job", needs=begun)
    client.close()
    # One that had not begun leaves nothing behind, not even a line: first its line goes, then its files.
    until(lambda: {row.status for row in begun_since()} <= {"cancelled"}, "the end of the job", needs=begun)
    until(lambda: jobs(folder) <= before, "the end of its files", needs=begun)
