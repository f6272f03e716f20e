"""`plumbline predict`: a row for every footprint, or one clear message and no file."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from pathlib import Path

import geopandas
import numpy as np
import pandas as pd
import pyogrio
import pytest
import shapely

from plumbline.core.strain import category
from plumbline.export.package import verify_package
from plumbline.prepare.abstention import STATUSES
from plumbline.serve.columns import COLUMNS, DAMAGE_COLUMNS, JUDGEMENT, OPTIONAL, has_answer
from plumbline.serve.predictions import Outputs, check_outputs, read_predictions
from plumbline.sources.city.in_memory import read_tracks, warn_of_short
from tests.prepare.made import make_track
from tests.serve.map.town import document_in
from tests.sources import make
from tests.tiny import run_cli, run_process

SHARE = ["--damage-rate", "0.3"]
NUMBERS = ("building_id", "status", "n_points", *JUDGEMENT[1:])


@pytest.fixture
def case(city, package, tmp_path):
    """The showcase's files under plain names, which may be harmed, and the package."""
    return Case(city, package, tmp_path)


@pytest.fixture(scope="module")
def plain(city, package, tmp_path_factory) -> Case:
    """The same after a run without options. Tests only read it."""
    case = Case(city, package, tmp_path_factory.mktemp("plain"))
    case.ended = case.run()
    assert case.ended.code == 0, case.ended.err
    return case


@pytest.fixture(scope="module")
def at_share(city, package, tmp_path_factory) -> Case:
    """The same at a given share. Where it is estimated, it may tip over a building that is nearly unsure."""
    case = Case(city, package, tmp_path_factory.mktemp("at_share"))
    case.output, case.more = case.folder / "out.gpkg", SHARE
    answers(case)
    return case


class Case:
    """One call of `plumbline predict`."""

    def __init__(self, city, package: Path, folder: Path) -> None:
        self.folder = folder
        self.points = [folder / "a.csv", folder / "b.csv"]
        for source, target in zip(city.products(), self.points, strict=True):
            shutil.copy(source, target)
        self.buildings = shutil.copy(city.footprints, folder / "f.geojson")
        self.model = package
        self.output = folder / "out.csv"
        self.more: list[object] = []

    def arguments(self) -> list[str]:
        points = [word for path in self.points for word in ("--points", path)]
        words = [*points, "--buildings", self.buildings, "--model", self.model, "--output", self.output, *self.more]
        return ["predict", *map(str, words)]

    def run(self):
        return run_cli(*self.arguments(), cwd=self.folder)

    def process(self, **options):
        return run_process(*self.arguments(), cwd=self.folder, **options)


def answers(case) -> geopandas.GeoDataFrame:
    """The predictions of a run that must succeed."""
    ended = case.run()
    assert ended.code == 0, ended.err
    return read_predictions(case.output)


def left_behind(folder: Path) -> list[str]:
    """Temporary files; those of a writer begin with a dot."""
    return [path.name for path in folder.rglob(".*")]


# What it answers


def test_every_footprint_gets_a_row(plain):
    case, ended = plain, plain.ended
    table = read_predictions(case.output)
    footprints = geopandas.read_file(case.buildings)
    assert tuple(table.columns) == COLUMNS
    assert table["building_id"].tolist() == footprints["building_id"].astype(str).tolist()
    assert set(table["status"]) <= set(STATUSES)
    assert set(table["model_version"]) == {verify_package(case.model).version}
    judged = table["status"] == "ok"
    assert judged.any()
    assert table.loc[judged, [name for name in JUDGEMENT if name not in OPTIONAL]].notna().all(axis=None)
    assert table.loc[judged, "damage_rate"].nunique() == 1
    assert re.search(r"INFO .* damaged.* \(90 % interval .* to .* %\)", ended.err)
    unanswered = [name for name in JUDGEMENT if name not in DAMAGE_COLUMNS]
    assert table.loc[~has_answer(table), unanswered].isna().all(axis=None)
    said = table[judged]
    assert (said["severity_low"] <= said["severity_permille"]).all()
    assert (said["severity_permille"] <= said["severity_high"]).all()
    assert (said["burland_category"] == category(said["severity_permille"])).all()
    assert said[["p_ne", "p_nw", "p_sw", "p_se"]].sum(axis=1).to_numpy() == pytest.approx(1, abs=1e-4)
    assert left_behind(case.folder) == []
    for status, count in table["status"].value_counts().items():
        assert f"{count} {status}" in ended.err


def test_a_geopackage_has_the_scatterers_that_each_judged_building_was_judged_by(at_share):
    case, table = at_share, read_predictions(at_share.output)
    layers = [str(name) for name, _ in pyogrio.list_layers(case.output)]
    assert layers == [
        *("predictions", "not_judged", "moving_areas", "scatterers_a", "scatterers_b", "courses", "layer_styles")
    ]
    courses = pyogrio.read_dataframe(case.output, layer="courses")
    assert list(courses) == ["building_id", "date", "severity_permille", "severity_low", "severity_high"]
    assert set(courses["building_id"]) == set(table.loc[table["severity_rate"].notna(), "building_id"])
    left = geopandas.read_file(case.output, layer="not_judged")
    assert left["building_id"].tolist() == table.loc[table["status"] != "ok", "building_id"].tolist()
    rows = [geopandas.read_file(case.output, layer=f"scatterers_{name}") for name in ("a", "b")]
    assert [set(part["track"]) for part in rows] == [{"a"}, {"b"}]
    assert all(part.crs == table.crs for part in rows)
    count = pd.concat(rows)["building_id"].value_counts()
    answered = table[has_answer(table)].set_index("building_id")
    assert count.sort_index().to_dict() == answered["n_points"].sort_index().to_dict()


def upright(table):
    """Those that lean too far are judged only if damage was found, which small differences may decide."""
    return table["tilt_mm_m"] < 9


def test_epochs_without_any_value_are_as_if_they_were_not_there(case):
    """Else changes would be told of a time that nobody has looked at."""
    tables = [pd.read_csv(path, dtype=str) for path in case.points]
    days = [[name for name in table if re.fullmatch(r"\d{8}", name)] for table in tables]
    empty = [[*some[:6], *some[10:12], *some[-6:]] for some in days]
    for table, names, path in zip(tables, empty, case.points, strict=True):
        table.assign(**dict.fromkeys(names, "")).to_csv(path, index=False)
    ended = case.run()
    assert ended.code == 0, ended.err
    assert "no point has a value at" in ended.err
    there = case.output.read_bytes()
    for table, names, path in zip(tables, empty, case.points, strict=True):
        table.drop(columns=names).to_csv(path, index=False)
    assert "no point has a value at" not in case.run().err
    assert case.output.read_bytes() == there


def test_a_damaged_building_is_judged_where_a_quadrant_is_probable_enough(case):
    rate = ["--damage-rate", "0.8"]
    case.more = ["--min-quadrant-confidence", "0", *rate]
    loose = answers(case)
    case.more = [*rate, "--min-quadrant-confidence", "0.8", "--map", case.folder / "map.html"]
    ended = case.run()
    table = read_predictions(case.output)
    unsure = (table["reason"] == "unsure_where").to_numpy()
    assert 0 < unsure.sum() < (loose["p_damaged"] >= 0.5).sum()
    # Who is unsure where keeps the answer, and the others are what they were.
    changed = ["status", "reason"]
    pd.testing.assert_frame_equal(table[~unsure], loose[~unsure])
    pd.testing.assert_frame_equal(table[unsure].drop(columns=changed), loose[unsure].drop(columns=changed))
    assert f"INFO {unsure.sum()} of the insufficient_points may be damaged, but no quadrant of theirs" in ended.err
    drawn = document_in(case.folder / "map.html")["buildings"]["features"]
    assert sum(one["properties"].get("reason_group") == "unsure" for one in drawn) == unsure.sum()
    case.more = ["--min-quadrant-confidence", "1.5"]
    assert case.run().code == 2


def test_each_model_of_the_package_may_be_asked(case, at_share):
    found, case.output = {}, case.folder / "out.gpkg"
    for artifact in ("pruned", "int8"):
        case.more = [*SHARE, "--artifact", artifact]
        found[artifact] = answers(case)
    pd.testing.assert_frame_equal(found["pruned"], read_predictions(at_share.output))
    judged = found["pruned"]["status"] == "ok"
    same = found["int8"]["status"] == found["pruned"]["status"]
    assert same[upright(found["pruned"])].all()
    judged &= same
    near = found["int8"]["severity_permille"][judged] - found["pruned"]["severity_permille"][judged]
    assert 0 < near.abs().max() < 0.3


def test_zipped_products_of_a_folder_and_other_order_answer_the_same(case, plain):
    wanted = read_predictions(plain.output)
    zipped = [case.folder / "points" / f"{path.stem}.zip" for path in case.points]
    zipped[0].parent.mkdir()
    for path, archive in zip(case.points, zipped, strict=True):
        make.zipped(archive, {path.name: path.read_bytes(), "about.xml": "<x/>"})
    case.points = [zipped[0].parent]
    pd.testing.assert_frame_equal(answers(case), wanted)
    case.points = zipped
    case.points.reverse()
    numbers = ["n_points", "severity_permille", "p_ne", "p_sw"]
    pd.testing.assert_frame_equal(answers(case)[numbers], wanted[numbers], atol=1e-3)


def test_a_given_damage_rate_and_a_base_map_are_taken(case):
    drawn, tiles = case.folder / "map.html", "https://tiles.example.org/{z}/{x}/{y}.png"
    case.more = ["--damage-rate", "0.02", "--map", drawn, "--basemap", tiles]
    ended = case.run()
    table = read_predictions(case.output)
    assert (table.loc[table["status"] == "ok", "damage_rate"] == 0.02).all()
    words = "2 % of the buildings are taken to be damaged, as given."
    assert f"INFO {words} p_damaged is 0.9 or more for" in ended.err
    document = document_in(drawn)
    assert words in document["footer"]
    assert document["basemap"] == tiles


def test_causes_are_read_and_what_they_tell_is_logged(case):
    tunnel = geopandas.read_file(case.buildings).to_crs("EPSG:3035").geometry.centroid.iloc[[0, 1]]
    lines = [shapely.LineString(tunnel.to_list()), shapely.Point(0, 0)]
    columns = {"name": ["tunnel", "far"], "until": [None, "1999-01-01"]}
    causes = geopandas.GeoDataFrame(columns, geometry=lines, crs=3035)
    causes.to_file(case.folder / "causes.gpkg")
    case.output = case.folder / "out.gpkg"
    case.more = ["--causes", case.folder / "causes.gpkg", "--damage-rate-by", "city", "--map", case.folder / "map.html"]
    ended = case.run()
    assert ended.code == 0, ended.err
    assert re.search(r"INFO tunnel\b.* judged buildings", ended.err)
    assert "INFO far: left out, as it is up to 1999-01-01" in ended.err
    (row,) = geopandas.read_file(case.output, layer="causes").to_crs("EPSG:3035").itertuples()
    assert row.geometry.equals_exact(lines[0], 0.01)
    assert f"{row.judged_buildings} judged buildings" in ended.err
    (drawn,) = document_in(case.folder / "map.html")["causes"]["features"]
    assert (drawn["properties"]["name"], drawn["geometry"]["type"]) == ("tunnel", "LineString")
    check_outputs(Outputs(case.output), [], case.model)  # the layer is known, and the file would be replaced


def test_all_is_worked_in_the_crs_that_params_name(case, at_share):
    plain = read_predictions(at_share.output)
    (case.folder / "utm.yaml").write_text("ingest: {crs: EPSG:32631}\n")
    case.more = [*SHARE, "--params", case.folder / "utm.yaml"]
    case.output = case.folder / "utm.gpkg"
    there = answers(case)
    assert there.crs == "EPSG:32631"
    assert (there["status"] == plain["status"])[upright(plain)].all()
    apart = there.geometry.to_crs("EPSG:3035").centroid.distance(plain.geometry.centroid)
    assert apart.max() < 0.1


def test_patterns_that_fit_no_file_are_said(case):
    """A misspelt one would give other names to buildings, or move no points, without a word."""
    params = 'ingest: {products: {"a_typo*": {moved_m: [5, 5]}}, footprints: {"g*": {id_column: building_id}}}'
    (case.folder / "p.yaml").write_text(params)
    case.more = ["--params", case.folder / "p.yaml"]
    ended = case.run()
    assert ended.code == 0, ended.err
    assert "'a_typo*'" in ended.err
    assert "('g*')" in ended.err


# What it refuses


def rewrite_buildings(case, change, suffix="gpkg"):
    footprints = change(geopandas.read_file(case.buildings).to_crs("EPSG:3035"))
    case.buildings = case.folder / f"g.{suffix}"
    with warnings.catch_warnings(action="ignore"):  # of the names that a Shapefile cuts
        footprints.to_file(case.buildings)


def test_points_beside_the_footprints_are_told_of_and_can_be_moved(case, plain):
    there = read_predictions(plain.output)
    rewrite_buildings(case, lambda frame: frame.assign(geometry=frame.translate(12, -9)))
    ended = case.run()
    assert re.search(r"\d+ m west and \d+ m north of the footprints", ended.err)
    (line,) = re.findall(r"ingest: (\{products: .*\}\})", ended.err)
    (moved,) = re.findall(r"moved_m: (\[.*\])", line)
    assert json.loads(moved) == pytest.approx([12, -9], abs=1)  # a hundred points tell no more
    (case.folder / "moved.yaml").write_text(f"ingest: {line.replace(moved, '[12, -9]')}\n")
    case.more = ["--params", case.folder / "moved.yaml"]
    again = answers(case)
    assert again["status"].tolist() == there["status"].tolist()
    near = again["severity_permille"] - there["severity_permille"]
    assert near.abs().max() < 0.02


def move_away(case):
    rewrite_buildings(case, lambda frame: frame.set_geometry(frame.translate(50_000, 0)))


def change_a_byte(case):
    case.model = shutil.copytree(case.model, case.folder / "package")
    path = case.model / "model.onnx"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


FAILURES = {
    "no overlap": (move_away, ["g.gpkg", "a.csv", "No overlap"]),
    "changed model": (change_a_byte, ["package/model.onnx", "changed since it was released"]),
    "missing footprints": ({"buildings": "gone.geojson"}, ["gone.geojson", "no such file"]),
    "output over the points": ({"output": "a.csv"}, ["a.csv", "one of the inputs"]),
    "map is no html": ({"more": ["--map", "map.png"]}, ["map.png", ".html"]),
    "base map without map": ({"more": ["--basemap", "https://t/{z}/{x}/{y}"]}, ["--basemap", "--map"]),
    "base map is no address": (
        {"more": ["--map", "m.html", "--basemap", "tiles.example.org"]},
        ["--basemap tiles.example.org", "{x}"],
    ),
    "unknown artifact": ({"more": ["--artifact", "float64"]}, ["package", "'float64'", "pruned (model.onnx)"]),
    "no such causes": ({"more": ["--causes", "none.gpkg"]}, ["none.gpkg: no such file"]),
}
"""What is changed of a call, and words of the message."""


@pytest.mark.parametrize("failure", FAILURES)
def test_bad_input_is_one_clear_message_and_no_file(case, failure):
    harm, words = FAILURES[failure]
    vars(case).update(harm) if isinstance(harm, dict) else harm(case)
    before = {path: path.read_bytes() for path in case.folder.rglob("*") if path.is_file()}
    ended = case.run()
    assert ended.code == 2, ended.err
    messages = [line for line in ended.err.splitlines() if line.startswith("ERROR")]
    assert len(messages) == 1, ended.err
    message = ended.err[ended.err.index("ERROR") :]
    for word in words:
        assert word in message, message
    assert "Traceback" not in ended.err
    assert ended.out == ""
    assert {path: path.read_bytes() for path in case.folder.rglob("*") if path.is_file()} == before


@pytest.mark.heavy
def test_the_real_process_answers_as_the_command_called_here(case, plain):
    """And without torch, which would take a third of its time and of its memory."""
    here = read_predictions(plain.output)
    (case.folder / "torch.py").write_text("raise ImportError('not needed to predict')")  # in front of the real one
    case.output = case.folder / "out.gpkg"
    ended = case.process()
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == ""
    pd.testing.assert_frame_equal(read_predictions(case.output)[list(NUMBERS)], here[list(NUMBERS)], atol=1e-4)
    assert left_behind(case.folder) == []


# Odd, but legal


DAYS = [f"{day}".replace("-", "") for day in np.arange("2020-01-01", "2020-12-31", 12, dtype="datetime64[D]")]
SEEN_FROM_WEST, SEEN_FROM_EAST = ("0.594", "-0.120", "0.795"), ("-0.594", "-0.120", "0.795")


def product(path, position, series, los=SEEN_FROM_WEST, epochs=DAYS):
    """An EGMS product with points at `position` (N, 2), m, and these displacements (N, T), mm."""
    cells = make.rows(len(position), epochs=tuple(epochs))
    for cell, (x, y), values in zip(cells, position, series, strict=True):
        cell |= {"easting": f"{make.EAST + x:.2f}", "northing": f"{make.NORTH + y:.2f}", "temporal_coherence": "0.8"}
        cell |= dict(zip(("los_east", "los_north", "los_up"), los, strict=True))
        cell |= {day: "" if np.isnan(value) else f"{value:.1f}" for day, value in zip(epochs, values, strict=True)}
    path.write_text(make.text(cells), encoding="utf-8")
    return path


def scatter(count, width, depth=None):
    rng = np.random.default_rng(count)
    return rng.uniform(-0.5, 0.5, (count, 2)) * (width, depth or width)


def noise(count, epochs=DAYS, missing=0.0):
    rng = np.random.default_rng(count)
    series = rng.normal(0, 2, (count, len(epochs)))
    series[rng.random(series.shape) < missing] = np.nan
    return series


def house(width, depth=None):
    depth = depth or width
    return shapely.box(-width / 2, -depth / 2, width / 2, depth / 2)


ODD = {
    "one track": ([(scatter(20, 12), noise(20))], [house(12)]),
    "points at one place": ([(np.zeros((12, 2)), noise(12))], [house(12)]),
    "a house of 1 m": ([(scatter(8, 1), noise(8))], [house(1)]),
    "a house of 500 m": ([(scatter(400, 500), noise(400))], [house(500)]),
    "nothing moves": ([(scatter(20, 12), np.zeros((20, len(DAYS))))], [house(12)]),
    "moves by metres": ([(scatter(20, 12), 2000 * noise(20))], [house(12)]),
    "two houses on one place": ([(scatter(20, 12), noise(20))], [house(12), house(12)]),
    "a courtyard": ([(scatter(40, 30), noise(40))], [house(30) - house(20)]),
    "a house in two parts": (
        [(scatter(60, 30), noise(60))],
        [shapely.MultiPolygon([shapely.box(-15, -15, -5, 15), shapely.box(5, -15, 15, 15)])],
    ),
}


ABSTAINS = {"moves by metres", "points at one place", "a house of 1 m", "a house of 500 m"}
DRAWN = {"points at one place", "a house in two parts"}
"""Of what a map could make something else; to draw one takes longer than all the rest."""


@pytest.mark.parametrize("name", ODD)
def test_odd_but_legal_input_gets_an_answer(case, name):
    tracks, houses = ODD[name]
    case.points = [
        product(case.folder / f"t{i}.csv", position, series, (SEEN_FROM_WEST, SEEN_FROM_EAST)[i % 2], DAYS)
        for i, (position, series) in enumerate(tracks)
    ]
    polygons = [shapely.transform(one, lambda xy: xy + np.array([make.EAST, make.NORTH])) for one in houses]
    case.buildings = case.folder / "odd.gpkg"
    geopandas.GeoDataFrame(geometry=polygons, crs="EPSG:3035").to_file(case.buildings)
    if name in DRAWN:
        case.more = ["--map", case.folder / "map.html"]
    ended = case.run()
    assert ended.code == 0, ended.err
    assert "Warning" not in ended.err  # of numpy, about a division by zero
    table = read_predictions(case.output)
    assert table["building_id"].tolist() == [f"B{number:07d}" for number in range(1, len(houses) + 1)]
    if name in ABSTAINS:
        assert table["status"].tolist() == ["insufficient_points"]
    said = table[table["status"] == "ok"]
    assert np.isfinite(said[["severity_low", "severity_permille", "severity_high"]].to_numpy()).all()


def test_where_few_are_judged_the_reasons_are_counted(case):
    rewrite_buildings(
        case, lambda frame: frame.set_geometry(frame.geometry.where(frame.index < 3, frame.translate(900)))
    )
    case.points = case.points[:1]
    ended = case.run()
    assert "All points are seen from one side" in ended.err
    table = read_predictions(case.output)
    judged, empty = (table["status"] == "ok").sum(), (table["n_points"] == 0).sum()
    assert f"{judged} of {len(table)} buildings were judged. {empty} have no scatterer on them" in ended.err
    assert "below 2 or above 300 m" in ended.err


def test_a_product_without_a_displacement_is_said_to_be_one(case):
    table = pd.read_csv(case.points[1], dtype=str)
    table.assign(**dict.fromkeys([name for name in table if name.isdigit()], "")).to_csv(case.points[1], index=False)
    ended = case.run()
    assert ended.code == 0
    assert re.search(r"WARNING .*b\.csv: no displacement in any of its \d+ points", ended.err)
    case.output.unlink()
    del case.points[0]
    ended = case.run()
    assert ended.code == 2
    assert re.search(r"ERROR .*b\.csv: no displacement", ended.err)
    assert not case.output.exists()


def test_tracks_whose_files_share_a_name_are_told_apart_by_their_folders(case):
    for number, folder in enumerate(("asc", "desc")):
        (case.folder / folder).mkdir()
        case.points[number] = case.points[number].rename(case.folder / folder / "ts.csv")
    assert [track.name for track in read_tracks(case.points)] == ["asc/ts", "desc/ts"]


@pytest.mark.parametrize(("days", "is_short"), [(364, True), (365, False)])
def test_less_than_a_year_is_said_to_be_too_short(caplog, days, is_short):
    first = np.datetime64("2020-01-01")
    place, series = np.zeros((1, 2)), np.zeros((1, 2))
    warn_of_short([make_track("t", place, [0.0], (0, 0, 1), series, epochs=np.array([first, first + days]))])
    assert (f"observed for {days} days" in caplog.text) == is_short
