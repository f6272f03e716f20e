from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from plumbline.core.files import sha256_folder
from plumbline.params import Ingest, Product
from plumbline.sources.city.ingest import ingest
from plumbline.sources.city.ingested import open_ingested, open_profiles
from plumbline.sources.city.profile_rows import read_profiles
from tests.refusals import refuses
from tests.sources.city.write_profiles import profiles
from tests.sources.make import egms, squares

STATED = {
    "labelled": True,
    "distance_unit": "cm",
    "slope_unit": "m/m",
    "severity_unit": "percent",
    "quadrants": {1: "NE", 2: "NW", 3: "SW", 4: "SE", 0: "none"},
    "years": 2.5,
}
PLAIN = {"labelled": False, "distance_unit": "m", "slope_unit": "mm/m", "first": "2020-01-01", "last": "2022-07-01"}
ROWS = [
    ([(0, 1e-3), (300, -2e-3), (750, 2e-3)], [800, 500, 0.075, 2]),
    ([(100, 1e-4), (100, 2e-4)], [1200, 600, 0, 0]),
    ([(-400, 1e-3), (-100, 0), (0, 0), (400, 3e-3)], [800, 500, 0.35, 3]),
]
UNLABELLED = [([(0.0, 0.5), (3.0, -1.25), (7.5, 2.0)], [8.0, 5.0])]


def stated(**changes) -> Ingest:
    """`rows*.csv` as in `STATED`, `plain*.csv` as in `PLAIN`."""
    return Ingest.model_validate(
        {"products": {"rows*.csv": {"profiles": STATED | changes}, "plain*.csv": {"profiles": PLAIN}}}
    )


@pytest.fixture
def city(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # finished portions are kept below the working directory
    folder = tmp_path / "raw" / "old"
    folder.mkdir(parents=True)
    profiles(folder / "rows.csv", ROWS)
    (folder / "README.md").write_text("about")
    (folder / "about.txt").write_text("about")
    return folder


def test_rows_become_a_table_in_one_unit_with_their_labels(city, tmp_path):
    profiles(city / "plain.csv", UNLABELLED)
    ingest([city], stated(), tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out" / "old").iterdir()) == ["city.json", "profiles.parquet"]
    assert open_ingested(tmp_path / "out") == []
    (old,) = open_profiles(tmp_path / "out")
    assert [old.about[key] for key in ("kind", "buildings", "labelled", "groups")] == ["profiles", 4, 3, 2]
    counts = {"name": "plain.csv", "buildings": 1, "labelled": 0, "points": 3, "duplicates": 0}
    record = {"years": 912 / 365.25, "first_epoch": "2020-01-01", "last_epoch": "2022-07-01"}
    assert old.products[0] == counts | record
    assert [old.products[1][key] for key in ("points", "duplicates", "years")] == [9, 1, 2.5]
    plain, rows = old.rows("plain.csv"), old.rows("rows.csv")
    wanted = read_profiles(city / "rows.csv", True, "m/m", "cm")
    for name in ("offsets", "distance", "slope", "span_m", "width_m", "line"):
        np.testing.assert_array_equal(getattr(rows.profiles, name), getattr(wanted, name))
    np.testing.assert_allclose(rows.profiles.severity, [0.75, 0, 3.5])
    assert rows.profiles.location.tolist() == [1, -1, 2]
    assert rows.building_id.tolist() == ["rows.csv:1", "rows.csv:2", "rows.csv:3"]
    assert np.isnan(plain.profiles.severity).all()
    np.testing.assert_array_equal(plain.profiles.slope, [0.5, -1.25, 2.0])
    # The first and the last row and the unlabelled one are 8 m by 5 m: they may be one building.
    assert rows.group[0] == rows.group[2] == plain.group[0] != rows.group[1]


@pytest.mark.parametrize(("same", "groups"), [("row", 3), ("file", 1)])
def test_params_say_what_stands_for_one_building(city, tmp_path, same, groups):
    ingest([city], stated(same_building=same), tmp_path / "out")
    (old,) = open_profiles(tmp_path / "out")
    assert old.about["groups"] == groups == len(set(old.rows("rows.csv").group.tolist()))


def test_one_size_in_two_units_is_one_building(city, tmp_path):
    profiles(city / "rows.csv", [([(0, 1e-3), (300, -2e-3), (700, 2e-3)], [2340, 1170, 0.05, 1])])
    profiles(city / "plain.csv", [([(0.0, 0.5), (3.0, -1.25), (7.5, 2.0)], [23.4, 11.7])])
    ingest([city], stated(), tmp_path / "out")
    (old,) = open_profiles(tmp_path / "out")
    assert old.about["groups"] == 1


def test_cities_of_points_stand_beside(city, tmp_path):
    town = tmp_path / "raw" / "town"
    town.mkdir()
    egms(town / "points.csv")
    squares().to_file(town / "footprints.geojson")
    (town / "labels.csv").write_text("building_id,severity_permille,quadrant\nH0,1.2,NE\n")
    ingest([city, town], stated(), tmp_path / "out")
    assert [one.folder.name for one in open_ingested(tmp_path / "out")] == ["town"]
    assert [one.folder.name for one in open_profiles(tmp_path / "out")] == ["old"]
    (tmp_path / "copy" / "town").mkdir(parents=True)
    profiles(tmp_path / "copy" / "town" / "rows.csv", ROWS)
    with refuses("cities.repeated_name", "town"):
        ingest([town, tmp_path / "copy" / "town"], stated(), tmp_path / "out")


def test_the_same_rows_give_the_same_bytes_and_a_changed_file_others(city, tmp_path):
    hashes = []
    for name in ("one", "two", "three"):
        if name == "three":
            profiles(city / "rows.csv", ROWS[:2])
        ingest([city], stated(), tmp_path / name)
        hashes.append(sha256_folder(tmp_path / name))
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.parametrize(
    ("about", "key", "place"),
    [
        ({}, "profiles.unstated", "\n    'rows.csv':\n      profiles:"),
        ({"*.csv": {"track": "a"}}, "profiles.unstated", "rows.csv"),
        ({"*.csv": {"format": "egms"}}, "folder.not_one_footprints", "old"),
        ({"*.csv": {"profiles": STATED | {"quadrants": {1: "NE"}}}}, "profiles.unstated_location", "1: location 2"),
    ],
)
def test_what_rows_do_not_say_is_asked_for(city, tmp_path, about, key, place):
    with refuses(key, place):
        ingest([city], Ingest.model_validate({"products": about}), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("ends", "unit", "key", "place"),
    [
        ([], "percent", "profiles.unknown_location", ", cell 8: 500 "),
        ([5, 1], "strain", "profiles.impossible_severity", ": severity 5"),
    ],
)
def test_what_params_say_and_the_rows_are_not_is_refused(city, tmp_path, ends, unit, key, place):
    profiles(city / "rows.csv", [(pairs, [*sizes[:2], *ends]) for pairs, sizes in ROWS])
    with refuses(key, f"rows.csv, line 1{place}"):
        ingest([city], stated(severity_unit=unit), tmp_path / "out")


@pytest.mark.parametrize("name", ["labels.csv", "more.zip"])
def test_other_files_beside_profile_rows_are_refused(city, tmp_path, name):
    egms(city / name)
    with refuses("profiles.other_inputs", f"old: {name}", "rows.csv"):
        ingest([city], stated(), tmp_path / "out")


def test_unlabelled_rows_alone_cannot_train(city, tmp_path):
    (city / "rows.csv").unlink()
    profiles(city / "plain.csv", UNLABELLED)
    with refuses("profiles.no_labels", "old", "plain.csv"):
        ingest([city], stated(), tmp_path / "out")


@pytest.mark.parametrize(
    ("about", "key"),
    [
        ({"format": "profiles"}, "profiles.missing"),
        ({"format": "egms", "profiles": PLAIN}, "profiles.other_format"),
        ({"track": "a", "profiles": PLAIN}, "profiles.unused_keys"),
        ({"profiles": {**STATED, "quadrants": {}}}, "labels.meaning_missing"),
        ({"profiles": {**PLAIN, "quadrants": {1: "NE"}}}, "labels.not_labelled"),
        ({"profiles": {**PLAIN, "last": None}}, "observation.not_given_once"),
        ({"profiles": {**PLAIN, "last": "2019-01-01"}}, "observation.last_before_first"),
        ({"profiles": {**STATED, "quadrants": {1: "N"}}}, "literal_error"),
        ({"profiles": {key: PLAIN[key] for key in PLAIN if key != "slope_unit"}}, "missing"),
    ],
)
def test_half_a_description_is_refused(about, key):
    with pytest.raises(ValidationError, match=f"type={key}"):
        Product.model_validate(about)
