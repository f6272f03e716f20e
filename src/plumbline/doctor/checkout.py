"""The git checkout: a commit that others can take, and the code that really runs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import plumbline
from plumbline.doctor.command import run
from plumbline.doctor.finding import Finding, Place, fault, nothing, ok, warning


def check_checkout(place: Place) -> Iterator[Finding]:
    """It is a commit without changes, and `plumbline` runs its sources."""
    yield from _code()
    if shutil.which("git") is None:
        yield fault("git is not installed", "Install git: machines exchange commits and DVC asks it.")
        return
    inside = run("git", "rev-parse", "--is-inside-work-tree", seconds=place.seconds)
    if inside.code:
        if "dubious ownership" in inside.err:
            yield fault(f"git refuses {Path.cwd()}: it belongs to another user",
                        f"`git config --global --add safe.directory {Path.cwd()}`, or `chown` it.")  # fmt: skip
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
        yield warning(f"{told}, with changes that are in no commit: {names}{more}",
                      "Commit them, or `git stash`: a worker takes the commit it is told, without them.")  # fmt: skip
    else:
        yield ok(f"{told}, unchanged")


def _code() -> Iterator[Finding]:
    """A stage is `plumbline STAGE`: another installation first on the path would compute with other code, unseen."""
    sources, used = Path("src/plumbline").resolve(), Path(plumbline.__file__).resolve().parent
    if sources.is_dir() and sources != used:
        yield warning(
            f"the sources of this checkout are not those that run: {used} is",
            "`pip install --no-deps -e .` in this checkout's own environment, and activate that.",
        )
