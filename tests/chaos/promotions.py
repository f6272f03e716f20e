"""Cut a promotion before each of its steps, in a fresh copy of a registry, and tell what was found after each cut.

`python -m tests.chaos.promotions FOLDER [--again]` writes one JSON list. A process of its own, because it forks: so the
libraries are loaded once, and each promotion, each kill and each look at what is left is a process all the same.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plumbline.core.errors import GateRefused
from plumbline.core.jobs import die_with_parent
from plumbline.export.package import verify_package, write_package
from plumbline.params import Prepare
from plumbline.release.promotion import promote, rollback
from plumbline.release.registry import Registry
from plumbline.release.resolve import resolve_model
from tests.chaos.cut import Cut, forked
from tests.words import read_words, write_words


def make_package(folder: Path, words: str) -> Path:
    """A small package with real hashes whose model is a file with the given words."""
    model = folder / "model.onnx"
    write_words(model, words)
    about = {
        "name": "plumbline",
        "default_model": "model.onnx",
        "prepare": Prepare().model_dump(),
        "hashes": {"data": "d" * 64},
        "metrics": {"int8": {"severity_mae": 0.25}},
        "gate": {"verdict": "pass"},
    }
    write_package({"model.onnx": model}, about, "A card.", folder / f"package_{words}")
    return folder / f"package_{words}"


def agree(_candidate: Path, _champion: Path) -> None:
    """Nothing against the candidate."""


def champion() -> str:
    """The words in the champion's model, whose files are asked to be whole."""
    folder = resolve_model("champion")
    verify_package(folder)
    return read_words(folder)


def cut(at: int, again: bool) -> list[str]:
    counting = Cut(at)
    counting.begin()
    promote(Path("package_new"), agree, again=again)
    return counting.steps


def retry(again: bool) -> str:
    """Until the promotion is through: an operator who had decided says so again, but the nightly run never does."""
    try:
        promote(Path("package_new"), agree)
    except GateRefused:
        if not again:
            raise
        promote(Path("package_new"), agree, again=True)
    # What was promoted is the champion of any later run, without a word.
    assert not promote(Path("package_new"), agree).changed
    return champion()


def look(again: bool) -> dict[str, Any]:
    """What somebody finds after a cut, one thing after the other."""
    found: dict[str, Any] = {"served": champion(), "retried": retry(again), "versions": len(Registry().versions())}
    rollback()
    return found | {"back": champion()}


def begin(again: bool) -> None:
    """A registry with two champions one after the other; with `again`, the new one was one already and taken back."""
    for words in ("older", "old"):
        promote(make_package(Path.cwd(), words), agree)
    new = make_package(Path.cwd(), "new")
    if again:
        promote(new, agree)
        rollback()


def load_once(first: Callable[[], Any] = lambda: begin(again=True)) -> None:
    """Have MLflow load here, once, what it loads when it is first used: `first` uses it."""
    elsewhere = Path.cwd().with_name("elsewhere")
    elsewhere.mkdir()
    with contextlib.chdir(elsewhere):
        first()


def each_cut(
    folder: Path, begin: Callable[[], Any], cut: Callable[[int], list[str]], look: Callable[[], dict[str, Any]]
) -> list[dict[str, Any]]:
    """Cut a piece of work before each of its steps, and tell what was found after each cut.

    Args:
        folder: for the registries. begin: makes what is there before. cut: does the work, and kills its process before
            the step of that number (0: never), or results in all steps. look: what is found after it.
    """
    # MLflow notes absolute places, so each time happens in the same folder, put back to how it was.
    place, kept = folder / "place", folder / "kept"
    place.mkdir()
    os.chdir(place)
    forked(begin)
    shutil.copytree(place, kept)
    steps = forked(lambda: cut(0))
    found = []
    for at in range(1, len(steps) + 1):
        for old in place.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        shutil.copytree(kept, place, dirs_exist_ok=True)
        ended = forked(lambda at=at: cut(at))
        found.append({"before": steps[at - 1], "ended": ended, **forked(look)})
    return found


def main(folder: Path, again: bool) -> list[dict[str, Any]]:
    (folder / "place").mkdir()
    with contextlib.chdir(folder / "place"):
        load_once()
    (folder / "place").rmdir()
    return each_cut(folder, lambda: begin(again), lambda at: cut(at, again), lambda: look(again))


if __name__ == "__main__":
    die_with_parent()
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), "--again" in sys.argv)))
