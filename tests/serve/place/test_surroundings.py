"""Columns of a building as a whole: vertical or along the line of sight, tilts by the compass, against neighbours."""

import geopandas
import numpy as np
import pytest
import shapely

from plumbline.serve.columns import WHOLE
from plumbline.serve.place.surroundings import Comparable, medians_around, whole_columns
from tests.serve.made import LOS, whole_buildings

YEARS = 4.0


def town(up, east=0.0, tilt=(0.0, 0.0), offsets=(0.0, 0.0), apart_m=30.0):
    """Buildings in a row that move up and east, mm, with a tilt, in tracks with the constants `offsets`."""
    up = np.asarray(up, float)
    change = np.stack([LOS[t, 0] * east + LOS[t, 2] * up + offsets[t] for t in (0, 1)], axis=1)
    count = len(up)
    whole = whole_buildings(change, tilt=np.tile(np.asarray(tilt, float), (count, 1)), lean=[np.hypot(*tilt)] * count)
    boxes = [shapely.box(apart_m * i, 0, apart_m * i + 10, 10) for i in range(count)]
    return whole, geopandas.GeoDataFrame({"building_id": range(count)}, geometry=boxes, crs="EPSG:32633")


def test_two_directions_give_the_vertical_and_its_difference_from_the_median_around() -> None:
    up = [-3.0, -20.0, -4.0, -2.0, -3.5]
    found = whole_columns(*town(up, east=7.0), 100.0)
    assert set(found) >= set(WHOLE)
    assert set(found["settlement_direction"]) == {"vertical"}
    np.testing.assert_allclose(found["settlement_mm"], up)
    np.testing.assert_allclose(found["settlement_rate_mm_year"], np.array(up) / YEARS)
    np.testing.assert_allclose(found["settlement_std_mm"], np.sqrt(0.5) / 0.79)
    # Those within 100 m: 0 has 1, 2 and 3; 1 has all others.
    np.testing.assert_allclose(found["against_neighbours_mm"][:2], [-3.0 - -4.0, -20.0 - -3.25])
    assert (found["against_neighbours_std_mm"] > found["settlement_std_mm"]).all()


def test_references_of_the_tracks_move_the_settlement_alone() -> None:
    plain, moved = (whole_columns(*town([-3.0, -20.0, -4.0, -2.0], offsets=by), 100.0) for by in ((0, 0), (9, 4)))
    assert (moved["settlement_mm"] - plain["settlement_mm"] > 5).all()
    np.testing.assert_allclose(moved["against_neighbours_mm"], plain["against_neighbours_mm"])


def test_one_direction_gives_the_line_of_sight_and_compares_in_that_track(caplog) -> None:
    whole, footprints = town([-3.0, -20.0, -4.0, -2.0], offsets=(5.0, 0.0))
    whole.change[1, 1] = np.nan
    with caplog.at_level("INFO"):
        found = whole_columns(whole, footprints, 100.0)
    assert found["settlement_mm"][1] == pytest.approx(-20 * 0.79 + 5)
    assert found["settlement_direction"].tolist() == ["vertical", "line of sight", "vertical", "vertical"]
    assert found["against_neighbours_mm"][1] == pytest.approx(-17 * 0.79)
    assert "1 of 4 buildings" in caplog.text
    assert "along the line of sight" in caplog.text


def test_a_lone_scatterer_widens_the_error_by_how_far_it_contradicts_the_other_direction() -> None:
    errors = []
    for off in (0.0, 2.0, 4.0):
        whole, footprints = town([-9.0] * 20)
        whole.agreeing[5, 1], whole.change[5, 1] = 1, whole.change[5, 1] + off
        found = whole_columns(whole, footprints, 100.0)
        assert found["settlement_direction"][5] == "vertical"
        errors.append(found["settlement_std_mm"][5])
    assert found["settlement_std_mm"][4] < errors[0] < errors[1] < errors[2]


def test_two_directions_of_few_scatterers_that_contradict_each_other_say_nothing() -> None:
    whole, footprints = town([-80.0] * 20)
    whole.agreeing[5] = 2, 1
    agreed = whole_columns(whole, footprints, 100.0)
    assert agreed["settlement_mm"][5] == pytest.approx(-80, abs=1)
    whole.change[5, 1] = 0
    contradicted = whole_columns(whole, footprints, 100.0)
    assert np.isnan(contradicted["settlement_mm"][5])
    assert contradicted["settlement_direction"][5] is None
    assert np.isfinite(np.delete(contradicted["settlement_mm"], 5)).all()


def test_the_movement_along_a_line_of_sight_of_a_leaning_building_is_known_less_well() -> None:
    """How high its scatterers are above the ground is not known."""
    errors = []
    for tilt in ((0.0, 0.0), (5.0, 0.0)):
        whole, footprints = town([-9.0] * 5, tilt=tilt)
        whole.change[2, 1] = np.nan
        errors.append(whole_columns(whole, footprints, 100.0)["settlement_std_mm"])
    assert errors[1][2] > errors[0][2] + 5
    np.testing.assert_allclose(errors[1][[0, 1, 3, 4]], errors[0][[0, 1, 3, 4]])


@pytest.mark.parametrize(
    ("tilt", "towards"), [((0, -2), 0), ((-2, 0), 90), ((0, 2), 180), ((2, 0), 270), ((-1, -1), 45)]
)
def test_a_tilt_points_to_the_side_that_sinks(tilt, towards) -> None:
    found = whole_columns(*town([0.0], tilt=tilt), 100.0)
    assert found["tilt_mm_m"] == pytest.approx(np.hypot(*tilt))
    assert found["tilt_towards"] == pytest.approx(towards)
    assert found["tilt_std_mm_m"] == pytest.approx(0.1, rel=0.01)


def test_nothing_is_given_where_points_tell_nothing() -> None:
    whole, footprints = town([-3.0, -20.0, -4.0], tilt=(0.05, 0.0))
    whole.change[0] = whole.tilt[0] = whole.resolution[0] = np.nan
    found = whole_columns(whole, footprints, 100.0)
    assert found.pop("settlement_direction")[0] is None
    assert all(np.isnan(values[0]) for values in found.values())
    assert np.isnan(found["tilt_towards"]).all()  # a tilt of half its error points nowhere
    assert np.isnan(found["against_neighbours_mm"]).all()  # of two others the median says nothing


@pytest.mark.parametrize("spread", [0.01, 3.0, 30.0])
def test_the_error_of_a_median_is_stated_whether_neighbours_move_alike_or_not(spread) -> None:
    rng = np.random.default_rng(1)
    place, true, error = rng.uniform(0, 2000, (2000, 2)), rng.normal(0, spread, 2000), rng.uniform(1, 6, 2000)
    every = np.ones(2000, bool)
    right = medians_around(place, Comparable(true, error**2, every), 100.0).value
    found = medians_around(place, Comparable(true + rng.normal(0, error), error**2, every), 100.0)
    assert 0.85 < np.nanmean(np.abs(found.value - right) < 1.645 * np.sqrt(found.variance)) < 0.97
