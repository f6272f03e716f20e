"""Write the profile rows of a city as one table with labels, and read it back file by file."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from plumbline.core.compass import QUADRANTS
from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder, read_json, write_json
from plumbline.params.ingest import ProfileRows
from plumbline.sources.city.labels import MAX_SEVERITY_PERMILLE
from plumbline.sources.city.profile_rows import ProfileFiles, Profiles, read_profiles
from plumbline.sources.city.tiles import ABOUT
from plumbline.sources.points.epochs import DAYS_A_YEAR

PROFILES = "profiles.parquet"
KIND = "profiles"
"""Value of `kind` in the `city.json` of such a city; that of a city of points has none."""
TO_PERMILLE = {"permille": 1.0, "percent": 10.0, "strain": 1000.0}
NO_QUADRANT = ""


@dataclass(frozen=True)
class ProfileCity:
    """Profile rows to read, and the folder for the result."""

    folder: Path
    files: ProfileFiles


def read_profile_city(city: ProfileCity) -> None:
    """Write the rows of all files of a city, in one unit and with labels in permille, as
    `profiles.parquet`.

    `about.json` beside it has the content of the later `city.json`. A building is named
    after its file and line.

    Raises:
        InputError: a file is refused by its reader, a severity is above a strain of 1, or a
            row has a code of locations that params do not explain.
    """
    tables, products = [], []
    for path, about in city.files.files:
        rows = read_profiles(path, about.labelled, about.slope_unit, about.distance_unit)
        severity = rows.severity * (
            TO_PERMILLE[about.severity_unit] if about.severity_unit else np.nan
        )
        _check_labels(path, about, rows, severity)
        named = {
            code: NO_QUADRANT if name == "none" else name for code, name in about.quadrants.items()
        }
        tables.append(
            pa.table(
                {
                    "building_id": [f"{path.name}:{line}" for line in rows.line.tolist()],
                    "product": [path.name] * len(rows),
                    "group": _group_names(path, about, rows),
                    "distance_m": pa.LargeListArray.from_arrays(rows.offsets, rows.distance),
                    "slope_mm_per_m": pa.LargeListArray.from_arrays(rows.offsets, rows.slope),
                    "span_m": rows.span_m,
                    "width_m": rows.width_m,
                    "severity_permille": severity,
                    "quadrant": [named.get(code, NO_QUADRANT) for code in rows.location.tolist()],
                }
            )
        )
        products.append(_describe_product(path, about, rows))
    table = pa.concat_tables(tables)
    named_groups = {
        name: number for number, name in enumerate(dict.fromkeys(table["group"].to_pylist()))
    }
    numbers = pa.array([named_groups[name] for name in table["group"].to_pylist()], pa.int64())
    table = table.set_column(table.schema.get_field_index("group"), "group", numbers)
    labelled = sum(product["labelled"] for product in products)
    with atomic_folder(city.folder) as out:
        pq.write_table(table, out / PROFILES)
        write_json(
            out / ABOUT,
            {
                "kind": KIND,
                "buildings": len(table),
                "labelled": labelled,
                "groups": len(named_groups),
                "products": products,
            },
        )


def place_profiles(city: ProfileCity, about: Path) -> None:
    """Put the output of `read_profile_city` into the folder of `about`, the file that
    describes the city."""
    content = read_json(city.folder / ABOUT)
    about.parent.mkdir(parents=True)
    shutil.copyfile(city.folder / PROFILES, about.parent / PROFILES)
    write_json(about, content)
    log.info(
        "%s: %d profile rows, %d labelled",
        city.files.name,
        content["buildings"],
        content["labelled"],
    )


def years(about: ProfileRows) -> float:
    """Return the length of the period of the slopes, years."""
    if about.first is not None and about.last is not None:
        return (about.last - about.first).days / DAYS_A_YEAR
    if about.years is None:
        raise ValueError("neither years nor days: params should have refused it")
    return about.years


def _check_labels(path: Path, about: ProfileRows, rows: Profiles, severity: NDArray[Any]) -> None:
    if not about.labelled:
        return
    for key, is_bad, problem in (
        (
            "profiles.unstated_location",
            ~np.isin(rows.location, list(about.quadrants)),
            "location {location} found; params.yaml (ingest.products, profiles.quadrants) has "
            f"{', '.join(map(str, about.quadrants))}. Add the code's quadrant, or none.",
        ),
        (
            "profiles.impossible_severity",
            severity > MAX_SEVERITY_PERMILLE,
            f"severity {{severity:g}} found, in {about.severity_unit} more than a strain of 1. "
            "Check profiles.severity_unit in params.yaml.",
        ),
    ):
        if is_bad.any():
            row = int(np.argmax(is_bad))
            text = problem.format(location=rows.location[row], severity=rows.severity[row])
            raise InputError(f"{path}, line {rows.line[row]}: {text}", key=key)


def _group_names(path: Path, about: ProfileRows, rows: Profiles) -> list[str]:
    """Return a group name for each row; rows of one building share it."""
    if about.same_building == "file":
        return [f"file {path.name}"] * len(rows)
    if about.same_building == "row":
        return [f"row {path.name}:{line}" for line in rows.line.tolist()]
    # To a millimetre: 2340 cm and 23.4 m are one size, and not one number.
    sizes = zip(rows.span_m.tolist(), rows.width_m.tolist(), strict=True)
    return [f"size {span:.3f} {width:.3f}" for span, width in sizes]


def _describe_product(path: Path, about: ProfileRows, rows: Profiles) -> dict[str, Any]:
    days = (
        {}
        if about.first is None
        else {"first_epoch": str(about.first), "last_epoch": str(about.last)}
    )
    same = np.diff(rows.distance) == 0
    same[rows.offsets[1:-1] - 1] = False  # from one building to the next
    return {
        "name": path.name,
        "buildings": len(rows),
        "labelled": len(rows) if about.labelled else 0,
        "points": len(rows.distance),
        "duplicates": int(same.sum()),
        "years": years(about),
        **days,
    }


class ProductRows(NamedTuple):
    """B rows of one file."""

    profiles: Profiles
    """Severities in permille, locations as places in `QUADRANTS`, or -1."""
    building_id: NDArray[np.str_]
    """(B,)"""
    group: NDArray[np.int64]
    """(B,) rows of one number are of one building, also in other files of the city."""


@dataclass(frozen=True)
class IngestedProfiles:
    """An ingested city of profile rows."""

    folder: Path
    about: dict[str, Any]
    """`city.json`."""

    @property
    def products(self) -> list[dict[str, Any]]:
        """Facts of each file: `name`, `buildings`, `labelled`, `points`, `duplicates`, `years`, and
        perhaps `first_epoch` and `last_epoch`."""
        products: list[dict[str, Any]] = self.about["products"]
        return products

    def rows(self, product: str) -> ProductRows:
        """Read the rows of a file, in its order.

        Raises:
            InputError: the table is missing or damaged.
        """
        path = self.folder / PROFILES
        try:
            table = pq.read_table(path, filters=[("product", "=", product)])
            distance, slope = (
                table[name].combine_chunks() for name in ("distance_m", "slope_mm_per_m")
            )
            span, width, severity, group = (
                table[name].to_numpy()
                for name in ("span_m", "width_m", "severity_permille", "group")
            )
            ids, quadrant = (
                table[name].to_numpy(zero_copy_only=False) for name in ("building_id", "quadrant")
            )
        except (OSError, KeyError, pa.ArrowException) as error:
            raise InputError(
                f"{path}: not readable ({error}). Run `plumbline ingest` again.",
                key="profiles.unreadable",
            ) from None
        location = np.full(len(ids), -1, np.int64)
        for code, name in enumerate(QUADRANTS):
            location[quadrant == name] = code
        line = np.array([int(name.rpartition(":")[2]) for name in ids], np.int64)
        offsets = np.r_[0, np.cumsum(np.asarray(distance.value_lengths(), np.int64))]
        distances, slopes = (np.asarray(lists.flatten(), float) for lists in (distance, slope))
        profiles = Profiles(offsets, distances, slopes, span, width, severity, location, line)
        return ProductRows(profiles, ids.astype(str), group)
