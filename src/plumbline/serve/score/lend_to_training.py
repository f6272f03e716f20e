"""Lend a drifted delivery's points to training: real noise and geometry, simulated damage
(docs/simulation.md)."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_file, atomic_folder, sha256_file
from plumbline.core.jobs import WORK, remove
from plumbline.params import Section, load_params
from plumbline.params.serve import Lend
from plumbline.params.simulate import LENT, Borrowed
from plumbline.serve.score.results import read_result
from plumbline.sources.files.opened import fits

KEPT = "lent"
"""Folder in `.plumbline` with what was there before, until the gates have spoken."""


def lend(place: str, result: str) -> str:
    """Copy a delivery into `data/borrowed/CITY`, describe it in `CITY.yaml` beside that,
    and return the city's name.

    Lent again, it takes the place of what the same place has lent before. `take_back`
    undoes it; what a killed run has lent and not decided on is taken back first.

    Args:
        place, result: folder of the result, `OUT/PLACE/RESULT`.

    Raises:
        InputError: there is no such result, the delivered files are not those any more, or
            an invented city has the name.
    """
    for saved in sorted((WORK / KEPT).glob("[!.]*")):
        take_back(saved.name)
    params = load_params()
    result_manifest = read_result(params.score.out / place / result)
    source = params.score.source / place / result_manifest.delivery
    for name, file_record in result_manifest.inputs.items():
        if not (source / name).is_file() or sha256_file(source / name) != file_record["sha256"]:
            raise InputError(
                f"{source / name}: not the file that {result} was made from. Wait for its next "
                "delivery.",
                key="delivery.other_file",
            )
    city = city_of(place)
    if city in params.simulate.cities:
        raise InputError(
            f"simulate.cities.{city} has the name under which {place} would lend. Give it "
            "another name.",
            key="cities.repeated_name",
        )
    lending, footprints = (
        params.score.lend.get(place, Lend()),
        Path(result_manifest.footprints["path"]),
    )
    entry = Borrowed.model_validate(
        {
            "folder": LENT / city,
            "seed": int(result_manifest.id[:7], 16),
            **lending.model_dump(),
            "products": _select_stated(result_manifest.inputs, params.ingest.products),
            "footprints": _select_stated([footprints.name], params.ingest.footprints),
        }
    )
    with atomic_folder(WORK / KEPT / city) as folder:
        for path in (LENT / city, LENT / f"{city}.yaml"):
            if path.exists():
                _copy_path(path, folder / path.name)
    try:
        with atomic_folder(LENT / city) as folder:
            for name in result_manifest.inputs:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / name, folder / name)
            if source not in footprints.parents:
                _copy_path(footprints, folder / footprints.name)
        with atomic_file(LENT / f"{city}.yaml") as temporary:
            content = entry.model_dump(mode="json", exclude_unset=True)
            temporary.write_text(
                yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8"
            )
        log.info("%s lends its points to training as %s", source, LENT / city)
    except BaseException:
        take_back(city)
        raise
    return city


def city_of(place: str) -> str:
    """Return the name of the city that a place lends: its own if valid for a city, else a
    cleaned one with its hash."""
    city = re.sub(r"[^a-z0-9_]+", "_", place.lower())
    return city if city == place else f"{city}_{hashlib.sha256(place.encode()).hexdigest()[:6]}"


def take_back(city: str) -> None:
    """Restore `data/borrowed/CITY` and its description to their state before `lend`."""
    saved = WORK / KEPT / city
    if not saved.is_dir():
        return
    shutil.rmtree(LENT / city, ignore_errors=True)
    (LENT / f"{city}.yaml").unlink(missing_ok=True)
    shutil.copytree(saved, LENT, dirs_exist_ok=True)
    remove(saved)


def keep_lent(city: str) -> None:
    """Keep what was lent: remove the copy of the state before."""
    remove(WORK / KEPT / city)


def _copy_path(source: Path, target: Path) -> None:
    (shutil.copytree if source.is_dir() else shutil.copyfile)(source, target)


def _select_stated(files: Iterable[str], stated: Mapping[str, Section]) -> dict[str, Any]:
    """Return the entries of `stated` that match delivered files: they are needed to read
    the files again."""
    matching = {next((p for p in stated if fits(Path(file), p)), None) for file in files}
    return {
        pattern: about.model_dump(mode="json", exclude_unset=True)
        for pattern, about in stated.items()
        if pattern in matching
    }
