"""Check disk, locks, clock, remote and Prefect."""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from plumbline.core.extras import install, is_installed
from plumbline.core.files import KEPT_SECONDS, TEMPORARY, is_dead
from plumbline.core.jobs import WORK
from plumbline.doctor.probes import (
    Finding,
    Place,
    ask,
    dvc,
    dvc_cache,
    dvc_settings,
    fault,
    files,
    mlflow_headers,
    nearest,
    nothing,
    ok,
    prefect_api,
    run,
    size,
    unwritable,
    warning,
)

LOCK = Path("dvc.lock")


def check_disk(place: Place) -> Iterator[Finding]:
    """Check that each disk has room for another run as large as the last one, plus `place.free_bytes`."""
    settings: dict[str, str] = {}
    if Path(".dvc").is_dir() and is_installed("dvc"):
        try:
            settings = dvc_settings(place.seconds)
        except OSError as error:
            yield warning(f"where DVC's cache lies is not known ({error})", "Correct .dvc/config.")
    made = last_run()
    whole, package = sum(made.values()), made.get("package", 0)
    linked = settings.get("cache.type", "").split(",")[0] in ("hardlink", "symlink", "reflink")
    needs = {
        "temporary files": (Path(tempfile.gettempdir()), 0),
        "data": (Path("data"), 0 if linked else whole),
        "portions and checkpoints": (Path(".plumbline"), made.get("ingest", 0) + made.get("prepare", 0)),
        "registry": (Path("mlartifacts"), package),
    }
    if Path(".dvc").is_dir():
        needs["DVC's cache"] = (dvc_cache(settings), whole)
    disks: dict[int, list[str]] = {}
    for name, (path, _) in needs.items():
        disks.setdefault(nearest(path).stat().st_dev, []).append(name)
    for names in disks.values():
        paths = [needs[name][0] for name in names]
        for path in paths:
            if why := unwritable(path):
                yield fault(f"nothing can be written to {path} ({why})", "Let this user write there, or free the disk.")
        yield _judge(names, nearest(paths[0]), sum(needs[name][1] for name in names), place.free_bytes, bool(made))


def _judge(names: list[str], path: Path, needed: int, least: int, known: bool) -> Finding:
    free = shutil.disk_usage(path).free
    estimate = f"as much as the last run made: {size(needed)}" if known else "no run recorded, so no estimate"
    told = f"{size(free)} free for {', '.join(names)} ({estimate}; at least {size(least)} besides)"
    mend = "Free some: `python -m flows.tidy` removes what is no longer wanted; `du -sh .plumbline data` shows more."
    if free < needed + least:
        return fault(told, mend)
    return warning(told, f"Enough for one run. {mend}") if free < 2 * needed + least else ok(told)


def last_run() -> dict[str, int]:
    """Return the bytes that each stage wrote, from dvc.lock; empty without that file."""
    try:
        content: Any = yaml.safe_load(LOCK.read_text(encoding="utf-8"))
        return {
            name: sum(int(out.get("size", 0)) for out in stage.get("outs", []))
            for name, stage in content["stages"].items()
        }
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TypeError, KeyError, AttributeError, ValueError):
        return {}


_REMOVED = re.compile(r"^\.(.+)\.removed$")
"""As `plumbline.core.jobs` names what it is about to remove."""
WHERE = (".", "data", "data/*", "mlartifacts", f"{WORK}", f"{WORK}/*", f"{WORK}/*/*")
GONE_ON_WITH = ("checkpoints", "ingest", "prepare", "score", "search")
"""Below `.plumbline`: trainings and portions, which can be made again. Other folders hold what cannot: Prefect's
database, files of MLflow and of released packages, what a retraining puts back."""


def check_leftovers(_: Place) -> Iterator[Finding]:
    """Find files of dead processes, and portions and checkpoints that were not continued for a week."""
    unfinished = sorted({path for where in WHERE for path in Path().glob(f"{where}/.*") if _dead(path)})
    only = {path: whole for path in unfinished if (whole := _only_copy_of(path)) is not None}
    unfinished = [path for path in unfinished if path not in only]
    for path, whole in only.items():
        yield warning(
            f"{path}: all there is of {whole}, from whose place a process that died had just taken it",
            f"`{shlex.join(['mv', str(path), str(whole)])}`, or make {whole} anew.",
        )
    found = (path for name in GONE_ON_WITH for path in sorted((WORK / name).glob("[!.]*")))
    kept = [path for path in found if path.is_dir()]
    old = [path for path in kept if time.time() - _changed(path) > KEPT_SECONDS]
    for paths, what in ((unfinished, "half-written, of processes that died"), (old, "not touched for a week")):
        if paths:
            more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
            shown = ", ".join(map(str, paths[:3]))
            yield warning(
                f"{what}: {shown}{more}; {size(_bytes(paths))}",
                f"`rm -r {shlex.join(map(str, paths))}`; nothing needs them.",
            )
    if not (unfinished or only or old):
        going_on = f"; {len(kept)} folders in {WORK} that a run may go on from, {size(_bytes(kept))}" if kept else ""
        yield ok(f"nothing was left behind{going_on}")


def _dead(path: Path) -> bool:
    return is_dead(path) or bool(_REMOVED.match(path.name))


def _only_copy_of(path: Path) -> Path | None:
    """Return the folder that `path` is the only copy of, if a process died while it replaced that folder."""
    told = TEMPORARY.match(path.name)
    whole = path.with_name(told[1]) if told and path.suffix == ".old" else None
    return None if whole is None or whole.exists() else whole


def _changed(folder: Path) -> float:
    return max([folder.stat().st_mtime, *(about.st_mtime for _, about in files(folder, seconds=1.0))])


def _bytes(paths: list[Path]) -> int:
    return sum(about.st_size for path in paths for _, about in files(path, seconds=1.0))


DVC_OWNERS = Path(".dvc/tmp/rwlock")
SERVER = WORK / "server.pid"


def check_locks(_: Place) -> Iterator[Finding]:
    """Report locks that are held, and locks and servers left by dead processes."""
    at_work = False
    for path in sorted(WORK.glob("*.lock")):
        try:
            if not _held(path):
                continue  # the kernel gives a lock back when its holder dies; the file alone holds nothing up
            holder = _holder(path)
        except FileNotFoundError:  # its process has just ended
            continue
        at_work = True
        yield holder
    for finding in _dvc_owners():
        at_work = True
        yield finding
    if not at_work:
        for pid in _servers():
            at_work = True
            yield warning(
                f"process {pid}, the embedded Prefect server of a run that was killed, is still there",
                f"`kill {pid}`; the next run ends it too.",
            )
    if not at_work:
        yield ok("nobody is at work here, and no lock is left")


def _held(path: Path) -> bool:
    with path.open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        fcntl.flock(stream, fcntl.LOCK_UN)
    return False


def _holder(path: Path) -> Finding:
    words = path.read_text(encoding="utf-8", errors="replace").split()
    named = words[0] if words else ""  # what follows is its purpose
    if not named.isdigit() or _alive(int(named)):
        return ok(f"a run is at work here: {path}{f', process {named}' if named else ''}")
    # It was started by the dead one, and has the file open from it.
    open_by = ", ".join(str(pid) for pid in _having_open(path)) or "one that this user cannot see"
    return fault(
        f"{path} is held by process {open_by}, left by process {named}, which is dead",
        f"End it: `kill {open_by}`. No run starts here before.",
    )


def _dvc_owners() -> Iterator[Finding]:
    """Check the owners in DVC's list of busy paths: DVC waits forever for a number that another process has now."""
    mend = f"`rm {DVC_OWNERS}` once no DVC is at work here; `make run` does so by itself."
    try:
        content = json.loads(DVC_OWNERS.read_text(encoding="utf-8"))
        owners = [
            *content.get("write", {}).values(),
            *(item for many in content.get("read", {}).values() for item in many),
        ]
        pids = sorted({int(owner["pid"]) for owner in owners})
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError, AttributeError):
        yield fault(f"{DVC_OWNERS} was cut short: DVC fails on it", mend)
        return
    for pid in pids:
        if _is_dvc(pid):
            yield ok(f"DVC is at work here: process {pid}")
        elif _alive(pid):
            yield fault(f"{DVC_OWNERS} names process {pid}, which is no DVC: DVC waits for it without end", mend)
        else:
            yield warning(f"{DVC_OWNERS} names process {pid}, which is dead", mend)


def _servers() -> Iterator[int]:
    try:
        pids = [int(text) for text in SERVER.read_text(encoding="utf-8").split()]
    except (OSError, ValueError):
        return
    yield from (pid for pid in pids if b"prefect.server" in _command(pid))


def _having_open(path: Path) -> Iterator[int]:
    wanted = path.resolve()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(entry.resolve() == wanted for entry in (process / "fd").iterdir()):
                yield int(process.name)
        except OSError:
            continue


def _alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists() or not Path("/proc/self").exists()


def _is_dvc(pid: int) -> bool:
    # `python -m dvc` or `bin/dvc`, as a run has it: a folder of that name makes no DVC.
    words = _command(pid).split(b"\0")
    return any(word.rsplit(b"/", 1)[-1] == b"dvc" for word in words) or not Path("/proc/self").exists()


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


WHY = "Without it results go to no other machine, and DVC computes anew without a word."


def check_remote(place: Place) -> Iterator[Finding]:
    """Check that the default remote stores an object and returns it."""
    if not Path(".dvc").is_dir():
        yield nothing("no DVC project here")
        return
    if not is_installed("dvc"):
        yield nothing(f"DVC is not installed, and no stage runs under it ({install('pipeline')})")
        return
    settings = dvc_settings(place.seconds)
    name = settings.get("core.remote")
    if name is None:
        yield warning("no default remote is set", f"`dvc remote add --default NAME URL`. {WHY}")
        return
    url = settings.get(f"remote.{name}.url")
    if url is None:
        yield fault(f"the default remote {name} has no address", f"`dvc remote add {name} URL`. {WHY}")
    elif "://" in url:
        yield from _elsewhere(name, url, settings, place.seconds)
    else:
        yield from _folder(name, Path(url))


def _folder(name: str, folder: Path) -> Iterator[Finding]:
    inside = folder.is_relative_to(Path.cwd())
    if not folder.is_dir() and (folder.exists() or not inside):
        # DVC would make the folder: on the disk below a mount that is gone, where no other machine sees it.
        yield fault(
            f"{name}: {folder} is no folder",
            f"Mount it, or make it, or correct the address (`dvc remote modify {name} url …`). {WHY}",
        )
    elif why := unwritable(folder):
        yield fault(f"{name}: nothing can be written there ({why})", f"Give this user the right to write. {WHY}")
    elif not folder.is_dir():
        yield ok(f"{name}: {folder} is not there yet; the first `dvc push` makes it")
    else:
        yield ok(f"{name}: {folder}, a file was written and removed")


def _elsewhere(name: str, url: str, settings: Mapping[str, str], seconds: float) -> Iterator[Finding]:
    """Push a few bytes with DVC to a separate folder of the remote, and remove them.

    A project of its own too, in a temporary folder: `dvc gc` there removes whatever the remote holds that this project
    does not name, so the remote's address must never be that of the real one.
    """
    own = f"{url.rstrip('/')}/.plumbline-doctor-{secrets.token_hex(8)}"
    with tempfile.TemporaryDirectory(prefix="plumbline-doctor-") as temporary:
        folder = Path(temporary)
        (folder / ".dvc").mkdir()
        options = {key: value for key, value in settings.items() if key.startswith(f"remote.{name}.")}
        config = _config(name, {**options, f"remote.{name}.url": own}, folder)
        (folder / ".dvc" / "config").write_text(config, encoding="utf-8")
        (folder / "object").write_text(secrets.token_hex(16), encoding="utf-8")
        for words in (("add", "object"), ("push", "--remote", name)):
            ended = dvc(*words, seconds=seconds, folder=folder)
            if ended.code:
                yield fault(
                    f"{name}: {url}: `dvc {words[0]}` of a small object failed: {ended.error}",
                    f"See that the server runs and that name and key are right "
                    f"(`dvc remote modify --local {name} …`). {WHY}",
                )
                return
        (folder / "object.dvc").unlink()
        ended = dvc("gc", "--workspace", "--cloud", "--force", "--remote", name, seconds=seconds, folder=folder)
        if ended.code:
            yield warning(
                f"{name}: {url} takes objects, but gives no right to remove one: {ended.error}",
                f"Let the user remove objects, or never run `dvc gc --cloud`; {own} may be removed.",
            )
        else:
            yield ok(f"{name}: {url}, an object was pushed and removed")


def _config(name: str, options: Mapping[str, str], folder: Path) -> str:
    """Return a DVC config file for this remote; DVC keeps its working files in `folder`."""
    prefix = f"remote.{name}."
    lines = [f"{key.removeprefix(prefix)} = {_quoted(value)}" for key, value in options.items()]
    core = ["analytics = false", "check_update = false", "no_scm = true", f"site_cache_dir = {_quoted(str(folder))}"]
    return "\n".join(["[core]", *core, f"['remote \"{name}\"']", *lines, ""])


def _quoted(value: str) -> str:
    return f"'{value}'" if '"' in value else f'"{value}"'


DEPLOYMENTS = Path("prefect.yaml")


def check_server(_: Place) -> Iterator[Finding]:
    """Check the server at PREFECT_API_URL, and that each pool in prefect.yaml has a worker."""
    api = prefect_api()
    if api is None:
        yield nothing("PREFECT_API_URL is not set: every run starts a server of its own, and there is no schedule")
        return
    if not is_installed("prefect"):
        yield nothing(f"PREFECT_API_URL is set and Prefect is not installed ({install('pipeline')})")
        return
    url, headers = api
    try:
        healthy = ask(f"{url}/health", headers=headers).content
        version = str(ask(f"{url}/admin/version", headers=headers).content)
        pools = ask(f"{url}/work_pools/filter", {}, headers).content
    except (OSError, ValueError) as error:
        yield fault(
            f"{url}: the Prefect server does not answer ({error})",
            "Start it (here: `make up`), or correct PREFECT_API_URL, which ends in /api; unset it to run "
            "without a server.",
        )
        return
    if healthy is not True or not isinstance(pools, list):
        yield fault(f"{url}: what answers is no Prefect server", "Correct PREFECT_API_URL, which ends in /api.")
        return
    own = metadata.version("prefect")
    if version == own:
        yield ok(f"{url}: Prefect {version} answers")
    else:
        yield warning(
            f"{url}: the server has Prefect {version}, and this machine {own}",
            f"Install Prefect {own} on the server first, then on every worker.",
        )
    named = {str(pool.get("name")): pool for pool in pools}
    for name in _wanted() or sorted(named):
        yield _pool(name, named.get(name), url, headers)
    if not named and not _wanted():
        yield warning("no work pool is there", "`prefect work-pool create --type process cpu`.")


def _pool(name: str, pool: Any, url: str, headers: dict[str, str]) -> Finding:
    if pool is None:
        return fault(
            f"{DEPLOYMENTS} sends runs to the work pool {name}, which the server does not have",
            f"`prefect work-pool create --type process {name}`.",
        )
    if pool.get("is_paused"):
        return warning(f"the work pool {name} is paused: no run of it starts", f"`prefect work-pool resume {name}`.")
    workers = ask(f"{url}/work_pools/{quote(name, safe='')}/workers/filter", {}, headers).content
    alive = [worker for worker in workers if worker.get("status") == "ONLINE"]
    if alive:
        return ok(f"work pool {name}: {len(alive)} workers alive ({', '.join(str(item['name']) for item in alive)})")
    heard = max((str(item.get("last_heartbeat_time") or "") for item in workers), default="")
    last = f", the last was heard of at {heard[:19]} UTC" if heard else ""
    return fault(
        f"the work pool {name} has no worker that is alive{last}: its runs stay late for ever",
        f"`PLUMBLINE_HOME=$PWD prefect worker start --pool {name}` on a machine of this pool.",
    )


def _wanted() -> list[str]:
    """List the pools that the deployments use."""
    try:
        content: Any = yaml.safe_load(DEPLOYMENTS.read_text(encoding="utf-8"))
        names = [item.get("work_pool", {}).get("name") for item in content["deployments"]]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TypeError, KeyError, AttributeError):
        return []
    return sorted({name for name in names if isinstance(name, str) and "{{" not in name})


SECONDS = 60.0
"""A difference that schedules, heartbeats and leases stand."""
WRITTEN = (Path(".dvc/cache"), Path("mlflow.db"), Path("mlartifacts"), Path("data"), Path(".plumbline"))
SET = "Let the system set it: `timedatectl set-ntp true`, or its chrony."


def check_clock(place: Place) -> Iterator[Finding]:
    """Check the clock against file dates and servers, and whether the system synchronises it."""
    wrong = False
    for finding in (*_files(), *_time_servers(), *_system(place.seconds)):
        wrong = True
        yield finding
    if not wrong:
        yield ok(f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())} UTC, and no file is of the future")


def _files() -> Iterator[Finding]:
    newest, when = None, time.time() + SECONDS
    for folder in WRITTEN:
        for path, about in files(folder, seconds=2.0):
            if about.st_mtime > when:
                newest, when = path, about.st_mtime
    if newest is not None:
        yield warning(
            f"{newest} was written {_long(when - time.time())} from now: the clock is behind, or was ahead",
            f"{SET} Once it is right, `touch` the files of the future.",
        )


def _time_servers() -> Iterator[Finding]:
    addresses = {}
    if api := prefect_api():
        addresses["Prefect server"] = (f"{api[0]}/health", api[1])
    uri = os.environ.get("MLFLOW_TRACKING_URI", "")
    if uri.startswith("http"):
        addresses["MLflow server"] = (f"{uri.rstrip('/')}/health", mlflow_headers())
    for name, (url, headers) in addresses.items():
        try:
            said = ask(url, headers=headers).headers.get("date")
        except (OSError, ValueError):
            continue  # told of by the checks of the servers
        if said is None:
            continue
        apart = time.time() - parsedate_to_datetime(said).timestamp()
        if abs(apart) > SECONDS:
            way = "ahead of" if apart > 0 else "behind"
            yield fault(f"{_long(abs(apart))} {way} the {name}", f"{SET} On both machines.")


def _system(seconds: float) -> Iterator[Finding]:
    """Report a clock that the system does not synchronise. A container has no `timedatectl`: check its host."""
    if shutil.which("timedatectl") is None:
        return
    ended = run("timedatectl", "show", "--property=NTPSynchronized", "--value", seconds=seconds)
    if ended.code == 0 and ended.out.strip() == "no":
        yield warning("the system's clock is not synchronised with a time server", SET)


def _long(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} seconds"
