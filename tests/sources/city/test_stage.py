import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from plumbline.core.files import sha256_folder
from plumbline.params import Footprints, Ingest, Product
from plumbline.sources.city import ingest as stage
from plumbline.sources.city import parts
from plumbline.sources.city.files import find_files
from plumbline.sources.city.ingest import ingest
from plumbline.sources.city.ingested import open_ingested
from plumbline.sources.city.parts import plan_parts
from plumbline.sources.points import read
from tests.refusals import refuses, warned
from tests.sources.make import egms, rows, squares, text, zipped

LABELS = "building_id,severity_permille,quadrant\nH0,1.2,NE\nH2,0.1,\n"


def seen_from(east: float) -> list[dict[str, str]]:
    """Four rows with another line of sight."""
    up = (1 - east**2) ** 0.5
    return [{**row, "los_east": f"{east:.3f}", "los_north": "0", "los_up": f"{up:.3f}"} for row in rows(4)]


@pytest.fixture
def city(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # finished portions are kept below the working directory
    folder = tmp_path / "raw" / "town"
    folder.mkdir(parents=True)
    egms(folder / "ascending.csv")
    zipped(folder / "descending.zip", {"d.xml": "<x/>", "d.csv": text(seen_from(-0.62))})
    squares().to_crs("EPSG:4326").to_file(folder / "footprints.geojson")
    (folder / "labels.csv").write_text(LABELS)
    (folder / "truth.csv").write_text("what,the,simulation,knows\n")
    (folder / "README.md").write_text("about")
    return folder


def test_layer_and_ids_of_footprints_may_be_stated(city, tmp_path):
    squares().rename(columns={"building_id": "parcel"}).to_file(city / "f.gpkg", layer="houses")
    squares()[:1].rename(columns={"building_id": "parcel"}).to_file(city / "f.gpkg", layer="roofs", mode="a")
    (city / "footprints.geojson").unlink()
    with refuses("layer.ambiguous", "f.gpkg", "ingest.footprints"):
        ingest([city], Ingest(), tmp_path / "out")
    stated = {"other*": Footprints(layer="roofs"), "f.*": Footprints(layer="houses", id_column="parcel")}
    ingest([city], Ingest(footprints=stated), tmp_path / "out")
    (town,) = open_ingested(tmp_path / "out")
    assert town.buildings()["building_id"].tolist() == ["H0", "H1", "H2"]


LINES = json.dumps({"type": "Feature", "geometry": None}) + "\n"
OUTLINES = 'building_id,geometry\nH0,"SRID=3035;POLYGON ((0 0, 1 0, 1 1, 0 0))"\n'


@pytest.mark.parametrize(
    ("name", "content"),
    [("f.geojson.gz", "{}"), ("f.csv.gz", LINES), ("outlines.csv.gz", OUTLINES), ("outlines.csv", OUTLINES)],
)
def test_a_packed_csv_is_a_product_and_lines_of_json_or_outlines_are_footprints(city, name, content):
    for path in (city / "ascending.csv", city / "footprints.geojson"):
        path.unlink()
    (city / "ascending.csv.gz").write_bytes(gzip.compress(text(rows()).encode()))
    (city / name).write_bytes(gzip.compress(content.encode()) if name.endswith("gz") else content.encode())
    files = find_files(city)
    assert [path.name for path in files.products] == ["ascending.csv.gz", "descending.zip"]
    assert files.footprints.name == name


def test_what_is_stated_is_of_the_users_own_files_and_not_of_simulated_ones(city, tmp_path):
    simulated = tmp_path / "data" / "simulate" / "cities" / "other"
    shutil.copytree(city, simulated)
    ingest([simulated], Ingest(), tmp_path / "plain")
    used_by_others = Product(incidence_deg=39, heading_deg=-10)  # refused of an EGMS product
    stated = Ingest(
        products={"asc*": used_by_others, "*": Product(moved_m=(-9, 6))}, footprints={"*": Footprints(id_column="none")}
    )
    ingest([simulated], stated, tmp_path / "same")
    assert sha256_folder(tmp_path / "same") == sha256_folder(tmp_path / "plain")
    with refuses("products.unused_setting", "ascending.csv"):
        ingest([city], stated, tmp_path / "out")


def test_heights_from_another_zero_are_told_of(city, tmp_path, caplog):
    """Many squares of 50 m: a row of points on each, and the second product 40 m above the first."""
    for name, up, east in (("ascending", 0, 0.6), ("b", 40, -0.6)):
        seen = {"temporal_coherence": "0.9", "height_ortho": f"{20 + up}", "los_east": f"{east}"}
        cells = [{**row, **seen, "pid": f"{name}{number}"} for number, row in enumerate(rows(80))]
        (city / f"{name}.csv").write_text(text([{**row, "los_north": "0", "los_up": "0.8"} for row in cells]))
    (city / "descending.zip").unlink()
    ingest([city], Ingest(), tmp_path / "out")
    assert len(warned(caplog, "heights.other_datum", "b.csv: its heights are 40.0 m larger")) == 1
    caplog.clear()
    ingest([city], Ingest(products={"b.csv": Product(raised_m=-30)}), tmp_path / "raised")
    assert warned(caplog, "heights.other_datum", "10.0 m larger", "raised_m: -40.0, and not -30,")


def test_displacements_of_an_improbable_size_are_told_of_once_a_product(city, tmp_path, monkeypatch, caplog):
    cells = many(100)
    for row in cells:
        row |= {name: f"{float(cell) / 1e5:.7f}" for name, cell in row.items() if name.isdigit()}
    (city / "ascending.csv").write_text(text(cells))
    monkeypatch.setattr(read, "PART_BYTES", 5_000)
    ingest([city], Ingest(), tmp_path / "out")
    assert len(warned(caplog, "points.unlikely_unit")) == 1
    assert warned(caplog, "points.unlikely_unit", "ascending.csv", "0.02 mm")


def test_a_city_becomes_three_tables_and_a_report(city, tmp_path):
    ingest([city], Ingest(min_coherence=0.55), tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["town"]
    (town,) = open_ingested(tmp_path / "out")
    tracks = town.tracks()
    assert [(track.name, len(track)) for track in tracks] == [("ascending", 5), ("descending", 3)]
    np.testing.assert_array_equal(tracks[1].displacement[:, 0], np.array([1.0, 2.0, 3.0], np.float32))
    assert town.buildings().crs == "EPSG:3035"
    assert town.buildings()["building_id"].tolist() == ["H0", "H1", "H2"]
    assert town.labels()["quadrant"].tolist() == ["NE", ""]
    report = town.about
    assert (report["footprints"], report["buildings"], report["labelled"]) == ("footprints.geojson", 3, 2)
    assert [track["product"] for track in report["tracks"]] == ["ascending.csv", "descending.zip"]
    track = report["tracks"][0]
    assert (track["points_read"], track["points"], track["dropped"]) == (6, 5, {"min_coherence": 1})
    assert (track["first_epoch"], track["last_epoch"], track["epochs"]) == ("2020-01-03", "2020-02-02", 4)
    assert track["missing_share"] == 0


def test_each_rule_of_the_quality_filter_counts_what_it_drops(city, tmp_path):
    cells = rows(6)
    for number, row in enumerate(cells):
        row["rmse_ts"] = "" if number == 5 else f"{number}.5"
    (city / "ascending.csv").write_text(text(cells))
    ingest([city], Ingest(min_coherence=0.55, max_rmse_mm=2.5), tmp_path / "out")
    track = open_ingested(tmp_path / "out")[0].about["tracks"][0]
    # Of 0.50 ... 0.75 one is below; of 1.5, 2.5, 3.5, 4.5 and an unknown error two are above.
    assert track["dropped"] == {"min_coherence": 1, "max_rmse_mm": 2}
    assert (track["points_read"], track["points"]) == (6, 3)


def many(count: int) -> list[dict[str, str]]:
    """Points all over an area of tiles, some with an identifier that stands before."""
    cells = rows(count)
    rng = np.random.default_rng(0)
    for row in cells:
        row["easting"] = f"{4_598_000 + rng.uniform(0, 900):.2f}"
        row["temporal_coherence"] = "0.8"
        row["northing"] = f"{1_739_000 + rng.uniform(0, 900):.2f}"
    for number in range(7, count, 50):
        cells[number] |= {name: cells[number - 7][name] for name in ("pid", "easting", "northing")}
    return cells


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_parts_tiles_and_processes_change_nothing(city, tmp_path, monkeypatch, workers):
    (city / "ascending.csv").write_text(text(many(250)))
    ingest([city], Ingest(), tmp_path / "whole", 1)
    monkeypatch.setattr(read, "PART_BYTES", 10_000)
    monkeypatch.setattr(parts, "SPILL_BYTES", 500)
    monkeypatch.setattr(stage, "WORTHWHILE_BYTES", 0)
    ingest([city], Ingest(tile_m=200), tmp_path / "parts", workers)
    (whole,), (tiled,) = (open_ingested(tmp_path / name) for name in ("whole", "parts"))
    assert len(whole.about["tiles"]) < 5 < len(tiled.about["tiles"])
    for key in ("buildings", "labelled", "crs"):
        assert whole.about[key] == tiled.about[key]
    assert whole.about["tracks"] == tiled.about["tracks"]
    assert whole.about["tracks"][0]["dropped"]["duplicate_id"] == 5
    for one, other in zip(whole.tracks(), tiled.tracks(), strict=True):
        a, b = np.argsort(one.point_id), np.argsort(other.point_id)
        assert one.point_id[a].tolist() == other.point_id[b].tolist()
        for name in ("easting", "northing", "height", "los", "displacement"):
            np.testing.assert_array_equal(getattr(one, name)[a], getattr(other, name)[b])
    for tile in tiled.tiles:  # every point near a tile's buildings is at hand there
        for one, other in zip(whole.tracks(), tiled.tracks(tile), strict=True):
            west, south, east, north = tiled.buildings(tile).buffer(20).total_bounds
            inside = (one.easting >= west) & (one.easting <= east) & (one.northing >= south) & (one.northing <= north)
            assert set(one.point_id[inside]) <= set(other.point_id)
            assert len(set(other.point_id)) == len(other)


def test_threads_change_no_byte(city, tmp_path):
    (city / "ascending.csv").write_text(text(many(100)))
    ingest([city], Ingest(), tmp_path / "one", 1)
    ingest([city], Ingest(), tmp_path / "three", 3)
    assert sha256_folder(tmp_path / "one") == sha256_folder(tmp_path / "three")


@pytest.mark.parametrize(
    ("bad", "key"),
    [
        ("footprints.geojson", "footprints.unreadable"),
        ("ascending.csv", "csv.cell_count"),
        ("labels.csv", "labels.missing_column"),
    ],
)
def test_in_threads_a_bad_file_is_named_and_nothing_is_written(city, tmp_path, bad, key):
    shutil.copytree(city, tmp_path / "raw" / "village")
    (city / bad).write_bytes((city / bad).read_bytes()[:-20])
    with refuses(key, f"town/{bad}"):
        ingest([city, tmp_path / "raw" / "village"], Ingest(), tmp_path / "out", 2)
    assert not (tmp_path / "out").exists()


def test_the_label_of_a_footprint_that_was_left_out_is_passed_over_and_the_audit_is_told(city, tmp_path):
    (city / "footprints.geojson").unlink()
    drawn = squares()
    drawn.loc[0, "geometry"] = drawn.geometry[0].centroid
    drawn.to_file(city / "footprints.gpkg")
    ingest([city], Ingest(), tmp_path / "out")
    (town,) = open_ingested(tmp_path / "out")
    assert town.buildings()["building_id"].tolist() == ["H1", "H2"]
    assert set(town.labels()["building_id"]) <= {"H1", "H2"}
    assert town.about["footprints_said"]["left_out"] == 1


def remove(*names: str) -> Callable[[Path], None]:
    return lambda city: [(city / name).unlink() for name in names]


def move_footprints(city: Path) -> None:
    moved = squares()
    moved.geometry = moved.translate(5000, 0)
    moved.to_crs("EPSG:4326").to_file(city / "footprints.geojson")


def repeat_name(city: Path) -> None:
    (city / "descending.csv").write_text(text(seen_from(0.4)))


@pytest.mark.parametrize(
    ("harm", "key", "places"),
    [
        (remove("labels.csv"), "labels.missing", ["labels.csv"]),
        (remove("ascending.csv", "descending.zip"), "folder.no_product", ["footprints.geojson"]),
        (remove("footprints.geojson"), "folder.not_one_footprints", ["none found"]),
        (
            move_footprints,
            *("points.no_overlap", ["ascending.csv, ", "descending.zip", "footprints.geojson (EPSG:4326)"]),
        ),
        (repeat_name, "products.repeated_name", ["descending"]),
    ],
)
def test_a_faulty_city_is_refused_and_nothing_is_written(city, tmp_path, harm, key, places):
    harm(city)
    with refuses(key, "town", *places):
        ingest([city], Ingest(), tmp_path / "out")
    assert not [path for path in tmp_path.iterdir() if path.name not in ("raw", ".plumbline")]


@pytest.mark.parametrize(
    ("names", "key", "place"),
    [
        ([], "cities.no_folder", "data/raw"),
        (["nowhere"], "folder.missing", "nowhere"),
        (["town", "town"], "cities.repeated_name", "town"),
    ],
)
def test_cities_must_be_there_and_differ_in_name(city, tmp_path, names, key, place):
    with refuses(key, place):
        ingest([city.with_name(name) for name in names], Ingest(), tmp_path / "out")


def test_a_coherence_no_point_has_is_refused(city, tmp_path):
    with refuses("points.none_left", "ascending.csv", "6 dropped by min_coherence"):
        ingest([city], Ingest(min_coherence=0.99), tmp_path / "out")


def test_a_side_file_that_changed_is_another_run(city):
    """A Shapefile's .prj decides where everything lies, and a geometry file the line of sight."""
    (city / "inputs").mkdir()
    side = city / "inputs" / "geometryGeo.h5"
    side.write_bytes(b"one")
    before = plan_parts([city], Ingest()).work
    side.write_bytes(b"other")
    assert plan_parts([city], Ingest()).work != before


def test_what_a_reader_decided_is_told_to_the_audit(city, tmp_path):
    header, *rest = (city / "ascending.csv").read_text().splitlines()
    turned = [",".join([*line.split(",")[:-2], *line.split(",")[:-3:-1]]) for line in (header, *rest)]
    (city / "ascending.csv").write_text("\n".join([*turned, ""]))
    ingest([city], Ingest(), tmp_path / "out")
    (town,) = open_ingested(tmp_path / "out")
    notes = [track["notes"] for track in town.about["tracks"]]
    assert notes == [["the epochs do not ascend in the file; they are sorted"], []]
    assert (np.diff(town.tracks()[0].epochs) > np.timedelta64(0, "D")).all()
