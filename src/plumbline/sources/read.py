"""One door for all point products: the format is told by the content, never by the file's name."""

from __future__ import annotations

from pathlib import Path

from plumbline.console import log
from plumbline.errors import InputError
from plumbline.sources.archive import find_csv
from plumbline.sources.egms import is_egms, open_egms
from plumbline.sources.points import Track
from plumbline.sources.product import all_points
from plumbline.sources.table import read_header

FORMATS = ((is_egms, open_egms, "EGMS L2a and L2b (csv, or the zip as downloaded)"),)
"""Recognise by header, read, name."""


def read_points(path: Path) -> Track:
    """Read a point product of any known format.

    Raises:
        InputError: the file cannot be read, its format is not known, or its content is refused by the reader.
    """
    product = find_csv(path)
    header = read_header(product)
    for recognises, open_, _ in FORMATS:
        if recognises(header):
            track = all_points(open_(product, header))
            log.info("%s: %d points, %d epochs, %s to %s", product, *track.displacement.shape, *track.epochs[[0, -1]])
            return track
    known = "; ".join(name for _, _, name in FORMATS)
    raise InputError(f"{product}: unknown format, its header begins {', '.join(header[:12])[:300]}. Known: {known}.")
