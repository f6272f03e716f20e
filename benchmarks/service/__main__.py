"""Load `plumbline serve` with locust, beside the bare ONNX session in the same run; print Markdown.

python -m benchmarks.service [--seconds 20] [--processes 1 2] [--batches 1 16 256]

`make load` installs locust and runs this. All runs on this machine, users and service side by side.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
from numpy.typing import NDArray

from benchmarks.common import ROOT, head, line, parse, parser, refusing, resident_mb, stamp
from benchmarks.service import BODY, HEADER, WHERE
from plumbline.core.errors import InputError
from plumbline.export.package import open_package
from plumbline.pretrained import PACKAGE
from tests.ports import free_port

LENGTH = 12
"""Scatterers of each building, of the 16 places that a batch has."""
PLACES = 16
USERS = {1: 1, 16: 2, 256: 2}
KINDS = {"float32": "FP32", "bool": "BOOL"}
Batch = dict[str, NDArray[Any]]


class Loaded(NamedTuple):
    """What users saw."""

    requests_s: float
    median_ms: float
    p99_ms: float
    failed: int


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and print the page."""
    asked = parser("service", __doc__)
    asked.add_argument("--seconds", type=int, default=20, help="of each measurement")
    asked.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    asked.add_argument("--batches", type=int, nargs="+", default=[1, 16, 256])
    given = parse(asked, argv, seconds=2, processes=[1], batches=[4])
    rows = [
        head("processes", "batch", "users", "requests/s", "buildings/s", "of the bare session", "p50, ms", "p99, ms",
             "p99 beyond the bare session's, ms", "failed")
    ]  # fmt: skip
    memory = []
    with tempfile.TemporaryDirectory() as scratch, refusing():
        bare = {size: bare_session(make_batch(size), given.seconds / 2) for size in given.batches}
        for processes in given.processes:
            with service(Path(scratch) / f"service-{processes}", processes) as (address, process):
                before = resident_mb(process.pid)
                for size in given.batches:
                    count = USERS.get(size, 1) * processes
                    seen = load(address, make_batch(size), count, given.seconds, Path(scratch))
                    rate, p99 = bare[size]
                    of_bare = f"{seen.requests_s * size / rate:.0%}"
                    beyond = f"{seen.p99_ms - p99:+.1f}" if count == 1 else "–"
                    rows.append(
                        line(
                            *(processes, size, count, f"{seen.requests_s:.0f}", f"{seen.requests_s * size:.0f}"),
                            *(of_bare, f"{seen.median_ms:.1f}", f"{seen.p99_ms:.1f}", beyond, seen.failed),
                        )
                    )
                memory.append(line(processes, f"{before:.0f}", f"{resident_mb(process.pid):.0f}"))
    bare_rows = [head("batch", "buildings/s", "p99, ms")]
    bare_rows += [line(size, f"{rate:.0f}", f"{p99:.1f}") for size, (rate, p99) in bare.items()]
    text = "\n\n".join(
        [
            "# The service under load",
            stamp(f"{given.seconds} s each, locust on the same machine, binary tensors of {PLACES} places"),
            "\n".join(rows),
            "## The bare session",
            "\n".join(bare_rows),
            "## Memory of all its processes, MB",
            "\n".join([head("processes", "before", "after"), *memory]),
        ]
    )
    print(text)


def make_batch(size: int) -> Batch:
    """Draw prepared buildings: their numbers do not matter, their shapes do."""
    _, model = open_package(PACKAGE)
    rng, columns = np.random.default_rng(size), model.signature.columns
    mask = np.zeros((size, PLACES), bool)
    mask[:, :LENGTH] = True
    return {
        "distance": rng.normal(size=(size, PLACES, columns["distance"])).astype(np.float32),
        "slope": rng.normal(size=(size, PLACES, columns["slope"])).astype(np.float32),
        "geometry": rng.normal(size=(size, columns["geometry"])).astype(np.float32),
        "mask": mask,
    }


def bare_session(batch: Batch, seconds: float) -> tuple[float, float]:
    """Return buildings a second of the ONNX session without a service, and its 99 % latency, ms."""
    _, model = open_package(PACKAGE)
    model.execute(batch)
    times: list[float] = []
    while sum(times) < seconds:
        began = time.perf_counter()
        model.execute(batch)
        times.append(time.perf_counter() - began)
    return len(times) * len(batch["mask"]) / sum(times), 1e3 * float(np.quantile(times, 0.99))


@contextmanager
def service(folder: Path, processes: int) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a service; its address and process."""
    port = free_port()
    command = [sys.executable, "-m", "plumbline", "serve", "--port", str(port), "--folder", str(folder)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen([*command, "--processes", str(processes)], env=environment, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                httpx.get(f"{address}/readyz").raise_for_status()
                break
            except httpx.HTTPError:
                time.sleep(0.1)
        else:
            raise InputError("the service did not begin within a minute.")
        yield address, process
    finally:
        process.terminate()
        process.wait(timeout=60)


def tensors_of(batch: Batch) -> tuple[bytes, int]:
    """Return the body of a request with binary tensors, and the bytes of its JSON."""
    parts, tensors = [], []
    for name, values in batch.items():
        parts.append(values.tobytes())
        about = {"name": name, "shape": list(values.shape), "datatype": KINDS[str(values.dtype)]}
        tensors.append({**about, "parameters": {"binary_data_size": len(parts[-1])}})
    content = json.dumps({"inputs": tensors, "parameters": {"binary_data_output": True}}).encode()
    return content + b"".join(parts), len(content)


def load(address: str, batch: Batch, count: int, seconds: int, scratch: Path) -> Loaded:
    """Have `count` users ask for `seconds`."""
    content, length = tensors_of(batch)
    body = scratch / "body"
    body.write_bytes(content)
    served = httpx.get(f"{address}/v1/models").json()[0]["name"]
    environment = os.environ | {
        BODY: str(body),
        HEADER: str(length),
        WHERE: f"/v2/models/{served}/infer",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
    }
    command = [
        sys.executable,
        "-m",
        "locust",
        "-f",
        str(Path(__file__).with_name("users.py")),
        "--headless",
        "--only-summary",
    ]
    command += [
        "-u",
        str(count),
        "-r",
        str(count),
        "-t",
        f"{seconds}s",
        "--host",
        address,
        "--csv",
        str(scratch / "seen"),
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    try:
        with (scratch / "seen_stats.csv").open(encoding="utf-8") as stream:
            row = next(one for one in csv.DictReader(stream) if one["Name"] == "Aggregated")
    except (OSError, StopIteration):
        raise InputError(f"locust ended with {done.returncode}: {done.stderr[-500:]}") from None
    return Loaded(float(row["Requests/s"]), float(row["50%"]), float(row["99%"]), int(row["Failure Count"]))


if __name__ == "__main__":
    main()
