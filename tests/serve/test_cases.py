"""Files as people have them: each gives the answer of the plain files of the same city, or says what it lacks."""

from __future__ import annotations

import csv
import shutil
import tempfile
from functools import cache
from pathlib import Path

import h5py
import numpy as np
import pytest
import yaml

from tests.tiny import run_cli

CASES = Path(__file__).parents[1] / "fixtures" / "cases"
BASE = CASES / "base"
SEVERITY_PERMILLE = 0.05
"""Where numbers are written with fewer digits."""


def predict(points: list[Path], here: Path, *options: object) -> tuple[dict[str, dict[str, str]], str]:
    """Answers by building, and what was said."""
    out = here / "out.csv"
    given = [word for path in points for word in ("--points", path)]
    ended = run_cli("predict", *given, "--buildings", BASE / "fp.gpkg", "--output", out, *options, cwd=here)
    assert ended.code == 0, ended.err
    with out.open(encoding="utf-8") as stream:
        return {row["building_id"]: row for row in csv.DictReader(stream)}, ended.err


@cache
def plain() -> dict[str, dict[str, str]]:
    """The answers of the plain files."""
    with tempfile.TemporaryDirectory() as here:
        return predict([BASE / "asc.csv", BASE / "des.csv"], Path(here))[0]


def assert_same(found: dict[str, dict[str, str]], wanted: dict[str, dict[str, str]]) -> None:
    assert found.keys() == wanted.keys()
    for name, row in wanted.items():
        assert found[name]["status"] == row["status"], name
        if float(row["burland_category"]):  # of sound ones no quadrant is told
            assert found[name]["quadrant"] == row["quadrant"], name
        assert abs(float(found[name]["severity_permille"]) - float(row["severity_permille"])) < SEVERITY_PERMILLE, name


@pytest.mark.parametrize(
    ("folder", "stem", "said"),
    [
        ("trailing-separator", "trail", None),
        ("spreadsheet-ids", "xid", "all are numbered anew"),
    ],
)
def test_a_table_of_another_kind_gives_the_same_answer(
    tmp_path: Path, folder: str, stem: str, said: str | None
) -> None:
    points = [CASES / folder / f"{stem}_{track}.csv" for track in ("asc", "des")]
    params = yaml.safe_load((CASES / folder / "params.yaml").read_text(encoding="utf-8"))
    params["ingest"]["crs"] = "EPSG:3035"  # as the plain files: on another grid the frames of buildings are others
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")
    found, told = predict(points, tmp_path, "--params", tmp_path / "params.yaml")
    assert_same(found, plain())
    assert told.count("WARNING") == (2 if said else 0)
    assert said is None or told.count(said) == 2


def test_an_azimuth_in_another_unit_and_convention_gives_the_answer_of_the_usual_one(tmp_path: Path) -> None:
    written = CASES / "mintpy-azimuth-radians"
    usual = tmp_path / "usual"
    shutil.copytree(written, usual)
    for track in ("asc", "des"):
        with h5py.File(usual / track / "inputs" / "geometryGeo.h5", "a") as file:
            file["azimuthAngle"][...] = 90 - float(file.attrs["HEADING"])
    answers = [predict([at / one / "timeseries.h5" for one in ("asc", "des")], tmp_path) for at in (written, usual)]
    assert_same(answers[0][0], answers[1][0])
    assert answers[0][1].count("(radians, anti-clockwise from east)") == 2


def test_a_heading_that_is_the_direction_of_looking_is_refused_with_the_likely_one(tmp_path: Path) -> None:
    case = CASES / "industry-shapefile"
    given = ["--points", case / "ts_asc.zip", "--points", case / "ts_des.zip", "--output", "out.csv"]
    said = "ts_asc.zip: {incidence_deg: 38, heading_deg: 80}\n    ts_des.zip: {incidence_deg: 36, heading_deg: 280}"
    (tmp_path / "p.yaml").write_text(f"ingest:\n  products:\n    {said}\n")
    ended = run_cli("predict", *given, "--buildings", BASE / "fp.gpkg", "--params", "p.yaml", cwd=tmp_path)
    assert ended.code == 2
    assert "heading_deg 80" in ended.err
    assert "heading_deg is 350" in ended.err


@pytest.mark.parametrize("code", ["-999.9"])
def test_a_number_that_stands_for_missing_is_no_displacement(tmp_path: Path, code: str) -> None:
    rng = np.random.default_rng(0)
    files = {}
    for track in ("asc", "des"):
        header, *rows = list(csv.reader((BASE / f"{track}.csv").open(encoding="utf-8")))
        days = [index for index, name in enumerate(header) if name.isdigit()]
        holes = rng.random((len(rows), len(days))) < 0.1
        for name, cell in (("code", code), ("empty", "")):
            path = files.setdefault(name, tmp_path / name) / f"{track}.csv"
            path.parent.mkdir(exist_ok=True)
            with path.open("w", encoding="utf-8", newline="") as stream:
                writer = csv.writer(stream)
                writer.writerow(header)
                for row, hole in zip(rows, holes, strict=True):
                    gone = {days[index] for index in np.flatnonzero(hole)}
                    writer.writerow([cell if index in gone else value for index, value in enumerate(row)])
    found, empty = (
        predict([files[name] / f"{track}.csv" for track in ("asc", "des")], tmp_path) for name in ("code", "empty")
    )
    assert_same(found[0], empty[0])
    assert found[1].count("taken as missing") == 2
