"""What a run of `ingest` has to read: cities, and the parts of their products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from plumbline.core.errors import InputError
from plumbline.core.jobs import run_jobs, work_folder
from plumbline.params import Ingest
from plumbline.sources.city.files import CityFiles, find_files, is_simulated
from plumbline.sources.city.tables import CityPlan, products_crs, read_city
from plumbline.sources.ingest.parts import Part
from plumbline.sources.points.read import parts
from plumbline.sources.profiles.city import ProfileCity
from plumbline.sources.profiles.files import ProfileFiles, find_profiles

STAGE = "ingest"
SAMPLED_BYTES = 2**26
"""Of a product up to this size all points are compared with other products; of a larger one, as many as in one."""


@dataclass(frozen=True)
class Plan:
    """A run: where its finished portions lie, and the portions, each with what was asked for."""

    work: dict[str, Path]
    """City -> folder."""
    cities: list[CityPlan]
    parts: list[Part]
    profiles: list[ProfileCity]
    """Cities of profile rows, which have no points."""


def plan_parts(cities: Sequence[Path], params: Ingest) -> Plan:
    """Read footprints and labels of all cities, and cut the products into parts to be read by `read_part`.

    Raises:
        InputError: as `ingest`, but for what only the points can show.
    """
    plan = cut_parts(cities, params)
    run_jobs(read_city, plan.cities, 1, "footprints")
    return plan


def cut_parts(cities: Sequence[Path], params: Ingest) -> Plan:
    """The plan, with nothing read but what stands first in each file."""
    if not cities:
        raise InputError(
            "ingest: no city folder found. Make some with `plumbline simulate`, or put your own, a folder each, into "
            "data/raw (data/raw/README.md)."
        )
    rows = {folder: files for folder in cities if (files := find_profiles(folder, _stated_of(folder, params)))}
    return cut_found([find_files(folder) for folder in cities if folder not in rows], list(rows.values()), params)


def cut_found(found: Sequence[CityFiles], rows: Sequence[ProfileFiles], params: Ingest) -> Plan:
    """The plan for cities whose files are known: of points, and of profile rows."""
    every: list[CityFiles | ProfileFiles] = [*found, *rows]
    names = [city.name for city in every]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"ingest: two city folders are named {twice[0]}. Rename one.")
    code = [Path(__file__).parents[1]]
    asked = {city.name: _stated_of(city.folder, params) for city in every}
    # One folder a city: a mended file of one does not have the others read again.
    work = {
        name: work_folder(STAGE, city.paths(asked[name]), asked[name].model_dump(mode="json"), code)
        for name, city in zip(asked, every, strict=True)
    }
    plans, result = [], []
    for city in found:
        own = asked[city.name]
        plans.append(CityPlan(work[city.name] / "city", city, own, products_crs(city.products, own)))
        sampled = max(1, max(path.stat().st_size for path in city.products) // SAMPLED_BYTES)
        for product, path in enumerate(city.products):
            for number, span in enumerate(parts(path, own.products)):
                folder = work[city.name] / f"{product:04d}-{number:04d}"
                result.append(
                    Part(folder, plans[-1].folder, path, plans[-1].crs, (product, number), span, sampled, own)
                )
    return Plan(work, plans, result, [ProfileCity(work[city.name] / "city", city) for city in rows])


def _stated_of(folder: Path, params: Ingest) -> Ingest:
    """Section `ingest` as it acts on a city folder: `products`, `footprints`, `crs` are of the user's own files alone.

    Simulated files say all themselves. A pattern that fits them too, as `*` does, and the names of a borrowed city's
    files, which are those of their originals, would move points off the footprints that they were made for.
    """
    return params.model_copy(update={"products": {}, "footprints": {}, "crs": None}) if is_simulated(folder) else params
