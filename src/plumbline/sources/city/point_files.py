"""Find the point products that a user names: files, the products of a folder, or the files that a pattern fits."""

from __future__ import annotations

from collections.abc import Sequence
from glob import glob, has_magic
from pathlib import Path

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.sources.city.files import sort_folder
from plumbline.sources.files.archive import find_csv

ANSWERS = b"severity_permille"
"""A column of predictions and of labels, and of no point product."""


def point_files(given: Sequence[Path], option: str = "--points") -> list[Path]:
    """List the files to read, each once, in the given order; those of a folder or pattern by name.

    Args:
        given: files, folders and patterns. A name that is there is no pattern, whatever stands in it.
        option: named in messages.

    Raises:
        InputError: a folder holds no point product, a pattern fits no file, or a folder cannot be read.
    """
    found: dict[Path, Path] = {}
    for path in given:
        if path.is_dir():
            files = _in_folder(path, option)
        elif not path.exists() and has_magic(str(path)):
            files = _fitting(path, option)
        else:
            files = [path]
        for file in files:
            found.setdefault(file.resolve(), file)
    return list(found.values())


def _in_folder(folder: Path, option: str) -> list[Path]:
    products, others = sort_folder(folder)
    answers = [path for path in products if _is_answer(path)]
    products = [path for path in products if path not in answers]
    for path in [*others, *answers]:
        log.info("%s: passed over, it holds no points", path)
    if not products:
        listed = ", ".join(sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))[:10])
        raise InputError(
            f"{option} {folder}: no point product in this folder ({listed or 'nothing'} found). Give the folder that "
            "the files lie in, or the files."
        )
    log.info("%s: %d point products: %s", folder, len(products), ", ".join(path.name for path in products))
    return products


def _fitting(pattern: Path, option: str) -> list[Path]:
    files = sorted(path for path in map(Path, glob(str(pattern), recursive=True)) if path.is_file())  # noqa: PTH207  # absolute ones, too
    if not files:
        raise InputError(
            f"{option} {pattern}: no file fits this pattern. Correct it, or give the files or their folder."
        )
    return files


def _is_answer(path: Path) -> bool:
    """Return whether a table holds predictions or labels, as an earlier `--output` leaves beside the points."""
    if path.suffix.lower() != ".csv":
        return False
    with find_csv(path).open() as stream:
        return ANSWERS in stream.readline(2**16)
