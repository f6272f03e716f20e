"""Cut a promotion, or a tidying, before each of its steps, in a fresh copy of a registry, and tell what was found.

`python -m tests.chaos.cuts FOLDER new|again|tidy` writes one JSON list. A process of its own, because it forks: so the
libraries are loaded once, and each piece of work, each kill and each look at what is left is a process all the same.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

from plumbline.core.errors import GateRefused
from plumbline.core.jobs import die_with_parent
from plumbline.export.package import verify_package
from plumbline.params import Tidy
from plumbline.release.promotion import promote, rollback
from plumbline.release.registry import Registry
from plumbline.release.resolve import resolve_model
from plumbline.release.tidy import tidy
from tests.chaos.cut import Cut, forked
from tests.words import make_package, read_words

FEW = Tidy(former_champions=2, packages=0)
CHAMPIONS = ("one", "two", "three", "four", "five")


def agree(_candidate: Path, _champion: Path) -> None:
    """Nothing against the candidate."""


def champion() -> str:
    """The words in the champion's model, whose files are asked to be whole."""
    folder = resolve_model("champion")
    verify_package(folder)
    return read_words(folder)


class Promotions:
    """A registry with two champions one after the other; with `again`, the new one was one already and taken back."""

    def __init__(self, again: bool) -> None:
        self.again = again

    def begin(self) -> None:
        for words in ("older", "old"):
            promote(make_package(Path.cwd(), words), agree)
        new = make_package(Path.cwd(), "new")
        if self.again:
            promote(new, agree)
            rollback()

    def work(self) -> None:
        promote(Path("package_new"), agree, allow_former=self.again)

    def look(self) -> dict[str, Any]:
        """What somebody finds after a cut, one thing after the other."""
        found = {"served": champion(), "retried": self._retry(), "versions": len(Registry().versions())}
        rollback()
        return found | {"back": champion()}

    def _retry(self) -> str:
        """Until the promotion is through: an operator who had decided says so again, but the nightly run never does."""
        try:
            promote(Path("package_new"), agree)
        except GateRefused:
            if not self.again:
                raise
            promote(Path("package_new"), agree, allow_former=True)
        # What was promoted is the champion of any later run, without a word.
        assert not promote(Path("package_new"), agree).changed
        return champion()


class Tidyings:
    """A registry with five champions one after the other, of which three are to stay."""

    def begin(self) -> None:
        for words in CHAMPIONS:
            promote(make_package(Path.cwd(), words), agree)

    def work(self) -> None:
        tidy(FEW, Registry())

    def look(self) -> dict[str, Any]:
        """What serves, whether an old package comes back, what the next tidying leaves, and the promised roll-backs."""
        found: dict[str, Any] = {"served": champion(), "returned": False}
        if any(item.number == 1 for item in Registry().versions()):  # what the registry no longer has may be promoted
            with contextlib.suppress(GateRefused):
                found["returned"] = promote(Path("package_one"), agree).changed
        tidy(FEW, Registry())
        found |= {"versions": len(Registry().versions()), "folders": len(list(Path("mlartifacts").iterdir()))}
        found["back"] = []
        for _ in range(FEW.former_champions):
            rollback()
            found["back"].append(champion())
        return found


CASES = {"new": Promotions(again=False), "again": Promotions(again=True), "tidy": Tidyings()}


def cut(case: Promotions | Tidyings, at: int) -> list[str]:
    """Do the work, killed before the step of this number (0: never); return all steps."""
    counting = Cut(at)
    counting.begin()
    case.work()
    return counting.steps


def main(folder: Path, case: Promotions | Tidyings) -> list[dict[str, Any]]:
    """Cut the work of a case before each of its steps; return what was found after each cut."""
    # MLflow notes absolute places, so each time happens in the same folder, put back to how it was.
    place, kept, elsewhere = folder / "place", folder / "kept", folder / "elsewhere"
    for path in (place, elsewhere):
        path.mkdir()
    os.chdir(elsewhere)
    case.begin()  # here, once, MLflow loads what it loads when it is first used
    case.work()
    os.chdir(place)
    forked(case.begin)
    shutil.copytree(place, kept)
    steps = forked(partial(cut, case, 0))
    found = []
    for at, step in enumerate(steps, 1):
        for old in place.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        shutil.copytree(kept, place, dirs_exist_ok=True)
        ended = forked(partial(cut, case, at))
        found.append({"before": step, "ended": ended, **forked(case.look)})
    return found


if __name__ == "__main__":
    die_with_parent()
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), CASES[sys.argv[2]])))
