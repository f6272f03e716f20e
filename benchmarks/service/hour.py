"""Keep `plumbline serve` at work for an hour: its memory, and the time of jobs of both kinds; print Markdown.

python -m benchmarks.service.hour [--minutes 60]

Tensors of 16 buildings ten times a second, one nonsense request a second, a city of 60 buildings to judge each minute,
a field of 320 m to restore every six minutes, with 25 and 50 steps in turn. All of it on this machine. Memory is that
of the service's own processes; jobs run in processes of their own and end.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import httpx
import numpy as np
import psutil

from benchmarks.common import head, line, parse, parser, refusing, stamp
from benchmarks.makers.ninth.city import make_city
from benchmarks.service.__main__ import make_batch, service, tensors_of
from plumbline.fields.simulate.scene import SceneAbout, make_scene, write_scene

PARTS = 6
"""Rows of the table of memory."""
STEPS = ("25", "50")


class Users:
    """Everybody who asks, each in a thread of its own, until `stop`."""

    def __init__(self, address: str, scratch: Path) -> None:
        self.stop = threading.Event()
        self.requests: dict[int, int] = {}
        """Answers by status."""
        self.seconds: dict[str, list[float]] = {}
        """Of each job that ended well, by its kind."""
        self.failed: list[str] = []
        self._address = address
        self._city = scratch / "city"
        make_city(self._city, "C", 60, 1)
        self._scene = scratch / "scene"
        write_scene(make_scene(SceneAbout("plain-00003", "plain", "easy", 3, 2, 32, 10.0)), self._scene)
        self._threads: list[threading.Thread] = []

    def start(self, field_seconds: float, city_seconds: float) -> None:
        """Begin to ask."""
        served = httpx.get(f"{self._address}/v1/models").json()[0]["name"]
        where, (body, length) = f"/v2/models/{served}/infer", tensors_of(make_batch(16))
        headers = {"content-type": "application/octet-stream", "inference-header-content-length": str(length)}
        self._every(0.1, lambda client, _: self._count(client.post(where, content=body, headers=headers)))
        self._every(
            1, lambda client, n: self._count(client.post(where, content=body[: n % len(body)], headers=headers))
        )
        self._every(city_seconds, lambda client, _: self._job(client, "predict", self._judge()))
        self._every(field_seconds, lambda client, n: self._job(client, "restore", self._restore(), STEPS[n % 2]))

    def join(self) -> None:
        """Wait until all have their last answer."""
        self.stop.set()
        for one in self._threads:
            one.join()

    def _every(self, seconds: float, ask: Callable[[httpx.Client, int], None]) -> None:
        def go() -> None:
            with httpx.Client(base_url=self._address, timeout=120) as client:
                number = 0
                while not self.stop.wait(seconds if number else 0):
                    try:
                        ask(client, number)
                    except httpx.HTTPError as error:
                        self.failed.append(repr(error))
                    number += 1

        self._threads.append(threading.Thread(target=go))
        self._threads[-1].start()

    def _count(self, answer: httpx.Response) -> None:
        self.requests[answer.status_code] = self.requests.get(answer.status_code, 0) + 1

    def _job(self, client: httpx.Client, kind: str, paths: list[Path], steps: str | None = None) -> None:
        began = time.monotonic()
        data = {} if steps is None else {"num_inference_steps": steps}
        files = [
            ("buildings" if path.suffix == ".geojson" else "points", (path.name, path.read_bytes())) for path in paths
        ]
        answer = client.post(f"/v1/{kind}", files=files, data=data)
        self._count(answer)
        if answer.status_code != 202:
            self.failed.append(f"{kind}: {answer.text[:200]}")
            return
        job = answer.json()
        while job["status"] in ("queued", "running"):
            time.sleep(0.5)
            job = client.get(f"/v1/jobs/{job['id']}").json()
        if job["status"] == "done":
            client.get(f"/v1/jobs/{job['id']}/result").raise_for_status()
            self.seconds.setdefault(f"{kind}{f', {steps} steps' if steps else ''}", []).append(time.monotonic() - began)
        else:
            self.failed.append(f"{kind}: {job}"[:300])

    def _judge(self) -> list[Path]:
        return [*self._city.glob("EGMS_*.csv"), self._city / "footprints.geojson"]

    def _restore(self) -> list[Path]:
        return sorted(self._scene.glob("*.csv"))


def main(argv: Sequence[str] | None = None) -> None:
    """Ask, and print the page."""
    asked = parser("service.hour", __doc__)
    asked.add_argument("--minutes", type=float, default=60)
    given = parse(asked, argv, minutes=0.5)
    seconds = 60 * given.minutes
    memory: list[list[float]] = []
    with (
        tempfile.TemporaryDirectory() as scratch,
        refusing(),
        service(Path(scratch) / "service", 1) as (address, process),
    ):
        users = Users(address, Path(scratch))
        users.start(min(360, seconds / 2), min(60, seconds / 2))
        for _ in range(PARTS):
            memory.append([])
            for _ in range(10):
                time.sleep(seconds / PARTS / 10)
                memory[-1].append(psutil.Process(process.pid).memory_info().rss / 1e6)
        users.join()
    rows = [head("minutes", "mean memory, MB", "most, MB")]
    for part, values in enumerate(memory):
        rows.append(line(f"{(part + 1) * given.minutes / PARTS:.0f}", f"{np.mean(values):.0f}", f"{max(values):.0f}"))
    jobs = [head("job", "done", "median, s", "longest, s")]
    jobs += [
        line(kind, len(found), f"{np.median(found):.1f}", f"{max(found):.1f}") for kind, found in users.seconds.items()
    ]
    answers = [head("status", "answers")]
    answers += [line(status, count) for status, count in sorted(users.requests.items())]
    text = "\n\n".join(
        [
            "# The service for an hour",
            stamp(f"{given.minutes:g} minutes"),
            *("\n".join(table) for table in (rows, jobs, answers)),
            f"Failed: {len(users.failed)}. {' '.join(users.failed[:5])}",
        ]
    )
    print(text)


if __name__ == "__main__":
    main()
