"""Which files a pattern of `ingest.products` or `ingest.footprints` is of."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from plumbline import params


def fits(path: Path, pattern: str) -> bool:
    """Whether a pattern names a file: by its name, and by as many of its folders as the pattern has.

    `ts.csv` and `*.csv` fit `asc/ts.csv` and `desc/ts.csv`, `asc/*.csv` the first of them alone. A name that is the
    pattern fits, whatever is in it: `a[1].csv` is not only `a1.csv`.
    """
    parts = path.absolute().parts
    tail = "/".join(parts[-1 - pattern.lstrip("/").count("/") :])
    pattern = pattern.lstrip("/")
    return tail == pattern or fnmatchcase(tail, pattern)


def describe(path: Path, products: Mapping[str, params.Product]) -> params.Product:
    """What `products` says of the file: the first pattern that fits it counts; nothing where none does."""
    return next((about for pattern, about in products.items() if fits(path, pattern)), params.Product())
