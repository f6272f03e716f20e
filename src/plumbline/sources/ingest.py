"""The stage `ingest`: city folders of product files -> points, buildings and labels tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plumbline.console import log, track
from plumbline.errors import InputError
from plumbline.files import atomic_folder, write_json
from plumbline.params import Ingest
from plumbline.sources.archive import zip_members
from plumbline.sources.buildings import read_buildings, write_buildings
from plumbline.sources.distinct import check_distinct
from plumbline.sources.labels import read_labels
from plumbline.sources.overlap import check_overlap
from plumbline.sources.points import Track, write_points
from plumbline.sources.read import read_points

LABELS = "labels.csv"
NOT_PRODUCTS = ("labels", "truth")
"""Beginnings of names of files that are no products, whatever their suffix."""
VECTOR_SUFFIXES = (".geojson", ".gpkg", ".shp", ".parquet", ".geoparquet", ".fgb")


@dataclass(frozen=True)
class City:
    """The files of one city folder."""

    name: str
    products: list[Path]
    footprints: Path
    labels: Path


def ingest(cities: list[Path], params: Ingest, out: Path) -> None:
    """Read city folders and write `out/CITY/{points,buildings,labels}.parquet` and `out/ingest.json`.

    A city folder holds point products (csv or zip), one file of footprints and `labels.csv`. `out` appears only when
    every city has been read; `ingest.json` says what was read, dropped and labelled.

    Raises:
        InputError: there is no city, a folder lacks a file, a file is refused by its reader, points and footprints
            do not overlap, or a label is of a building that is not there.
    """
    if not cities:
        raise InputError("ingest: no city folder given.")
    found = [find_files(folder) for folder in cities]
    names = [city.name for city in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"ingest: two city folders are named {twice[0]}. Rename one.")
    with atomic_folder(out) as temporary:
        report = {}
        for city in track(found, len(found), "ingest"):
            report[city.name] = _ingest_city(city, params, temporary / city.name)
        write_json(temporary / "ingest.json", report)


def find_files(folder: Path) -> City:
    """What is what in a city folder.

    Raises:
        InputError: not a folder; no product, no `labels.csv`, or not exactly one file of footprints.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder.")
    products, footprints = [], []
    for path in sorted(folder.iterdir()):
        suffix = path.suffix.lower()
        if path.name.startswith(".") or path.stem.lower().startswith(NOT_PRODUCTS):
            continue
        if suffix in VECTOR_SUFFIXES or (suffix == ".zip" and _is_zipped_vector(path)):
            footprints.append(path)
        elif suffix in (".csv", ".zip"):
            products.append(path)
    if not products:
        raise InputError(f"{folder}: no point product (csv or zip) in it.")
    if len(footprints) != 1:
        listed = ", ".join(path.name for path in footprints) or "none"
        raise InputError(
            f"{folder}: one file of footprints is needed ({', '.join(VECTOR_SUFFIXES)}, zipped Shapefile), "
            f"{listed} found."
        )
    labels = folder / LABELS
    if not labels.is_file():
        raise InputError(
            f"{folder}: no {LABELS} in it. Training needs labelled buildings; to judge unlabelled ones, use "
            "`plumbline predict`."
        )
    return City(folder.resolve().name, products, footprints[0], labels)


def _is_zipped_vector(path: Path) -> bool:
    return any(Path(name).suffix.lower() in VECTOR_SUFFIXES for name in zip_members(path))


def _ingest_city(city: City, params: Ingest, out: Path) -> dict[str, Any]:
    tracks = [_drop_incoherent(read_points(path), params.min_coherence) for path in city.products]
    for path, points in zip(city.products, tracks, strict=True):
        if not len(points):
            raise InputError(
                f"{path}: no point has a temporal coherence from ingest.min_coherence ({params.min_coherence:g}) up. "
                "Lower it in params.yaml."
            )
    crs = tracks[0].crs
    buildings = read_buildings(city.footprints, crs)
    check_distinct(tracks, [str(path) for path in city.products])
    check_overlap(tracks, buildings, ", ".join(map(str, city.products)), str(city.footprints))
    labels = read_labels(city.labels)
    unknown = labels.loc[~labels["building_id"].isin(buildings["building_id"]), "building_id"]
    if len(unknown):
        raise InputError(
            f"{city.labels}: {len(unknown)} labelled buildings are not in {city.footprints}: "
            f"{', '.join(unknown[:5])}. Labels and footprints must be of one city."
        )
    write_points(tracks, out / "points.parquet")
    write_buildings(buildings, out / "buildings.parquet")
    labels.to_parquet(out / "labels.parquet", index=False)
    log.info("%s: %d points, %d buildings, %d labelled", city.name, sum(map(len, tracks)), len(buildings), len(labels))
    return {
        "products": [path.name for path in city.products],
        "footprints": city.footprints.name,
        "labels": city.labels.name,
        "crs": crs,
        "tracks": [_describe(points) for points in tracks],
        "buildings": len(buildings),
        "labelled": len(labels),
    }


def _drop_incoherent(points: Track, min_coherence: float) -> Track:
    if points.coherence is None:
        return points
    # Compared as the product's float32: 0.7 in params must keep a point of 0.7.
    return points.keep(points.coherence >= np.float32(min_coherence), "incoherent")


def _describe(points: Track) -> dict[str, Any]:
    return {
        "name": points.name,
        "points_read": len(points) + sum(points.dropped.values()),
        "dropped": dict(points.dropped),
        "points": len(points),
        "epochs": len(points.epochs),
        "first_epoch": str(points.epochs[0]),
        "last_epoch": str(points.epochs[-1]),
    }
