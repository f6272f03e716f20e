"""A registry put back to an old copy, and an old package promoted by a machine that has missed a release.

`python -m tests.chaos.backups FOLDER` writes what was found as JSON. A process of its own, because it forks.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from plumbline.core.errors import PlumblineError
from plumbline.core.jobs import die_with_parent
from plumbline.release.promotion import promote
from tests.chaos.cut import forked
from tests.chaos.promotions import agree, champion, load_once, make_package

REGISTRY = ("mlflow.db", "mlartifacts")


def attempt(words: str) -> str:
    """Promote as the pipeline does, and say how it ended and which is the champion."""
    try:
        said = "changed" if promote(Path(f"package_{words}"), agree).changed else "left"
    except PlumblineError as error:
        said = f"exit code {error.exit_code}"
    return f"{said}: {champion()}"


def lost_files() -> str:
    """The same where the champion's files may be gone."""
    try:
        return attempt("new")
    except PlumblineError as error:
        return f"exit code {error.exit_code}"


def copy(source: Path, target: Path, *names: str) -> None:
    for name in names:
        there = target / name
        if (source / name).is_dir():
            shutil.rmtree(there, ignore_errors=True)
            shutil.copytree(source / name, there)
        else:
            shutil.copy(source / name, there)


def main(folder: Path) -> dict[str, str]:
    place, backup, present = folder / "place", folder / "backup", folder / "present"
    for one in (place, backup, present):
        one.mkdir()
    os.chdir(place)
    load_once()
    for words in ("old", "new"):
        make_package(place, words)
    forked(lambda: attempt("old"))
    copy(place, backup, *REGISTRY)
    found = {"release": forked(lambda: attempt("new"))}
    copy(place, present, *REGISTRY)
    # A machine on the old commit makes the old package, and wants it released.
    found["old commit"] = forked(lambda: attempt("old"))
    # The registry itself is an old copy: the next run of the present commit catches up.
    copy(backup, place, *REGISTRY)
    found["old registry"] = forked(lambda: f"as it was: {champion()}")
    found["old registry, next run"] = forked(lambda: attempt("new"))
    # Only the files are an old copy: the database names a champion whose files are gone.
    copy(present, place, "mlflow.db")
    copy(backup, place, "mlartifacts")
    found["old files, old package"] = forked(lambda: _old_package())
    found["old files, next run"] = forked(lost_files)
    return found


def _old_package() -> str:
    try:
        promote(Path("package_old"), agree)
    except PlumblineError as error:
        return f"exit code {error.exit_code}"
    return "promoted"


if __name__ == "__main__":
    die_with_parent()
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]))))
