"""Check what a team shares: DVC's remote, the registry and the Prefect server."""

from __future__ import annotations

import secrets
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import yaml

from plumbline.core.errors import InputError
from plumbline.core.extras import install, is_installed
from plumbline.doctor.probes import (
    Finding,
    Place,
    ask,
    dvc,
    dvc_settings,
    fault,
    importing,
    nothing,
    ok,
    prefect_api,
    unwritable,
    warning,
)
from plumbline.params import load_params

if TYPE_CHECKING:
    from plumbline.release.registry import Registry
    from plumbline.release.versions import Registered

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


SECONDS_FOR_LOCK = 3.0
ADDRESS = "Correct MLFLOW_TRACKING_URI, or unset it for the file mlflow.db of the project."


def check_registry(_: Place) -> Iterator[Finding]:
    """Check that a release could write to the registry. The trial entry is removed, and the champion stays."""
    if not is_installed("mlflow"):
        yield nothing(f"MLflow is not installed, and releases nothing ({install('pipeline')})")
        return
    with importing:
        from plumbline.release.registry import Registry
        from plumbline.release.server import LOCAL_ARTIFACTS, database_of, default_uri
    uri = default_uri()
    try:
        named = database_of(uri)
    except InputError as error:
        yield fault(str(error), ADDRESS)
        return
    database = Path(named) if named else None
    if database is not None:
        if not database.exists() or not database.stat().st_size:
            why = unwritable(database.parent) or unwritable(LOCAL_ARTIFACTS)
            yield (
                fault(f"{database} is not there and cannot be made ({why})", f"Let this user write there. {ADDRESS}")
                if why
                else ok(f"{database} is not there yet; the first release makes it")
            )
            return
        if problem := _database(database):
            yield problem
            return
    try:
        registry = Registry(_name())
        versions = registry.versions()
    except InputError as error:
        yield fault(str(error), ADDRESS)
        return
    champion = next((item for item in versions if item.champion), None)
    if database is None and (problem := _entry(uri)):
        yield problem
        return
    told = f"{len(versions)} versions, champion {champion.version if champion else 'none yet'}"
    yield ok(f"{uri}: {told}; an entry was made and taken back")
    yield from _files(registry, champion, LOCAL_ARTIFACTS if database is not None else None)


def _name() -> str:
    from plumbline.release.names import DEFAULT_NAME

    with suppress(InputError):  # told of by the check of params.yaml
        return load_params().package.name
    return DEFAULT_NAME


def _database(path: Path) -> Finding | None:
    """Find what is wrong with a SQLite file: damaged, locked or read-only. The trial write is rolled back."""
    restore = f"Restore {path} from a copy; without one, move it away and promote data/package again."
    try:
        with closing(sqlite3.connect(path, timeout=SECONDS_FOR_LOCK, isolation_level=None)) as connection:
            # Takes the lock that a release takes, and writes a page: a folder without room for the journal fails here.
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("CREATE TABLE plumbline_doctor (number INTEGER)")
            connection.execute("ROLLBACK")
            (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        if "locked" in str(error):
            return fault(
                f"{path} is locked: another process has been writing for {SECONDS_FOR_LOCK:.0f} s",
                f"Wait for it, or see who has it open: `fuser -v {path}`. A team needs a server: `mlflow server`.",
            )
        if isinstance(error, sqlite3.OperationalError):
            return fault(f"{path} cannot be written to ({error})", "Let this user write to the file and its folder.")
        return fault(f"{path} is damaged ({error})", restore)
    return None if said == "ok" else fault(f"{path} is damaged ({said})", restore)


def _entry(uri: str) -> Finding | None:
    """Register a model under a random name and delete it: this needs the same rights as a release."""
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    client, name = MlflowClient(uri, uri), f"plumbline-doctor-{secrets.token_hex(8)}"
    try:
        client.create_registered_model(name)
        client.delete_registered_model(name)
    except (MlflowException, OSError) as error:
        told = next(iter(str(error).splitlines()), type(error).__name__)
        return fault(f"{uri}: no entry can be made or removed ({told})", "Give this user the right to write models.")
    return None


def _files(registry: Registry, champion: Registered | None, artifacts: Path | None) -> Iterator[Finding]:
    from plumbline.export.package import verify_package
    from plumbline.release.server import local_folder

    if artifacts is not None and (why := unwritable(artifacts)):
        yield fault(f"the files of a release cannot be written ({why})", "Let this user write there.")
    if champion is None:
        return
    folder = local_folder(champion.source)
    if folder is None:
        yield ok(f"the champion's files lie at {champion.source} (not read)")
        return
    if not folder.is_relative_to(Path.cwd()):
        yield warning(
            f"the champion's files lie in another folder than this project: {folder}",
            "Where this clone was copied or moved, promote its data/package again.",
        )
    try:
        verify_package(registry.folder(champion))
    except InputError as error:
        yield fault(
            f"the champion's files: {error}",
            "`plumbline release promote data/package` registers them again, or `release rollback`.",
        )
    else:
        yield ok(f"the champion's files in {folder} are whole")


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
        healthy = ask(f"{url}/health", headers=headers)
        version = str(ask(f"{url}/admin/version", headers=headers))
        pools = ask(f"{url}/work_pools/filter", {}, headers)
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
    workers = ask(f"{url}/work_pools/{quote(name, safe='')}/workers/filter", {}, headers)
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
