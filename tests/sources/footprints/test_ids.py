from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from plumbline.sources.footprints.geometry import FeatureFilter
from plumbline.sources.footprints.ids import SAME_M, drop_duplicates, identify
from tests.refusals import refuses, warned, warning_keys
from tests.sources.make import squares

PATH = Path("f.gpkg")
A, B, C = squares(3).geometry


def ids_of(values, column=None, name="building_id"):
    named = identify(PATH, pd.DataFrame({name: values}), column)
    return named.ids.tolist(), named.assigned


@pytest.mark.parametrize(
    ("values", "ids", "assigned"),
    [
        (["a", " b", "007"], ["a", " b", "007"], 0),
        ([7, 8], ["7", "8"], 0),
        ([7.0, 8.0], ["7", "8"], 0),
        ([7.5, 8.0], ["7.5", "8.0"], 0),
        ([1.0, np.nan, 3.0], ["1", "B0000002", "3"], 1),
        ([None, "B0000001", "B0000001_2"], ["B0000001_3", "B0000001", "B0000001_2"], 1),
    ],
    ids=str,
)
def test_ids_are_the_text_of_the_column(values, ids, assigned):
    assert ids_of(values) == (ids, assigned)


@pytest.mark.parametrize("empty", [None, "", "  ", np.nan])
def test_a_building_without_an_id_is_named_after_its_place_with_a_warning(empty, caplog):
    assert ids_of(["a", empty, "b"]) == (["a", "B0000002", "b"], 1)
    assert warned(caplog, "ids.empty", "f.gpkg: feature 2 (B0000002)", "column building_id")


@pytest.mark.parametrize(
    ("values", "key", "place"),
    [
        (["A", "B\0001", "B\0002"], "ids.nul_character", "feature 2 "),
        ([1.0, 2.0, 2.0**53 + 2], "ids.inexact_number", "feature 3: 9007199254740994"),
    ],
)
def test_ids_that_an_output_would_cut_or_that_are_not_exact_are_refused(values, key, place):
    with refuses(key, "f.gpkg: column building_id", place):
        ids_of(values)


@given(st.lists(st.sampled_from([None, "", "a", "b", "B0000001", "B0000002", "B0000002_2"]), min_size=1, max_size=6))
def test_given_names_are_unique_and_the_files_own_ids_stay(values):
    ids, assigned = ids_of(values)
    own = [value for value in values if value]
    given_ = [name for name, value in zip(ids, values, strict=True) if not value]
    assert [name for name, value in zip(ids, values, strict=True) if value] == own
    assert len(set(given_)) == len(given_) == assigned
    assert not set(given_) & set(own)


def test_a_column_that_is_not_there_is_named_with_those_that_are():
    with refuses("ids.missing_column", "f.gpkg: column osm", "building_id"):
        ids_of(["a"], "osm")
    assert ids_of([1, 2], name="other") == (["B0000001", "B0000002"], 2)
    assert ids_of(["a", "b"], "identification", "identifica") == (["a", "b"], 0)


def chosen(frame, rows=None):
    named = identify(PATH, pd.DataFrame(frame), None, rows)
    return named.column, named.ids.tolist()


@pytest.mark.parametrize("name", ["building_id", "BUILDING_ID", "Building_Id", "building_i"])
def test_building_id_counts_in_any_case_before_all_others(name):
    assert chosen({"id": [1, 2], "@id": ["way/1", "way/2"], name: ["a", "b"]}) == (name, ["a", "b"])


@pytest.mark.parametrize(
    ("columns", "name", "ids"),
    [
        ({"fid": [5, 6], "OSM_ID": ["7", "8"], "floors": [1, 2]}, "OSM_ID", ["7", "8"]),
        ({"fid": [5, 6], "@id": ["way/1", "way/2"]}, "@id", ["way/1", "way/2"]),
        ({"id": ["a", "a"], "fid": [7, 8]}, "fid", ["7", "8"]),
        ({"id": ["a", None], "fid": [7, 8]}, "fid", ["7", "8"]),
        ({"id": ["a", " "], "fid": [7, 8]}, "fid", ["7", "8"]),
        ({"id": ["a", "a"]}, None, ["B0000001", "B0000002"]),
    ],
)
def test_without_it_the_first_known_column_that_tells_all_apart_counts_and_is_named(caplog, columns, name, ids):
    with caplog.at_level("INFO", "plumbline"):
        assert chosen(columns) == (name, ids)
    assert name is None or f"f.gpkg: buildings are named by the column {name}" in caplog.text


def test_only_buildings_have_to_be_told_apart(caplog):
    assert chosen({"id": ["a", "a", "b"]}, np.array([1, 2])) == ("id", ["a", "a", "b"])
    assert chosen({"building_id": ["a", None, "b"]}, np.array([0, 2]))[1] == ["a", "B0000002", "b"]
    assert not warning_keys(caplog)


def kept(geometries, ids):
    sieve = FeatureFilter(PATH, np.array(ids, object), np.arange(len(ids)))
    return drop_duplicates(sieve, np.array(geometries, object), "building_id").tolist()


def test_a_building_drawn_twice_alike_counts_once(caplog):
    turned = shapely.Polygon([*A.exterior.coords[2:], *A.exterior.coords[1:3]])
    close = shapely.transform(A, lambda at: at + SAME_M / 2)
    keep = [True, True, False, False, False, True]
    assert kept([A, B, A, turned, close, C], ["a", "b", "a", "a", "a", "c"]) == keep
    assert warned(caplog, "footprints.repeated", "f.gpkg: feature 3 (a), feature 4 (a), feature 5 (a) ")


@pytest.mark.parametrize("other", [B, shapely.transform(A, lambda at: at + 3 * SAME_M), shapely.MultiPolygon([A, C])])
def test_an_id_on_two_outlines_is_refused_with_the_features(other):
    with refuses("ids.repeated", "f.gpkg: column building_id", "(feature 4 (a))"):
        kept([A, B, A, other], ["a", "b", "a", "a"])
