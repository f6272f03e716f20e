"""Check parameters, stage graph, checkout, package and registry."""

from __future__ import annotations

import secrets
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

import plumbline
from plumbline.core.errors import InputError
from plumbline.core.extras import install, is_installed
from plumbline.doctor.probes import (
    Finding,
    Place,
    ask,
    dvc,
    fault,
    mlflow_headers,
    nothing,
    ok,
    run,
    unwritable,
    warning,
)
from plumbline.params import check_sections, is_partial, load_params

PARAMS, GRAPH = Path("params.yaml"), Path("dvc.yaml")


def check_params(_: Place) -> Iterator[Finding]:
    """Check that params.yaml has only allowed values."""
    if not PARAMS.exists() and not GRAPH.exists():
        yield nothing(f"{Path.cwd()} is no project: neither {PARAMS} nor {GRAPH} is there")
        return
    try:
        if _is_for_option():
            check_sections(PARAMS)
            yield ok(
                f"every key is known and in its range; for `--params`, as it is no whole one and no {GRAPH} is there"
            )
            return
        load_params(PARAMS)
        yield ok("every key is known and in its range")
    except InputError as error:
        for line in str(error).splitlines():  # a line a key
            yield fault(line, f"Correct {PARAMS}; `git diff {PARAMS}` shows what was changed.")


def _is_for_option() -> bool:
    """Return whether params.yaml is a file for `predict --params` (a few sections), rather than a project's."""
    return not GRAPH.exists() and is_partial(PARAMS)


def check_graph(place: Place) -> Iterator[Finding]:
    """Check that DVC can read dvc.yaml, and that each stage in it is a command of this version."""
    if not GRAPH.exists():
        with suppress(InputError):  # told of by the check of params.yaml, as is one that is not there
            if not _is_for_option():
                yield fault(f"{PARAMS} is there and {GRAPH} is not", f"`git checkout {GRAPH}`.")
                return
        yield nothing("no project here")
        return
    mend = f"Correct {GRAPH}; `git diff {GRAPH}` shows what was changed."
    try:
        content = yaml.safe_load(GRAPH.read_text(encoding="utf-8"))
        stages = list(content["stages"])
    except (yaml.YAMLError, UnicodeDecodeError, TypeError, KeyError) as error:
        yield fault(f"{GRAPH}: no stages can be read ({' '.join(str(error).split())})", mend)
        return
    if unknown := [name for name in stages if name not in place.commands]:
        yield fault(
            f"{GRAPH}: no command of this version for {', '.join(unknown)}",
            "Install the version that the checkout is of (`pip install --no-deps -e .`), or correct the names.",
        )
    if not is_installed("dvc"):
        yield nothing(f"{len(stages)} stages; DVC is not installed to read them ({install('pipeline')})")
        return
    ended = dvc("stage", "list", "--name-only", "--fail", seconds=place.seconds)
    if ended.code:
        yield fault(f"{GRAPH}: DVC refuses it: {ended.error}", mend)
    elif not unknown:
        yield ok(f"{len(stages)} stages, each a command of this version")


def check_checkout(place: Place) -> Iterator[Finding]:
    """Check that the checkout has a commit without changes, and that `plumbline` runs its sources."""
    yield from _code()
    if shutil.which("git") is None:
        yield fault("git is not installed", "Install git: machines exchange commits and DVC asks it.")
        return
    inside = run("git", "rev-parse", "--is-inside-work-tree", seconds=place.seconds)
    if inside.code:
        if "dubious ownership" in inside.err:
            yield fault(
                f"git refuses {Path.cwd()}: it belongs to another user",
                f"`git config --global --add safe.directory {Path.cwd()}`, or `chown` it.",
            )
        elif Path(".git").exists():
            yield fault(f"git cannot read the checkout: {inside.last}", "Clone again; keep data/ and .dvc/cache.")
        else:
            yield nothing("no git checkout here")
        return
    commit = run("git", "rev-parse", "--verify", "--quiet", "HEAD", seconds=place.seconds)
    if commit.code:
        yield warning("no commit yet", "`git commit`: a run records its commit, and workers are told one.")
        return
    status = run("git", "status", "--porcelain", seconds=place.seconds)
    if status.code:
        yield fault(f"`git status`: {status.last}", "See what it says; a lock that nobody holds may be removed.")
        return
    changed = status.out.splitlines()
    told = f"commit {commit.out.strip()[:12]}"
    if changed:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        names = ", ".join(line[3:] for line in changed[:3])
        yield warning(
            f"{told}, with changes that are in no commit: {names}{more}",
            "Commit them, or `git stash`: a worker takes the commit it is told, without them.",
        )
    else:
        yield ok(f"{told}, unchanged")


def _code() -> Iterator[Finding]:
    """Compare the code that runs with this checkout's: an installed copy may be older, another checkout differs."""
    sources, used = Path("src/plumbline").resolve(), Path(plumbline.__file__).resolve().parent
    if not sources.is_dir() or sources == used:
        return
    if not any(used.parent.glob("plumbline-*.dist-info")):  # pip writes it beside a copy, but not into a checkout
        yield warning(
            f"the sources of this checkout are not those that run: {used} is",
            "`pip install --no-deps -e .` in this checkout's own environment, and activate that.",
        )
    elif changed := _changed(sources, used):
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        yield warning(
            f"sources of this checkout changed since they were installed: {changed[0]}{more}; {used} runs",
            "`pip install .` again, or `pip install --no-deps -e .` if you change them often.",
        )
    else:
        yield ok(f"{used} runs, a copy with the same sources as this checkout")


def _changed(sources: Path, used: Path) -> list[str]:
    """Return the modules of a checkout that an installed copy lacks or has with another content."""
    names = sorted(path.relative_to(sources) for path in sources.rglob("*.py"))
    return [str(name) for name in names if not _is_same(sources / name, used / name)]


def _is_same(one: Path, other: Path) -> bool:
    return other.is_file() and one.read_bytes() == other.read_bytes()


if TYPE_CHECKING:
    from plumbline.release.registry import Registry
    from plumbline.release.versions import Registered


OWN = Path("data/package")
importing = threading.Lock()
"""Two threads that load the same large libraries, which import one another in circles, may each get half of one."""


def check_package(_: Place) -> Iterator[Finding]:
    """Check the package that comes with Plumbline, and the one from the last run."""
    with importing:
        from plumbline.export.package import verify_package
        from plumbline.pretrained import PACKAGE
    for folder, what, mend in (
        (
            PACKAGE,
            "the package that comes with Plumbline",
            "Install Plumbline again; in a clone: `git checkout src/plumbline/pretrained`.",
        ),
        (OWN, str(OWN), f"`dvc checkout {OWN}`; if DVC has lost it, `make run`."),
    ):
        if folder == OWN and not folder.exists():
            continue
        try:
            yield ok(f"{what}: whole, version {verify_package(folder).version}")
        except InputError as error:
            yield fault(str(error), mend)


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
    elif uri.startswith("http"):
        try:
            ask(f"{uri.rstrip('/')}/health", headers=mlflow_headers())
        except (OSError, ValueError) as error:
            yield fault(f"{uri}: the registry does not answer ({error})", f"Start the MLflow server. {ADDRESS}")
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
