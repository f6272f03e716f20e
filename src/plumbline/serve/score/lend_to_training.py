"""Lend a drifted delivery's points to training: real noise and geometry, simulated damage (docs/simulation.md)."""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_file, atomic_folder, sha256_file
from plumbline.core.jobs import WORK, remove
from plumbline.params import Section, load_params, parse_params
from plumbline.params.serve import Lend
from plumbline.serve.score.results import read_result
from plumbline.sources.files.opened import fits

BORROWED = Path("data/borrowed")
KEPT = "lent"
"""Folder in `.plumbline` with what was there before, until the gates have spoken."""
BEFORE, LENT = "params.yaml", "lent.yaml"
"""In it: the parameters file as it was, and as `lend` has written it."""


def lend(place: str, result: str, params: Path = Path("params.yaml")) -> str:
    """Copy a delivery into `data/borrowed/CITY` and name it in `simulate.borrowed`; return the city's name.

    Lent again, it takes the place of what the same place has lent before. `take_back` undoes it; what a killed run has
    lent and not decided on is taken back first.

    Args:
        place, result: folder of the result, `OUT/PLACE/RESULT`.
        params: the parameters file, of which all other lines stay as they are.

    Raises:
        InputError: there is no such result, the delivered files are not those any more, or the parameters file is
            written in a way that no line can be put into.
    """
    for left in sorted((WORK / KEPT).glob("[!.]*")):
        take_back(left.name, params)
    given = load_params(params)
    section = given.score
    about = read_result(section.out / place / result)
    source = section.source / place / about.delivery
    for name, told in about.inputs.items():
        if not (source / name).is_file() or sha256_file(source / name) != told["sha256"]:
            raise InputError(f"{source / name}: not the file that {result} was made from. Wait for its next delivery.")
    city = city_of(place)
    own = section.lend.get(place, Lend())
    entry: dict[str, Any] = {
        "folder": (BORROWED / city).as_posix(),
        "seed": int(about.id[:7], 16),
        "copies": own.copies,
        "band": own.band,
    }
    footprints = Path(about.footprints["path"])
    ingest = given.ingest
    for key, said in (
        ("products", _said_of(about.inputs, ingest.products)),
        ("footprints", _said_of([footprints.name], ingest.footprints)),
    ):
        if said:
            entry[key] = said
    text = params.read_text(encoding="utf-8")
    changed = with_borrowed(text, city, entry, str(params))
    _keep(city, text, changed)
    try:
        with atomic_folder(BORROWED / city) as folder:
            for name in about.inputs:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / name, folder / name)
            if source not in footprints.parents:
                copy = shutil.copytree if footprints.is_dir() else shutil.copyfile
                copy(footprints, folder / footprints.name)
        _write(params, changed)
        log.info("%s lends its points to training as %s", source, BORROWED / city)
    except BaseException:
        take_back(city, params)
        raise
    return city


def city_of(place: str) -> str:
    """Return the name of the city that a place lends: its own if valid for a city, else a cleaned one with its hash."""
    city = re.sub(r"[^a-z0-9_]+", "_", place.lower())
    return city if city == place else f"{city}_{hashlib.sha256(place.encode()).hexdigest()[:6]}"


def take_back(city: str, params: Path = Path("params.yaml")) -> None:
    """Restore `data/borrowed/CITY` and its line in the parameters file to their state before `lend`.

    Later changes by others in the parameters file stay. If the line cannot be found any more, the whole file stays,
    with a warning.
    """
    kept = WORK / KEPT / city
    if not kept.is_dir():
        return
    now = params.read_text(encoding="utf-8")
    before, lent = ((kept / name).read_text(encoding="utf-8") for name in (BEFORE, LENT))
    text = before if now == lent else _without(now, before, lent)
    if text is not None:
        _write(params, text)
    elif _borrowed(now).get(city) != _borrowed(before).get(city):
        log.warning("%s was changed meanwhile and stays as it is: mend simulate.borrowed.%s by hand.", params, city)
    if (kept / "city").is_dir():
        with atomic_folder(BORROWED / city) as folder:
            shutil.copytree(kept / "city", folder, dirs_exist_ok=True)
    else:
        shutil.rmtree(BORROWED / city, ignore_errors=True)
    remove(kept)


def keep_lent(city: str) -> None:
    """Keep what was lent: remove the copy of the state before."""
    remove(WORK / KEPT / city)


def with_borrowed(text: str, city: str, entry: dict[str, Any], source: str) -> str:
    """Return the text of a parameters file with one borrowed city added or replaced.

    Raises:
        InputError: it is written so that no line can be put into it; the message has the lines.
    """
    before = yaml.safe_load(text)
    wanted = {**before, "simulate": {**before["simulate"]}}
    wanted["simulate"]["borrowed"] = {**(before["simulate"].get("borrowed") or {}), city: entry}
    flow = yaml.safe_dump(entry, default_flow_style=True, sort_keys=False, allow_unicode=True, width=sys.maxsize)
    key = city if yaml.safe_load(city) == city else f"'{city}'"  # a place may be called 2024, or no
    line = f"{key}: {flow.strip()}"
    lines = text.splitlines()
    start = next((number for number, one in enumerate(lines) if re.match(r"simulate:\s*(#.*)?$", one)), None)
    if start is not None:
        end = next((n for n in range(start + 1, len(lines)) if re.match(r"[^\s#]", lines[n])), len(lines))
        own = lines[start + 1 : end]
        head = next((n for n, one in enumerate(own) if re.match(r"\s+borrowed:\s*(#.*)?$", one)), None)
        step = next((re.match(r"\s*", one)[0] for one in own if one.strip() and one.strip()[0] != "#"), "  ")  # type: ignore[index]
        if head is None:
            own = [f"{step}borrowed:", f"{step * 2}{line}", *own]
        else:
            same = [n for n, one in enumerate(own) if n > head and re.match(rf"{step * 2}{key}:\s*\{{.*\}}", one)]
            at = min(same, default=head + 1)
            own = [one for n, one in enumerate(own) if n not in same]
            own.insert(at, f"{step * 2}{line}")
        changed = "\n".join([*lines[: start + 1], *own, *lines[end:]]) + "\n"
        try:
            if yaml.safe_load(changed) == wanted:
                parse_params(wanted, source)
                return changed
        except yaml.YAMLError:
            pass
    raise InputError(f"{source}: no line can be put into it. Write below simulate.borrowed: {line}")


def _said_of(files: Iterable[str], stated: Mapping[str, Section]) -> dict[str, Any]:
    """Return the entries of `stated` that match delivered files: they are needed to read the files again."""
    fitting = {next((one for one in stated if fits(Path(file), one)), None) for file in files}
    return {
        pattern: about.model_dump(mode="json", exclude_unset=True)
        for pattern, about in stated.items()
        if pattern in fitting
    }


def _without(now: str, before: str, lent: str) -> str | None:
    """Return `now` without the lines by which `lent` differs from `before`; None if they are missing."""
    own, old, new = (text.splitlines() for text in (now, before, lent))
    same = _alike(old, new)
    after = _alike(old[same:][::-1], new[same:][::-1])
    old, new = old[same : len(old) - after], new[same : len(new) - after]
    found = [at for at in range(len(own)) if own[at : at + len(new)] == new]
    if len(found) != 1:
        return None
    return "\n".join([*own[: found[0]], *old, *own[found[0] + len(new) :]]) + "\n"


def _alike(first: list[str], second: list[str]) -> int:
    """Count the lines with which both begin."""
    return next(
        (n for n, (one, other) in enumerate(zip(first, second, strict=False)) if one != other),
        min(len(first), len(second)),
    )


def _borrowed(text: str) -> dict[str, Any]:
    """Return the section `simulate.borrowed` of a parameters file; empty if it cannot be read."""
    try:
        return dict(yaml.safe_load(text)["simulate"].get("borrowed") or {})
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError):
        return {}


def _keep(city: str, before: str, lent: str) -> None:
    """Save the present state, and the text that replaces it."""
    with atomic_folder(WORK / KEPT / city) as folder:
        (folder / BEFORE).write_text(before, encoding="utf-8")
        (folder / LENT).write_text(lent, encoding="utf-8")
        if (BORROWED / city).is_dir():
            shutil.copytree(BORROWED / city, folder / "city")


def _write(path: Path, text: str) -> None:
    """Replace a text file, with the line ends of the old one."""
    ends = "\r\n" if b"\r\n" in path.read_bytes() else "\n"
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline=ends)
