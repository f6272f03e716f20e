"""Cut the tidying of a registry before each of its steps, and tell what was found after each cut; see `promotions`."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

from plumbline.core.errors import GateRefused
from plumbline.core.jobs import die_with_parent
from plumbline.params import Tidy
from plumbline.release.promotion import promote, rollback
from plumbline.release.registry import Registry
from plumbline.release.tidy import tidy
from tests.chaos.cut import Cut
from tests.chaos.promotions import agree, champion, each_cut, load_once, make_package

FEW = Tidy(former_champions=2, packages=0)
CHAMPIONS = ("one", "two", "three", "four", "five")


def begin() -> None:
    for words in CHAMPIONS:
        promote(make_package(Path.cwd(), words), agree)


def cut(at: int) -> list[str]:
    registry = Registry()
    counting = Cut(at)
    counting.begin()
    tidy(FEW, registry)
    return counting.steps


def look() -> dict[str, Any]:
    """What serves, whether an old package comes back, what the next tidying leaves, and the promised roll-backs."""
    found: dict[str, Any] = {"served": champion()}
    found["returned"] = False
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


def main(folder: Path) -> list[dict[str, Any]]:
    (folder / "place").mkdir()
    with contextlib.chdir(folder / "place"):
        load_once(lambda: (begin(), tidy(FEW, Registry())))
    (folder / "place").rmdir()
    return each_cut(folder, begin, cut, look)


if __name__ == "__main__":
    die_with_parent()
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]))))
