"""Find products, footprints and labels in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from glob import glob, has_magic
from pathlib import Path

from plumbline.core.console import log, warn
from plumbline.core.errors import InputError
from plumbline.params import Ingest
from plumbline.sources.files.opened import OpenedFile, find_csv, fits, zip_members
from plumbline.sources.footprints.ends import LOOKED_AT, SEPARATOR
from plumbline.sources.footprints.shapefile import PARTS
from plumbline.sources.footprints.source import (
    GDBTABLE,
    HIDDEN,
    PARQUET_SUFFIXES,
    VECTOR_SUFFIXES,
    is_folder_of_footprints,
    unpacked_suffix,
)
from plumbline.sources.footprints.tables import has_outlines
from plumbline.sources.points.read import is_product

LABELS = "labels.csv"
SIMULATED = ("simulate", "cities")
"""Folder, in that of a project's data, of the cities that the stage `simulate` has written."""
NOT_PRODUCTS = ("labels", "truth")
"""Beginnings of names of files that are no products, whatever their suffix."""
TEXTS = (".txt", ".tsv", ".dat")
"""Suffixes of tables or notes: `predict` reads such a file if it is named, but not in a folder."""
NOTES = (".md", ".dvc", ".xml")
BINARY_SUFFIXES = (".parquet", ".h5", ".hdf5", ".he5")
"""Suffixes of files that may be points or belong to them, or be footprints: the content decides."""


POINTS = (".csv", ".zip", ".gz", ".h5", ".hdf5", ".he5")
"""Suffixes of files that make a folder one of points, whatever is beside them."""


@dataclass(frozen=True)
class CityFiles:
    """Files of one city folder."""

    name: str
    products: list[Path]
    footprints: Path
    labels: Path | None
    """None where nobody has labelled a building: points to be judged, not to train with."""

    @property
    def folder(self) -> Path:
        """Folder of the products."""
        return self.products[0].parent

    def paths(self, params: Ingest) -> list[Path]:
        """All files that the result can depend on: those of the folder, and those that a
        description names."""
        files = [
            *files_of(self.footprints),
            *(path for path in self.folder.rglob("*") if path.is_file()),
        ]
        for pattern, product in params.products.items():
            for path in self.products:
                named = [
                    path.parent / name for name in (product.geometry, product.coherence) if name
                ]
                files += [file for file in named if fits(path, pattern) and file.is_file()]
        return sorted(set(files))


def files_of(path: Path) -> list[Path]:
    """Return a file, or the files of a folder."""
    return [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]


def city_folders(data: Path) -> list[Path]:
    """Return the city folders of a project: the simulated ones and the user's own in `raw`."""
    folders = [
        path
        for root in (data.joinpath(*SIMULATED), data / "raw")
        if root.is_dir()
        for path in root.iterdir()
    ]
    return sorted(path for path in folders if path.is_dir() and not path.name.startswith("."))


def is_simulated(folder: Path) -> bool:
    """Return whether the stage `simulate` has written a city folder."""
    return folder.absolute().parent.parts[-len(SIMULATED) :] == SIMULATED


def find_files(folder: Path) -> CityFiles:
    """Find products, footprints and labels in a city folder.

    Raises:
        InputError: not a folder; no product, no `labels.csv`, or not exactly one file of
            footprints.
    """
    files = find_unlabelled(folder)
    labels = folder / LABELS
    if not labels.is_file():
        raise InputError(
            f"{folder}: no {LABELS} in it. Training needs labelled buildings; to judge unlabelled "
            "ones, use `plumbline predict`.",
            key="labels.missing",
        )
    return replace(files, labels=labels)


def find_unlabelled(folder: Path, footprints_elsewhere: Path | None = None) -> CityFiles:
    """Find products and footprints in a folder of points to judge; labels are ignored.

    Args:
        folder: it. footprints_elsewhere: those of a folder that has none.

    Raises:
        InputError: not a folder; no product, or not exactly one file of footprints.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder.", key="folder.missing")
    opened, footprints = sort_folder(folder)
    products = [file.path for file in opened]
    if not products:
        listed = ", ".join(path.name for path in footprints)
        advice = (
            f" Taken for footprints: {listed}; write layers of points as csv." if footprints else ""
        )
        raise InputError(
            f"{folder}: no point product (csv, csv.gz, zip, {', '.join(BINARY_SUFFIXES)}) in "
            f"it.{advice}",
            key="folder.no_product",
        )
    if not footprints and footprints_elsewhere:
        footprints.append(footprints_elsewhere)
    if len(footprints) != 1:
        listed = ", ".join(path.name for path in footprints) or "none"
        raise InputError(
            f"{folder}: one file of footprints is needed ({', '.join(VECTOR_SUFFIXES)}, a zip of "
            "one, a .gdb folder or "
            f"a folder of parts), {listed} found."
            + (
                " Put the parts of one city into a folder of their own."
                if len(footprints) > 1
                else ""
            ),
            key="folder.not_one_footprints",
        )
    return CityFiles(folder.resolve().name, products, footprints[0], None)


def sort_folder(folder: Path) -> tuple[list[OpenedFile], list[Path]]:
    """Return the products of a folder and its possible footprints, by name; log all other files.

    A folder in it counts as footprints where no file does.
    """
    products: list[OpenedFile] = []
    footprints: list[Path] = []
    for path in sorted(folder.iterdir()):
        suffix = path.suffix.lower()
        if (
            path.name.startswith(".")
            or not path.is_file()
            or path.name == LABELS
            or suffix in PARTS
        ):
            continue
        if path.stem.lower().startswith(NOT_PRODUCTS):
            log.info("%s: passed over, its name begins like that of labels", path)
            continue
        file = OpenedFile(path)
        if _holds_outlines(file):
            footprints.append(path)
        elif (
            suffix in (".csv", *BINARY_SUFFIXES) and is_product(file)
        ) or path.name.lower().endswith(".csv.gz"):
            products.append(file)
        elif unpacked_suffix(path.name) in (".csv", *VECTOR_SUFFIXES) or (
            suffix == ".zip" and _is_zipped_vector(file)
        ):
            footprints.append(path)
        elif suffix == ".zip":
            products.append(file)
        elif suffix in TEXTS:
            warn(
                "%s: passed over. If it holds points, name it .csv, so that it counts.",
                path,
                key="folder.unread_table",
            )
        else:
            log.info("%s: passed over, it is neither a product nor footprints", path)
    return products, footprints or [
        path for path in sorted(folder.iterdir()) if _is_folder_of_footprints(path)
    ]


def _is_folder_of_footprints(folder: Path) -> bool:
    if folder.name.startswith(".") or not is_folder_of_footprints(folder):
        return False
    if any(
        file.suffix.lower() in POINTS and not _is_packed_footprints(file)
        for file in folder.iterdir()
    ):
        return False
    parts = (file for file in sorted(folder.rglob("*")) if file.suffix.lower() in PARQUET_SUFFIXES)
    part = next((file for file in parts if file.name[0] not in HIDDEN), None)
    return part is None or not is_product(part)


def _is_packed_footprints(path: Path) -> bool:
    """Return whether a csv, gzip or zip holds footprints."""
    if path.name.startswith(".") or unpacked_suffix(path.name) in VECTOR_SUFFIXES:
        return True
    file = OpenedFile(path)
    return _holds_outlines(file) or (path.suffix.lower() == ".zip" and _is_zipped_vector(file))


def _holds_outlines(file: OpenedFile) -> bool:
    """Return whether a csv, packed or not, holds footprints: lines of JSON, as Microsoft's,
    or outlines as text."""
    name = file.path.name.lower()
    tables = (
        [member for member in zip_members(file) if member.lower().endswith(".csv")]
        if name.endswith(".zip")
        else []
    )
    if not name.endswith((".csv", ".csv.gz")) and len(tables) != 1:
        return False
    start = file.start if name.endswith(".csv") else file.table_start
    text = start[:LOOKED_AT].decode("utf-8-sig", "replace").lstrip(SEPARATOR)
    return text.startswith("{") or has_outlines(text)


def _is_zipped_vector(file: OpenedFile) -> bool:
    return any(
        Path(name).suffix.lower() in (*VECTOR_SUFFIXES, GDBTABLE) for name in zip_members(file)
    )


ANSWERS = b"severity_permille"
"""A column of predictions and of labels, and of no point product."""


def point_files(
    paths: Sequence[Path], option: str = "--points", footprints: bool = False
) -> list[OpenedFile]:
    """List the files to read, each once, in the given order; those of a folder or pattern by name.

    Args:
        paths: files, folders and patterns. The name of a file that exists is never a pattern.
        option: named in messages.
        footprints: keep a folder that is read as one file of footprints.

    Raises:
        InputError: a folder holds no point product, a pattern fits no file, or a folder
            cannot be read.
    """
    opened: dict[Path, OpenedFile] = {}
    for path in paths:
        if footprints and _is_folder_of_footprints(path):
            files = [OpenedFile(path)]
        elif path.is_dir():
            files = _find_products(path, option)
        elif not path.exists() and has_magic(str(path)):
            fitting = map(Path, glob(str(path), recursive=True))  # noqa: PTH207  # absolute patterns, too
            files = [OpenedFile(file) for file in sorted(fitting) if file.is_file()]
            if not files:
                raise InputError(
                    f"{option} {path}: no file fits this pattern. Correct it, or give the files "
                    "or their folder.",
                    key="pattern.no_file",
                )
        else:
            files = [OpenedFile(path)]
        for file in files:
            opened.setdefault(file.path.resolve(), file)
    return list(opened.values())


def _find_products(folder: Path, option: str) -> list[OpenedFile]:
    products, footprints = sort_folder(folder)
    answers = [file.path for file in products if _is_answer(file)]
    products = [file for file in products if file.path not in answers]
    for path in [*footprints, *answers]:
        log.info("%s: passed over, it holds no points", path)
    if not products:
        listed = ", ".join(
            sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))[:10]
        )
        raise InputError(
            f"{option} {folder}: no point product in this folder ({listed or 'nothing'} found). "
            "Give the folder of the files, or the files.",
            key="folder.no_product",
        )
    log.info(
        "%s: %d point products: %s",
        folder,
        len(products),
        ", ".join(file.path.name for file in products),
    )
    return products


def _is_answer(file: OpenedFile) -> bool:
    """Return whether a table holds predictions or labels, as an earlier `--output` leaves
    beside the points."""
    if file.path.suffix.lower() != ".csv":
        return False
    product = find_csv(file)
    if product.is_plain:
        return ANSWERS in file.start.partition(b"\n")[0]
    with product.open() as stream:
        return ANSWERS in stream.readline(2**16)
