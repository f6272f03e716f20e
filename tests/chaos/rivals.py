"""Two processes promote at the same time; run by the tests that follow, as a process of its own because it forks.

`python -m tests.chaos.rivals FOLDER ROUNDS` writes the champions' words of all rounds as one JSON list.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
from pathlib import Path

from plumbline.core.errors import GateRefused
from plumbline.core.jobs import die_with_parent
from plumbline.release.promotion import promote
from tests.chaos.cut import forked
from tests.chaos.promotions import champion, load_once, make_package
from tests.words import read_words

THINKING_S = 1.0


def better(candidate: Path, present: Path) -> None:
    """The words in a model tell how good it is; the comparison takes its time, as the real one does."""
    good, best = (read_words(folder) for folder in (candidate, present))
    time.sleep(THINKING_S)
    if good < best:
        raise GateRefused(f"{good} is worse than {best}")


def rivals(words: list[str]) -> None:
    """All at once, each in a process of its own."""
    children = []
    for word in words:
        child = os.fork()
        if child == 0:
            with contextlib.suppress(GateRefused):
                promote(Path(f"package_{word}"), better)
            os._exit(0)
        children.append(child)
    for child in children:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def begin() -> None:
    promote(make_package(Path.cwd(), "1"), better)
    for words in ("2", "3"):
        make_package(Path.cwd(), words)


def main(folder: Path, rounds: int) -> list[str]:
    place, kept = folder / "place", folder / "kept"
    place.mkdir()
    os.chdir(place)
    load_once()
    forked(begin)
    shutil.copytree(place, kept)
    found = []
    for number in range(rounds):
        for old in place.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        shutil.copytree(kept, place, dirs_exist_ok=True)
        rivals(["3", "2"] if number % 2 else ["2", "3"])
        found.append(forked(champion))
    return found


if __name__ == "__main__":
    die_with_parent()
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]))))
