"""Check parameters, stage graph, checkout and package."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import yaml

from plumbline.core.errors import InputError
from plumbline.core.extras import install, is_installed
from plumbline.core.source_code import PYTHON_PACKAGE, foreign_checkout
from plumbline.doctor.probes import Finding, Place, dvc, fault, importing, nothing, ok, run, warning
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
            "Install the version that the checkout is of (`make install`), or correct the names.",
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
    if root := foreign_checkout():
        yield warning(
            f"the sources of this checkout are not those that run: {PYTHON_PACKAGE} is. Stages refuse to run",
            f"`make install` in {root}, and activate its environment. In another environment: "
            f"`pip install --no-deps -e {root}`.",
        )


OWN = Path("data/package")


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
