"""Find the files of profile rows in a city folder, with the settings for each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.params import Ingest, Product
from plumbline.params.ingest import ProfileRows
from plumbline.sources.city.files import (
    BINARY_SUFFIXES,
    LABELS,
    NOT_PRODUCTS,
    NOTES,
    PARTS_OF_SHAPEFILE,
    VECTOR_SUFFIXES,
)
from plumbline.sources.files.file_type import fits
from plumbline.sources.profiles.rows import looks_like_profiles

OTHERS = frozenset({".csv", ".zip", *BINARY_SUFFIXES, *VECTOR_SUFFIXES, *PARTS_OF_SHAPEFILE})
"""What somebody may have meant to be read beside profile rows; other files are passed over."""


@dataclass(frozen=True)
class ProfileFiles:
    """Files of one city folder of profile rows, each with its settings."""

    name: str
    files: tuple[tuple[Path, ProfileRows], ...]

    @property
    def folder(self) -> Path:
        """Folder of the files."""
        return self.files[0][0].parent

    def paths(self, params: Ingest) -> list[Path]:
        """All files that the result can depend on."""
        return [path for path, _ in self.files]


def find_profiles(folder: Path, params: Ingest) -> ProfileFiles | None:
    """Find the files of a city folder of profile rows; None if the folder has other files only.

    A csv is of profile rows where `ingest.products` says so, or else where its content does.

    Raises:
        InputError: there are other files beside them, or params do not say what the rows do not say themselves.
    """
    if not folder.is_dir():
        return None
    found, others, passed = [], [], []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or not path.is_file() or path.suffix.lower() in NOTES:
            continue
        pattern, product = _stated(path, params)
        silent = product.format is None and not product.columns
        likely = path.suffix.lower() == ".csv" and not path.stem.lower().startswith(NOT_PRODUCTS)
        if product.profiles or (likely and silent and looks_like_profiles(path)):
            found.append((path, pattern, product.profiles))
        elif path.name == LABELS or path.suffix.lower() in OTHERS:
            others.append(path.name)
        else:
            passed.append(path)
    if not found:
        return None
    for path in passed:
        log.info("%s: passed over, no profile rows", path)
    if others:
        path, pattern, about = found[0]
        why = f"profile rows by ingest.products, {pattern!r}" if about else "which looks like profile rows"
        raise InputError(
            f"{folder}: {', '.join(others[:5])} found beside {path.name}, {why}. Those name no footprint and "
            "hold their labels themselves: give them a folder of their own, or let the pattern in params.yaml fit them "
            "alone."
        )
    files = []
    for path, _, about in found:
        if about is None:
            raise InputError(_to_state(path))
        files.append((path, about))
    if not any(about.labelled for _, about in files):
        raise InputError(
            f"{folder}: none of its profile rows has a label ({', '.join(path.name for path, _ in files)}). Training "
            "needs labelled buildings. Leave the folder out, or put labelled rows beside these."
        )
    return ProfileFiles(folder.resolve().name, tuple(files))


def _stated(path: Path, params: Ingest) -> tuple[str, Product]:
    """Return the first pattern of `ingest.products` that fits a file, with its settings."""
    return next((item for item in params.products.items() if fits(path, item[0])), ("", Product()))


def _to_state(path: Path) -> str:
    return (
        f"{path}: looks like profile rows (d0,s0,d1,s1,…,span,width), which do not say their units, their codes "
        "or their time. Write them into params.yaml:\n"
        "ingest:\n"
        "  products:\n"
        f"    {path.name!r}:\n"
        "      profiles:  # your units, codes and years\n"
        "        {labelled: true, distance_unit: m, slope_unit: mm/m, severity_unit: permille,\n"
        "         quadrants: {1: NE, 2: NW, 3: SW, 4: SE}, years: 2.5}"
    )
