"""What `plumbline inspect` says of files, readable or not, before a model judges by them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import geopandas
import numpy as np
import pytest

from plumbline.core.console import log
from plumbline.serve.inspect import as_page, look
from plumbline.sources.crs import GLOBE, transformer
from tests.tiny import run_cli

BASE = Path(__file__).parents[2] / "fixtures" / "cases" / "base"
FILES = [BASE / "asc.csv", BASE / "fp.gpkg", BASE / "des.csv"]


def test_points_and_footprints_are_told_apart_and_described() -> None:
    handlers = list(log.handlers)
    found = look(FILES)
    assert log.handlers == handlers
    assert [one.kind for one in found.files] == ["points", "footprints", "points"]
    assert found.is_readable
    assert found.doubts == []
    ascending, footprints, descending = found.files
    for one, seen_from, flown in ((ascending, 260, "ascending"), (descending, 100, "descending")):
        assert one.facts["points"] == 432
        assert one.facts["epochs"] == 70
        days = np.diff(one.track.epochs).astype(int)
        assert list(one.facts["days between epochs"]) == ["median", "mean", "at most"]
        assert one.facts["days between epochs"]["mean"] == round(days.sum() / 69, 1)
        assert one.facts["days between epochs"]["at most"] == days.max()
        assert one.facts["seen from, degrees clockwise from north"] == pytest.approx(seen_from, abs=1)
        assert one.facts["pass of a right-looking satellite"] == flown
        assert one.columns["height"] == "height_ortho"
        assert one.columns["displacements"].startswith("70 columns, 2019")
        assert one.params["format"] == "egms"
    assert footprints.facts["buildings"] == 36
    assert footprints.facts["median area, m²"] == pytest.approx(224, abs=1)
    degrees = geopandas.read_file(BASE / "fp.gpkg").to_crs("EPSG:4326").total_bounds.round(5)
    stated = [footprints.facts[name][end] for end in (0, 1) for name in ("longitude", "latitude")]
    assert stated == degrees.tolist()
    xy = transformer(ascending.track.crs, GLOBE).transform(ascending.track.easting, ascending.track.northing)
    assert ascending.facts["longitude"] == [round(xy[0].min(), 5), round(xy[0].max(), 5)]


def test_a_place_at_180_degrees_is_some_metres_wide() -> None:
    (found,) = look([BASE.parent / "fiji-geojson" / "fp_fj.geojson"]).files
    west, east = found.facts["longitude"]
    assert 0 < east - west < 0.002
    assert (found.facts["repaired"], found.doubts) == (0, [])


def test_a_page_has_the_points_on_the_footprints_three_histories_a_track_and_no_address() -> None:
    page = as_page(look(FILES))
    assert page.count("<circle") >= 864 + 6 * 60
    assert page.count("<path") == 36
    assert page.count("<figure>") == 6
    assert not re.findall(r'(?:src|href)="', page)


def test_what_is_doubtful_is_said_of_its_file_and_of_all(tmp_path: Path) -> None:
    lines = (BASE / "asc.csv").read_text().splitlines()
    for number in range(3, 9):
        cells = lines[number].split(",")
        lines[number] = ",".join([*cells[:-2], "-999", cells[-1]])
    (tmp_path / "asc.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "copy.csv").write_text((BASE / "asc.csv").read_text())
    found = look([tmp_path / "asc.csv", tmp_path / "copy.csv"])
    assert "6 of 30240 displacements are exactly -999" in found.files[0].doubts[0]
    assert not found.files[1].doubts
    assert not found.is_readable
    assert "the same data, and would count twice" in found.doubts[-1]


def test_a_file_that_nobody_reads_is_named_with_what_to_do_and_ends_with_2(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,b,D20200101\n1,2,3\n")
    ended = run_cli("inspect", FILES[0], "table.csv", "--output", "look.json", cwd=tmp_path)
    assert ended.code == 2
    assert "table.csv: not readable" in ended.out
    assert "unknown format" in ended.out
    content = json.loads((tmp_path / "look.json").read_text())
    assert content["readable"] is False
    assert [one["kind"] for one in content["files"]] == ["points", "not readable"]


def test_the_command_writes_a_page_and_refuses_another_name(tmp_path: Path) -> None:
    ended = run_cli("inspect", *FILES, "--output", "look.html", cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert "params.yaml that says the same" in ended.out
    assert re.search(r"days between epochs: median \d+, mean [\d.]+, at most \d+\n", ended.out)
    assert (tmp_path / "look.html").read_text().startswith("<!DOCTYPE html>")
    assert run_cli("inspect", *FILES, "--output", "look.pdf", cwd=tmp_path).code == 2
