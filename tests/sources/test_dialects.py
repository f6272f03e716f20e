"""One city written in any combination of dialects, containers and parts is read as the same one.

`--hypothesis-profile=thorough` tries 1,000 files.
"""

import gzip
import io
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from hypothesis import given
from hypothesis import strategies as st

from plumbline.params import load_ingest
from plumbline.sources.city.files import point_files
from plumbline.sources.city.in_memory import read_tracks
from plumbline.sources.crs import transformer
from plumbline.sources.points.track import Track, concatenate_tracks
from tests.sources.points.opening import read_points

POINTS = 60
CRS = "EPSG:3035"
WHOLE = read_points(Path(__file__).parents[1] / "fixtures" / "cases" / "base" / "asc.csv").take(np.arange(POINTS))
INCIDENCE, HEADING = 38.0, 350.0
DAYS: dict[str, Callable[[Any], str]] = {
    "D%Y%m%d": lambda day: day.strftime("D%Y%m%d"),
    "%Y-%m-%d": lambda day: day.isoformat(),
    "%d/%m/%Y": lambda day: f"{day.day}/{day.month}/{day.year}",
    "%d%b%Y": lambda day: day.strftime("%d%b%Y").upper(),
    "%Y%j": lambda day: day.strftime("%Y%j"),
    "%Y-%m-%dT%H:%M:%S%z": lambda day: f"{day.isoformat()}T05:30:00Z",
    "{days_since 2019-01-04}": lambda day: str((day - WHOLE.epochs[0].item()).days),
}
UNITS = {"mm": (1.0, 1), "cm": (0.1, 2), "m": (0.001, 4)}
"""Unit -> factor from mm, and decimals."""
CODES = ("", "NaN", "NULL", "-999", "-999.9", "-9999", "-32768", "1e20", "-3.4028235e38")
PACKINGS = ("", ".gz", ".zip", "deep.zip", "junk.zip", "members.gz")
"""Also a zip with folders, one with the files that systems and services add, and a gzip of several members."""
DEGREES, METRES = {"longitude": "X", "latitude": "Y"}, {"easting": "X", "northing": "Y"}
PLACES = {
    crs: transformer(CRS, crs).transform(WHOLE.easting, WHOLE.northing) for crs in ("EPSG:4326", CRS, "EPSG:32633")
}
VECTOR = ("los_east", "los_north", "los_up")
ANGLES = {"incidence": "INC", "heading": "HEAD"}
IN_RADIANS = np.radians([INCIDENCE, HEADING]).tolist()
SIGHTS: dict[str, tuple[dict[str, str], dict[str, Any], dict[str, Any]]] = {
    "vector": ({name: name for name in VECTOR}, {}, dict(zip(VECTOR, WHOLE.los.T, strict=True))),
    "angles": ({}, {"incidence_deg": INCIDENCE, "heading_deg": HEADING}, {}),
    "left": ({}, {"incidence_deg": INCIDENCE, "heading_deg": HEADING - 180, "look": "left"}, {}),
    "deg": (ANGLES, {}, {"INC": INCIDENCE, "HEAD": HEADING}),
    "rad": (ANGLES, {}, {"INC": IN_RADIANS[0], "HEAD": IN_RADIANS[1]}),
}
"""Line of sight -> roles of columns, what is stated, and the columns."""
IDS = [str(name) for name in WHOLE.point_id]
NAMES = {"own": IDS, "none": IDS, "ruined": ["1.23457E+14"] * POINTS, "some": ["", *IDS[1:]]}
MOVED, RAISED = (3.0, -2.0), 40.0


@st.composite
def dialects(draw: st.DrawFn) -> dict[str, Any]:
    """How one file is written."""
    ways = {
        "separator": [",", ";", "\t", "|"],
        "decimal": [".", ","],
        "line_end": ["\n", "\r\n"],
        "last_end": [True, False],
        "behind": [0, 0, 1, 3],
        "encoding": ["utf-8", "utf-8-sig", "utf-16", "cp1252"],
        "packed": PACKINGS,
        "parts": [1, 1, 2, 3],
        "given": ["points", "points/city*", "points/city_0.csv*"],
        "quote": ["", '"'],
        "days": list(DAYS),
        "unit": list(UNITS),
        "positive": ["towards", "away"],
        "places": list(PLACES),
        "sight": list(SIGHTS),
        "ids": list(NAMES),
        "code": CODES,
        "share": [0.0, 0.01, 0.1],
        "stated": [True, False],
        "seed": range(10),
    }
    how = {name: draw(st.sampled_from(values)) for name, values in ways.items()}
    how["options"] = draw(st.sets(st.sampled_from(["format", "moved_m", "raised_m", "separator", "decimal"])))
    if how["separator"] == ",":
        how["decimal"] = "."
    if how["given"].endswith(".csv*"):
        how["parts"] = 1
    return how


def write(how: dict[str, Any], folder: Path) -> np.ndarray:
    """Write the city and its parameters; (P, T) where a value is missing."""
    rng = np.random.default_rng(how["seed"])
    holes = rng.random(WHOLE.displacement.shape) < how["share"]
    if 0 < holes.sum() < 3 and how["code"]:
        holes[:3, 1] = True  # a number of which there are one or two is an outlier
    factor, decimals = UNITS[how["unit"]]
    factor *= 1 if how["positive"] == "towards" else -1
    roles, stated, sight = SIGHTS[how["sight"]]
    is_degrees = how["places"] == "EPSG:4326"
    numbers = dict(zip("XY", PLACES[how["places"]], strict=True)) | {"H": WHOLE.height, **sight}
    columns = {"NAME": NAMES[how["ids"]]}
    columns |= {name: [f"{value:.9f}" for value in np.broadcast_to(values, POINTS)] for name, values in numbers.items()}
    for day, series, missing in zip(WHOLE.epochs, WHOLE.displacement.T, holes.T, strict=True):
        written = [f"{value * factor:.{decimals}f}" for value in series]
        cells = [how["code"] if hole else cell for cell, hole in zip(written, missing, strict=True)]
        columns[DAYS[how["days"]](day.item())] = cells
    order = list(columns)
    rng.shuffle(order)
    columns = {name: columns[name] for name in order}
    own_ids = {} if how["ids"] == "none" else {"point_id": "NAME"}
    product: dict[str, Any] = {
        "columns": {**(DEGREES if is_degrees else METRES), "height": "H", **roles, **own_ids},
        "units": {"displacement": how["unit"]} | ({"angle": how["sight"]} if roles == ANGLES else {}),
        "positive": how["positive"],
        "epochs": how["days"],
        **({} if is_degrees else {"crs": how["places"]}),
        **stated,
    }
    if how["stated"] and how["code"].lstrip("-")[:1].isdigit():
        product["missing"] = [float(how["code"])]
    separator = {"\t": "tab"}.get(how["separator"], how["separator"])
    facts = {"format": "columns", "moved_m": list(MOVED), "raised_m": RAISED, "separator": separator}
    facts["decimal"] = how["decimal"]
    product |= {name: facts[name] for name in how["options"]}
    (folder / "params.yaml").write_text(yaml.safe_dump({"ingest": {"products": {"city*": product}}}))
    (folder / "points").mkdir()
    for number, rows in enumerate(np.array_split(np.arange(POINTS), how["parts"])):
        part = {name: [cells[row] for row in rows] for name, cells in columns.items()}
        suffix = how["packed"][how["packed"].find(".") :] if how["packed"] else ""
        (folder / "points" / f"city_{number}.csv{suffix}").write_bytes(packed(how["packed"], text(how, part)))
    return holes


def text(how: dict[str, Any], columns: dict[str, list[str]]) -> bytes:
    between, end, quote = how["separator"], how["line_end"], how["quote"]
    lines = [between.join(f"{quote}{name}{quote}" for name in columns)]
    for row in zip(*columns.values(), strict=True):
        named = zip(columns, row, strict=True)
        first, *others = (cell if name == "NAME" else cell.replace(".", how["decimal"]) for name, cell in named)
        lines.append(between.join([f"{quote}{first}{quote}", *others]) + between * how["behind"])
    return (end.join(lines) + (end if how["last_end"] else "")).encode(how["encoding"], "replace")


def packed(kind: str, content: bytes) -> bytes:
    if not kind.endswith(".zip"):
        cuts = {"": [], ".gz": [content], "members.gz": [content[:999], content[999:]]}[kind]
        return b"".join(gzip.compress(part, mtime=0) for part in cuts) or content
    others = ("__MACOSX/._city.csv", "readme.txt", ".DS_Store") if kind == "junk.zip" else ()
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("EGMS/2024 data/city.csv" if kind == "deep.zip" else "city.csv", content)
        for name in others:
            archive.writestr(name, b"\0\5\x16\7")
    return whole.getvalue()


def assert_is_city(track: Track, how: dict[str, Any], holes: np.ndarray) -> None:
    east, north = MOVED if "moved_m" in how["options"] else (0.0, 0.0)
    up = RAISED if "raised_m" in how["options"] else 0.0
    assert len(track) == POINTS
    np.testing.assert_array_equal(track.epochs, WHOLE.epochs)
    np.testing.assert_allclose(track.easting, WHOLE.easting + east, atol=0.02)
    np.testing.assert_allclose(track.northing, WHOLE.northing + north, atol=0.02)
    np.testing.assert_allclose(track.height, WHOLE.height + up, atol=0.006)
    np.testing.assert_allclose(track.los, WHOLE.los, atol=2e-3)
    np.testing.assert_array_equal(np.isnan(track.displacement), holes)
    np.testing.assert_allclose(track.displacement[~holes], WHOLE.displacement[~holes], atol=0.06)
    if how["ids"] == "own":
        assert track.point_id.tolist() == IDS
    if how["parts"] == 1:
        assert len(set(track.point_id)) == POINTS


@given(dialects())
def test_any_combination_is_the_same_city(how: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        holes = write(how, folder)
        ingest = load_ingest(folder / "params.yaml").model_copy(update={"crs": CRS})
        tracks = read_tracks(point_files([folder / how["given"]]), ingest)
    assert len(tracks) == how["parts"]
    assert_is_city(concatenate_tracks([replace(part, name="city", dropped={}) for part in tracks]), how, holes)
