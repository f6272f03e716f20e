"""Build the images, start each, and check what it does: `make images`. Without podman it is
skipped.

Prints Markdown; docs/benchmarks keeps a dated copy. More arguments for `podman build`, as
for a base image or an index of one's own, come in BUILD_ARGS.
"""

from __future__ import annotations

import datetime
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[1]
USTICA, FIXTURE = ROOT.parent / "shared/data/ustica", ROOT / "tests/fixtures/cases/base"
SERVICE_GROUP = 10001
MOST_MB = {"serve": 900}
GRACE_S, JOB_S, START_S = 30, 300, 60
GUARDS = ("--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges")


def line(image: str, what: str, found: object, holds: bool = True) -> None:
    """Print a finding; stop at the first that does not hold."""
    print(f"| {image} | {what} | {found} |", flush=True)
    if not holds:
        sys.exit(f"{image}: {what}: {found}")


Note = Callable[..., None]
"""`line` for one image."""


def podman(*words: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run podman; what it says is kept."""
    ended = subprocess.run(
        ["podman", *map(str, words)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if check and ended.returncode:
        sys.exit(
            f"podman {words[0]} ended with "
            f"{ended.returncode}:\n{ended.stdout[-2000:]}{ended.stderr[-4000:]}"
        )
    return ended


def city() -> tuple[list[Path], Path]:
    """Return the products and footprints of Ustica; where they are not there, of a fixture
    of the tests."""
    if USTICA.is_dir():
        return sorted(USTICA.glob("EGMS_L2b_*.zip")), USTICA / "footprints_synthetic.geojson"
    return sorted(FIXTURE.glob("*.csv")), FIXTURE / "fp.gpkg"


def build(note: Note, name: str) -> None:
    """Build an image from its Dockerfile, and compare its size with the bar."""
    begun = time.monotonic()
    words = ["--format=docker", f"--file=deploy/Dockerfile.{name}", f"--tag=plumbline:{name}"]
    podman("build", *words, *shlex.split(os.environ.get("BUILD_ARGS", "")), ".")
    note("built, s", f"{time.monotonic() - begun:.0f}")
    size = int(podman("image", "inspect", "--format={{.Size}}", f"plumbline:{name}").stdout) / 1e6
    bar = MOST_MB.get(name)
    note(f"size, MB{f' (bar {bar})' if bar else ''}", f"{size:.0f}", bar is None or size < bar)


@contextmanager
def served(token: Path) -> Iterator[tuple[str, httpx.Client]]:
    """Start the service as docs/operations says; yield the container's id and a client,
    once it answers."""
    port = free_port()
    mounted = (f"--publish=127.0.0.1:{port}:8000", f"--volume={token}:/run/secrets/token:ro")
    name = (
        podman("run", "--detach", *GUARDS, *mounted, "plumbline:serve")
        .stdout.strip()
        .splitlines()[-1]
    )
    headers = {"Authorization": f"Bearer {token.read_text().strip()}"}
    try:
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60
        ) as client:
            wait(lambda: answers(client), START_S, lambda: podman("logs", name).stderr)
            yield name, client
    finally:
        podman("rm", "--force", "--volumes", name, check=False)


def free_port() -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def wait(over: Callable[[], bool], most_s: float, found: Callable[[], object]) -> None:
    """Wait until something is so; after `most_s`, stop with what was found."""
    end = time.monotonic() + most_s
    while not over():
        if time.monotonic() > end:
            sys.exit(f"Nothing after {most_s:.0f} s:\n{found()}")
        time.sleep(0.1)


def answers(client: httpx.Client) -> bool:
    """Return whether the service is ready."""
    try:
        return client.get("/readyz").status_code == 200
    except httpx.TransportError:
        return False


def check_serve(note: Note) -> None:
    """Check the service: its token, its rights, its page, a job over HTTP, its health and its
    end."""
    with tempfile.TemporaryDirectory() as folder:
        token = Path(folder) / "token"
        token.write_text(secrets.token_hex(24))
        check_tokens(note, token)
        begun = time.monotonic()
        with served(token) as (name, client):
            note("ready, s", f"{time.monotonic() - begun:.1f}")
            check_rights(note, name)
            bare = httpx.get(client.base_url.join("/metrics")).status_code
            note(
                "/metrics without and with the token",
                f"{bare}, {client.get('/metrics').status_code}",
                bare == 401,
            )
            page = client.get("/").text
            note(
                "page at /, kB", len(page) // 1000, "not built" not in page and len(page) > 100_000
            )
            check_jobs(note, client)
            health = podman("healthcheck", "run", name, check=False).returncode
            note("exit code of the image's health check", health, health == 0)
            check_end(note, name)


def check_tokens(note: Note, token: Path) -> None:
    """Check that tokens of the usual modes are refused with exit code 2; leave the documented
    one."""
    subprocess.run(
        [*(["podman", "unshare"] if os.geteuid() else []), "chgrp", str(SERVICE_GROUP), token],
        check=True,
    )
    for mode, why in ((0o444, "everybody may read it"), (0o600, "not readable")):
        token.chmod(mode)
        words = ["--rm", *GUARDS, f"--volume={token}:/run/secrets/token:ro", "plumbline:serve"]
        ended = podman("run", *words, check=False)
        refused = ended.returncode == 2 and why in " ".join(ended.stderr.split())
        note(f"token of mode {mode:o}, exit code", ended.returncode, refused)
    token.chmod(0o440)


def check_rights(note: Note, name: str) -> None:
    """Check that the process is not root, has no rights, and cannot write but where it must."""
    status = podman("exec", name, "cat", "/proc/1/status").stdout
    rights = {
        key: value.split()
        for key, _, value in (line.partition(":") for line in status.splitlines())
    }
    user, held, raised = rights["Uid"][0], int(rights["CapEff"][0], 16), rights["NoNewPrivs"][0]
    note(
        "user, capabilities, no new privileges",
        f"{user}, {held}, {raised}",
        (user, held, raised) == ("10001", 0, "1"),
    )
    writes = {
        place: podman("exec", name, "sh", "-c", f": > {place}/x", check=False).returncode
        for place in PLACES
    }
    found = ", ".join(place for place, code in writes.items() if not code)
    note(f"written of {', '.join(PLACES)}", found, found == "/tmp, /srv/uploads")


PLACES = ("/opt/plumbline", "/usr", "/tmp", "/srv/uploads")


def check_jobs(note: Note, client: httpx.Client) -> None:
    """Judge a city and restore its field over HTTP; take the results in each format."""
    products, footprints = city()
    points = [("points", (path.name, path.read_bytes())) for path in products]
    buildings = ("buildings", (footprints.name, footprints.read_bytes()))
    address = job(note, client, "predict", [*points, buildings], {})
    result = client.get(address).json()["features"]
    judged = sum(one["properties"]["status"] == "ok" for one in result)
    where = "Ustica" if USTICA.is_dir() else "a fixture"
    note(f"predict: footprints of {where}, judged", f"{len(result)}, {judged}", judged > 0)
    formats(note, client, address, "csv", "gpkg", "parquet", "html", "pdf")
    formats(
        note,
        client,
        job(note, client, "restore", points, {"num_inference_steps": "1", "samples": "2"}),
        "tif",
    )


def job(
    note: Note, client: httpx.Client, kind: str, files: list[Any], options: dict[str, str]
) -> str:
    """Return the address of the result of a job, once it is done."""
    begun = time.monotonic()
    answer = client.post(f"/v1/{kind}", files=files, data=options)
    found: dict[str, Any] = answer.json()

    def over() -> bool:
        found.update(client.get(f"/v1/jobs/{found['id']}").json())
        return found["status"] not in ("queued", "running")

    if answer.status_code == 202:
        wait(over, JOB_S, lambda: found)
    note(f"{kind}, s", f"{time.monotonic() - begun:.1f}", found["status"] == "done")
    return f"/v1/jobs/{found['id']}/result"


def formats(note: Note, client: httpx.Client, address: str, *kinds: str) -> None:
    """Take a result in each format."""
    codes = [client.get(address, params={"format": kind}).status_code for kind in kinds]
    note(f"result as {', '.join(kinds)}", ", ".join(map(str, codes)), set(codes) == {200})


def check_end(note: Note, name: str) -> None:
    """End it by SIGTERM."""
    begun = time.monotonic()
    podman("stop", f"--time={GRACE_S}", name)
    took = time.monotonic() - begun
    code = podman("inspect", "--format={{.State.ExitCode}}", name).stdout.strip()
    note("exit code at SIGTERM, s", f"{code}, {took:.1f}", code == "0" and took < GRACE_S)


WORK = """set -e
python -c "import flows.pipeline, torch, plumbline; print(plumbline.__file__, torch.version.cuda)"
plumbline predict --points /city/* --buildings /footprints/* --output /tmp/judged.csv --map /tmp/map.html
id -u; grep -c ,ok, /tmp/judged.csv; wc -c < /tmp/map.html
touch /opt/x 2> /dev/null || echo read-only"""


def check_worker(note: Note, image: str) -> None:
    """Check a worker, without a GPU: it clones the repository when it starts, and predicts
    with that code."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        place.chmod(0o755)
        subprocess.run(
            ["git", "clone", "--quiet", "--bare", ROOT, place / "origin.git"], check=True
        )
        (place / "gitconfig").write_text("[safe]\n    directory = *\n")
        (place / "city").mkdir()
        products, footprints = city()
        for path in products:
            shutil.copy(path, place / "city")
        mounts = {"origin.git": "/origin.git", "gitconfig": "/etc/gitconfig", "city": "/city"}
        words = [f"--volume={place / name}:{there}:ro" for name, there in mounts.items()]
        words += [
            f"--volume={footprints}:/footprints/{footprints.name}:ro",
            "--volume=/srv/plumbline",
            *GUARDS,
        ]
        begun = time.monotonic()
        words += ["--env=PLUMBLINE_REPOSITORY=/origin.git", f"plumbline:{image}"]
        ended = podman("run", "--rm", *words, "sh", "-c", WORK)
    code, cuda, user, judged, map_bytes, root = ended.stdout.split()
    note("code that runs", code, code.startswith("/srv/plumbline/clone/"))
    note("PyTorch's CUDA", cuda, (cuda == "None") == (image == "cpu"))
    note("user, root", f"{user}, {root}", (user, root) == ("1000", "read-only"))
    note(
        "footprints judged by its `predict`; map, kB",
        f"{judged}; {int(map_bytes) // 1000}",
        int(judged) > 0,
    )
    note("from the start to the map, s", f"{time.monotonic() - begun:.1f}")


CHECKS: dict[str, Callable[[Note], None]] = {
    "serve": check_serve,
    "cpu": partial(check_worker, image="cpu"),
    "gpu": partial(check_worker, image="gpu"),
}


def main(names: list[str]) -> None:
    """Build and check the images of these names."""
    if shutil.which("podman") is None:
        print("Images: skipped. podman is not installed (Debian: apt install podman).")
        return
    if not list((ROOT / "dist").glob("plumbline_insar-*.whl")):
        sys.exit("dist/ holds no wheel. Run `make wheel` first.")
    version = podman("--version").stdout.strip()
    print(
        f"{datetime.date.today()}, {version}\n\n| image | what | found |\n|---|---|---|", flush=True
    )
    for name in names:
        note = partial(line, name)
        build(note, name)
        CHECKS[name](note)


if __name__ == "__main__":
    main(sys.argv[1:])
