"""One door for all point products: the format is told by the content, never by the file's name."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import plumbline.params
from plumbline.console import log
from plumbline.errors import InputError
from plumbline.sources.archive import find_csv
from plumbline.sources.egms import is_egms, open_egms
from plumbline.sources.points import Track
from plumbline.sources.product import PointSource, all_points
from plumbline.sources.table import read_header

FORMATS = ((is_egms, open_egms, "EGMS L2a and L2b (csv, or the zip as downloaded)"),)
"""Recognise by header, read, name."""
PART_BYTES = 2**28
"""A csv is read in parts of so many bytes, each by itself."""


def open_points(
    path: Path,
    products: Mapping[str, plumbline.params.Product] = {},
    format: str | None = None,
    crs: str | None = None,
    part: tuple[int, int | None] = (0, None),
) -> PointSource:
    """Open a point product of any known format.

    Args:
        path: the file.
        part: of a product that can be cut (`parts`): the bytes whose lines are wanted.

    Raises:
        InputError: the file cannot be read, its format is not known, or its content is refused by the reader.
    """
    product = find_csv(path)
    header = read_header(product)
    product = replace(product, start=part[0], end=part[1])
    for recognises, open_, _ in FORMATS:
        if recognises(header):
            return open_(product, header)
    known = "; ".join(name for _, _, name in FORMATS)
    raise InputError(f"{product}: unknown format, its header begins {', '.join(header[:12])[:300]}. Known: {known}.")


def parts(path: Path, products: Mapping[str, plumbline.params.Product] = {}) -> list[tuple[int, int | None]]:
    """Portions in which a product can be read one by one, in any order: byte ranges of a csv; else one, the whole.

    Raises:
        InputError: the file cannot be read.
    """
    if find_csv(path).member is not None:
        return [(0, None)]
    cuts = [*range(0, max(path.stat().st_size - PART_BYTES // 2, 1), PART_BYTES), None]
    return [(start or 0, end) for start, end in itertools.pairwise(cuts)]


def read_points(path: Path) -> Track:
    """Read a point product of any known format.

    Raises:
        InputError: the file cannot be read, its format is not known, or its content is refused by the reader.
    """
    track = all_points(open_points(path))
    log.info("%s: %d points, %d epochs, %s to %s", path, *track.displacement.shape, *track.epochs[[0, -1]])
    return track
