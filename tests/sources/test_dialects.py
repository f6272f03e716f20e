"""One city written in any combination of dialects, containers and parts is read as the same one, or refused; never
as another.

`--hypothesis-profile=thorough` tries 1,000 files.
"""

from __future__ import annotations

import gzip
import io
import re
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from hypothesis import event, given
from hypothesis import strategies as st

from plumbline.core.errors import InputError
from plumbline.params import load_ingest
from plumbline.sources.city.files import point_files
from plumbline.sources.city.in_memory import read_tracks
from plumbline.sources.crs import transformer
from plumbline.sources.points.read import read_points
from plumbline.sources.points.track import Track, concatenate_tracks

BASE = Path(__file__).parents[1] / "fixtures" / "cases" / "base"
POINTS = 60
CRS = "EPSG:3035"
WHOLE = read_points(BASE / "asc.csv").take(np.arange(POINTS))
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
FACTORS = {"mm": 1.0, "cm": 0.1, "m": 0.001}
CODES = ("", "NaN", "NULL", "-999", "-999.9", "-9999", "-32768", "1e20", "-3.4028235e38")
PACKINGS = ("", ".gz", ".zip", "deep.zip", "junk.zip", "members.gz")
"""Also a zip with folders, one with the files that systems and services add, and a gzip of several members."""
OPTIONS = ("format", "track", "moved_m", "raised_m", "separator", "decimal", "min_coherence")
MOVED, RAISED = (3.0, -2.0), 40.0
DECIMALS = {"mm": 1, "cm": 2, "m": 4}


@st.composite
def dialects(draw: st.DrawFn) -> dict[str, Any]:
    """How one file is written."""
    separator = draw(st.sampled_from([",", ";", "\t", "|"]))
    return {
        "separator": separator,
        "decimal": draw(st.sampled_from([".", ","])) if separator != "," else ".",
        "line_end": draw(st.sampled_from(["\n", "\r\n"])),
        "last_end": draw(st.booleans()),
        "behind": draw(st.sampled_from([0, 0, 1, 3])),
        "encoding": draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252"])),
        "packed": draw(st.sampled_from(PACKINGS)),
        "parts": draw(st.sampled_from([1, 1, 2, 3])),
        "given": draw(st.sampled_from(["files", "folder", "pattern"])),
        "options": draw(st.sets(st.sampled_from(OPTIONS))),
        "quoted": draw(st.booleans()),
        "days": draw(st.sampled_from(list(DAYS))),
        "unit": draw(st.sampled_from(list(FACTORS))),
        "positive": draw(st.sampled_from(["towards", "away"])),
        "places": draw(st.sampled_from(["degrees", "EPSG:3035", "EPSG:32633"])),
        "sight": draw(st.sampled_from(["vector", "angles", "left", "columns", "radians"])),
        "ids": draw(st.sampled_from(["own", "ruined", "none", "some"])),
        "code": draw(st.sampled_from(CODES)),
        "share": draw(st.sampled_from([0.0, 0.01, 0.1])),
        "stated": draw(st.booleans()),
        "seed": draw(st.integers(0, 9)),
    }


def write(how: dict[str, Any], folder: Path) -> tuple[list[Path], np.ndarray]:
    """Write the city; its files, by area, and (P, T) where a value is missing."""
    rng = np.random.default_rng(how["seed"])
    holes = rng.random(WHOLE.displacement.shape) < how["share"]
    if 0 < holes.sum() < 3 and how["code"]:
        holes[:3, 1] = True  # a number of which there are one or two is an outlier
    factor = FACTORS[how["unit"]] * (1 if how["positive"] == "towards" else -1)
    columns: dict[str, list[str]] = {"NAME": _ids(how["ids"])}
    x, y, about = _places(how["places"])
    digits = 9 if how["places"] == "degrees" else 3
    columns |= {"X": [f"{value:.{digits}f}" for value in x], "Y": [f"{value:.{digits}f}" for value in y]}
    columns["H"] = [f"{value:.2f}" for value in WHOLE.height]
    sight, extra = _sight(how["sight"])
    columns |= extra
    writes = DAYS[how["days"]]
    for number, day in enumerate(WHOLE.epochs):
        values = [f"{value * factor:.{DECIMALS[how['unit']]}f}" for value in WHOLE.displacement[:, number]]
        columns[writes(day.item())] = [
            how["code"] if hole else value for value, hole in zip(values, holes[:, number], strict=True)
        ]
    order = list(columns)
    rng.shuffle(order)
    described = {**about["columns"], "height": "H", **sight["columns"]}
    if how["ids"] != "none":
        described["point_id"] = "NAME"
    product: dict[str, Any] = {
        "columns": described,
        "units": {"displacement": how["unit"], **sight["units"]},
        "positive": how["positive"],
        "epochs": how["days"],
        **about["more"],
        **sight["more"],
    }
    if how["stated"] and how["code"].lstrip("-")[:1].isdigit():
        product["missing"] = [float(how["code"])]
    product |= _stated(how)
    quality = {"min_coherence": 0.5} if "min_coherence" in how["options"] else {}
    (folder / "params.yaml").write_text(yaml.safe_dump({"ingest": {"products": {"city*": product}, **quality}}))
    (folder / "points").mkdir()
    paths = []
    for number, rows in enumerate(np.array_split(np.arange(POINTS), how["parts"])):
        suffix = how["packed"].removeprefix("deep").removeprefix("junk").removeprefix("members")
        paths.append(folder / "points" / f"city_{number}.csv{suffix}")
        some = {name: [columns[name][row] for row in rows] for name in order}
        paths[-1].write_bytes(_packed(how["packed"], _text(how, some)))
    return paths, holes


def _stated(how: dict[str, Any]) -> dict[str, Any]:
    """Facts that the options state of the points."""
    said = {
        "format": "columns",
        "moved_m": list(MOVED),
        "raised_m": RAISED,
        "separator": {"\t": "tab"}.get(how["separator"], how["separator"]),
        "decimal": how["decimal"],
    }
    return {name: said[name] for name in how["options"] & said.keys()}


def _ids(kind: str) -> list[str]:
    own = [str(name) for name in WHOLE.point_id]
    return {"own": own, "none": own, "ruined": ["1.23457E+14"] * POINTS, "some": ["", *own[1:]]}[kind]


def _places(kind: str) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    if kind == "degrees":
        x, y = transformer(CRS, "EPSG:4326").transform(WHOLE.easting, WHOLE.northing)
        return x, y, {"columns": {"longitude": "X", "latitude": "Y"}, "more": {}}
    x, y = transformer(CRS, kind).transform(WHOLE.easting, WHOLE.northing)
    return x, y, {"columns": {"easting": "X", "northing": "Y"}, "more": {"crs": kind}}


def _sight(kind: str) -> tuple[dict[str, Any], dict[str, list[str]]]:
    if kind == "vector":
        names = ("los_east", "los_north", "los_up")
        written = {name: [f"{value:.6f}" for value in WHOLE.los[:, axis]] for axis, name in enumerate(names)}
        return {"columns": {name: name for name in names}, "units": {}, "more": {}}, written
    if kind in ("angles", "left"):
        more = {"incidence_deg": INCIDENCE, "heading_deg": HEADING}
        if kind == "left":
            more |= {"heading_deg": (HEADING + 180) % 360, "look": "left"}
        return {"columns": {}, "units": {}, "more": more}, {}
    angles = np.array([INCIDENCE, HEADING])
    incidence, heading = np.radians(angles) if kind == "radians" else angles
    written = {"INC": [f"{incidence:.6f}"] * POINTS, "HEAD": [f"{heading:.6f}"] * POINTS}
    unit = "rad" if kind == "radians" else "deg"
    return {"columns": {"incidence": "INC", "heading": "HEAD"}, "units": {"angle": unit}, "more": {}}, written


def _text(how: dict[str, Any], columns: dict[str, list[str]]) -> bytes:
    def number(text: str) -> str:
        return text.replace(".", how["decimal"])

    rows = [
        [value if name == "NAME" else number(value) for name, value in zip(columns, row, strict=True)]
        for row in zip(*columns.values(), strict=True)
    ]
    quote = '"' if how["quoted"] else ""
    between, end = how["separator"], how["line_end"]
    lines = [between.join(f"{quote}{name}{quote}" for name in columns)]
    for first, *others in rows:
        lines.append(between.join([f"{quote}{first}{quote}", *others]) + between * how["behind"])
    return (end.join(lines) + (end if how["last_end"] else "")).encode(how["encoding"], "replace")


def _packed(kind: str, content: bytes) -> bytes:
    if kind == ".gz":
        return gzip.compress(content, mtime=0)
    if kind == "members.gz":
        half = len(content) // 2
        return gzip.compress(content[:half], mtime=0) + gzip.compress(content[half:], mtime=0)
    if not kind:
        return content
    name = "EGMS/2024 data/city.csv" if kind == "deep.zip" else "city.csv"
    others = ("__MACOSX/._city.csv", "readme.txt", ".DS_Store") if kind == "junk.zip" else ()
    return _zip({name: content} | dict.fromkeys(others, b"\0\5\x16\7"))


def _zip(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


def assert_is_city(track: Track, how: dict[str, Any], holes: np.ndarray) -> None:
    east, north = MOVED if "moved_m" in how["options"] else (0.0, 0.0)
    up = RAISED if "raised_m" in how["options"] else 0.0
    assert len(track) == POINTS
    np.testing.assert_array_equal(track.epochs, WHOLE.epochs)
    np.testing.assert_allclose(track.easting, WHOLE.easting + east, atol=0.02)
    np.testing.assert_allclose(track.northing, WHOLE.northing + north, atol=0.02)
    np.testing.assert_allclose(track.height, WHOLE.height + up, atol=0.006)
    np.testing.assert_allclose(track.los, WHOLE.los, atol=2e-3)
    assert ((np.isnan(track.displacement)) == holes).all()
    np.testing.assert_allclose(track.displacement[~holes], WHOLE.displacement[~holes], atol=0.06)
    if how["ids"] == "own":
        assert track.point_id.tolist() == WHOLE.point_id.tolist()
    if how["parts"] == 1:
        assert len(set(track.point_id)) == POINTS


@given(dialects())
def test_any_combination_is_the_same_city_or_refused(how: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths, holes = write(how, folder)
        given_as = {"files": paths, "folder": [folder / "points"], "pattern": [folder / "points" / "city*"]}
        try:
            ingest = load_ingest(folder / "params.yaml")
            opened = point_files(given_as[how["given"]])
            tracks = read_tracks(opened, ingest.model_copy(update={"crs": CRS}))
        except InputError as error:
            event(f"refused: {re.sub(r'/[^ ]*/', '', str(error))[:60]}")
            return
    event(f"read, {how['packed'] or 'plain'}, {len(tracks)} files")
    assert len(tracks) == how["parts"]
    one = replace(tracks[0], name="city", dropped={})
    assert_is_city(
        concatenate_tracks([replace(own, name="city", dropped={}) for own in (one, *tracks[1:])]), how, holes
    )
