"""The map document says what the table says, in WGS 84, without NaN, within its bounds."""

import json
from dataclasses import replace

import geopandas
import numpy as np
import pytest
import shapely

from plumbline.prepare.abstention import STATUSES
from plumbline.prepare.assignment.nearest import UNASSIGNED
from plumbline.serve.base_rate import DamageRate
from plumbline.serve.columns import DTYPES, OPTIONAL
from plumbline.serve.layers import REASON_GROUPS, colour_limit
from plumbline.serve.map import document as making
from plumbline.serve.map import histories as chosen
from plumbline.serve.map.document import as_json, make_document
from tests.serve.made import judged_of, table_of
from tests.serve.map.town import EAST, EPOCHS, NORTH, house, town, track

OF_MAP = {"reason_group", "why", "when", "frame_deg"}
"""Properties that are no column of the predictions."""


def made(table: geopandas.GeoDataFrame, tracks: list = [], **more):  # noqa: B006
    return make_document(judged_of(table, **more), tracks, "Town")


def test_every_building_has_its_columns_and_a_place_in_longitude_and_latitude() -> None:
    table = town()
    said = made(table)
    by_id = {feature["properties"]["building_id"]: feature for feature in said["buildings"]["features"]}
    assert set(by_id) == set(table["building_id"])
    degrees = table.to_crs("EPSG:4326")
    for row, place in zip(table.itertuples(), degrees.geometry, strict=True):
        feature = by_id[row.building_id]
        own = {**feature["properties"]}
        assert shapely.hausdorff_distance(shapely.geometry.shape(feature["geometry"]), place) < 2e-7
        assert own["n_points"] == row.n_points
        assert own["p_damaged"] == pytest.approx(row.p_damaged, abs=1e-4)
        if row.status == "ok":
            assert own["burland_category"] == row.burland_category
            assert set(own) - OF_MAP | set(said["constants"]) >= set(DTYPES) - set(OPTIONAL)
        else:
            assert "burland_category" not in own
            assert own["reason_group"] in REASON_GROUPS
            assert own["why"]
    west, south, east, north = said["bounds"]
    assert (-180 < west < east < 180, -90 < south < north < 90) == (True, True)
    assert said["bounds"] == pytest.approx(degrees.total_bounds.tolist(), abs=1e-6)


def test_the_most_probably_damaged_come_first_judged_or_not() -> None:
    houses = [house(EAST, NORTH + 40 * i) for i in range(5)]
    frame = geopandas.GeoDataFrame({"building_id": list("abcde")}, geometry=houses, crs="EPSG:32633")
    said = ([[0.7, 0.1, 0.1, 0.1]] * 5, [1.0, 4.0, 2.0, 5.0, 0.3], [0.1] * 5, [9.0] * 5, "1")
    table = table_of(frame, ["ok"] * 4 + ["insufficient_points"], [9] * 5, *said, [0.99, 0.6, 0.8, 0.4, 0.9])
    names = [feature["properties"]["building_id"] for feature in made(table)["buildings"]["features"]]
    assert names == ["a", "e", "c", "b", "d"]


def test_outer_rings_run_counter_clockwise_and_holes_and_parts_stay() -> None:
    shapes = [shapely.geometry.shape(one["geometry"]) for one in made(town())["buildings"]["features"]]
    assert sum(len(one.interiors) for one in shapes if one.geom_type == "Polygon") == 1
    assert sum(one.geom_type == "MultiPolygon" for one in shapes) == 1
    for one in shapes:
        assert all(part.exterior.is_ccw for part in shapely.get_parts(one))


def test_no_nan_gets_into_the_json() -> None:
    moving = track(60)
    moving.displacement[:30, 5:] = np.nan
    moving.displacement[30:, ::7] = np.nan
    text = as_json(made(town(), [moving]))
    values = [value for one in json.loads(text)["histories"]["series"] for value in one["mm"]]
    assert None in values
    with pytest.raises(ValueError, match="JSON"):
        as_json({"a": float("nan")})


def test_histories_are_of_the_scatterers_on_and_beside_a_building() -> None:
    table, moving = town(), track(400)
    said = made(table, [moving])
    assert said["histories"]["tracks"] == [
        {"name": "T_044", "epochs": EPOCHS.astype("datetime64[D]").astype(str).tolist()}
    ]
    assert said["histories"]["left_out"] == 0
    points = geopandas.GeoSeries(shapely.points(moving.easting, moving.northing), crs="EPSG:32633")
    footprint = dict(zip(table["building_id"], table.geometry, strict=True))
    for feature in said["buildings"]["features"]:
        own = [said["histories"]["series"][k] for k in said["histories"]["buildings"].get(str(feature["id"]), [])]
        near = points.distance(footprint[feature["properties"]["building_id"]]) < chosen.REACH_M
        assert len(own) == min(chosen.MAX_SCATTERERS, int(near.sum()))
        for one in own:
            place = geopandas.GeoSeries(shapely.points([one["lon"]], [one["lat"]]), crs="EPSG:4326").to_crs(
                "EPSG:32633"
            )
            point = int(points.distance(place[0]).argmin())
            np.testing.assert_allclose(one["mm"], moving.displacement[point], atol=0.051)
            assert one["id"] == f"p{point}"


def test_a_building_shows_its_own_points_and_apart_from_them_those_of_others() -> None:
    """Whose a point is, is told by the assignment, not by its place: the nearest may be a neighbour's."""
    table, moving = town(), track(400)
    owners = np.full(400, UNASSIGNED)
    points = geopandas.GeoSeries(shapely.points(moving.easting, moving.northing), crs="EPSG:32633")
    near = {row: np.flatnonzero(points.distance(table.geometry[row]) < chosen.REACH_M) for row in range(len(table))}
    row = max(near, key=lambda number: len(near[number]))
    assert len(near[row]) >= 3
    of_building, of_other = near[row][:2], near[row][2:]
    owners[of_building], owners[of_other[0]] = row, (row + 1) % len(table)
    said = make_document(judged_of(table), [moving], "Town", owners=[owners])
    series, names = said["histories"]["series"], table["building_id"]
    number = next(str(f["id"]) for f in said["buildings"]["features"] if f["properties"]["building_id"] == names[row])
    ids = {kind: {series[k]["id"] for k in said["histories"][kind].get(number, [])} for kind in ("buildings", "beside")}
    assert ids["buildings"] == {f"p{point}" for point in of_building}
    assert ids["beside"] <= {f"p{point}" for point in of_other}
    assert len(ids["beside"]) == min(chosen.MAX_SCATTERERS - 2, len(of_other))
    assert said["histories"]["left_out"] == 0


def test_a_drawn_point_has_its_history_on_whichever_building_it_is() -> None:
    said = made(town(), [track(400)])
    drawn = said["points"][0]
    of = {one["dot"]: one for one in said["histories"]["series"]}
    assert sorted(of) == list(range(400))
    for dot, one in of.items():
        assert (one["lon"], one["lat"]) == pytest.approx((drawn["lon"][dot], drawn["lat"][dot]), abs=1e-6)


def test_histories_are_bounded_and_the_most_probably_damaged_have_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen, "MAX_VALUES", 10 * len(EPOCHS))
    table = town()
    table.loc[5, "p_damaged"] = 0.9876  # not judged
    document = made(table, [track(400)])
    features, said = document["buildings"]["features"], document["histories"]
    assert len(said["series"]) == 10
    assert said["left_out"] > 10
    assert set(map(int, said["buildings"])) <= set(range(12))
    places = [feature["properties"]["p_damaged"] for feature in features]
    assert places == sorted(places, reverse=True)
    (own,) = (feature for feature in features if feature["properties"]["building_id"] == "h5")
    assert own["properties"]["p_damaged"] == 0.9876
    assert "p_ne" not in own["properties"]
    assert str(own["id"]) in said["buildings"]


def test_points_are_thinned_and_the_document_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "MAX_POINTS", 100)
    said = made(town(), [track(300)])
    assert len(said["points"][0]["lon"]) == 100
    assert "Of 300 points near the buildings, 100 can be shown, evenly thinned." in said["footer"]


def test_texts_name_version_period_share_and_counts() -> None:
    judged = judged_of(town())._replace(rate=DamageRate(0.031, 0.014, 0.066, True))
    said = make_document(judged, [track(300)], "Ours <i>& theirs</i>")
    assert said["title"] == "Ours <i>& theirs</i>"
    assert said["subtitle"] == "Model version 3 · points from 2020-01-03 to 2021-12-23"
    assert "40 buildings, 38 judged. " in said["footer"]
    assert "All 300 points near the buildings can be shown." in said["footer"]
    share = "about 3.1 % of the judged buildings are damaged (90 % interval 1.4 to 6.6 %)."
    assert f"Severities and probabilities are for a city like this: {share}" in said["footer"]


@pytest.mark.parametrize("status", STATUSES)
def test_one_building_without_points_has_a_document(status: str) -> None:
    one = geopandas.GeoDataFrame({"building_id": ["a"]}, geometry=[house(12.5, 41.9)], crs="EPSG:32633")
    table = table_of(one, [status], [3], [[0.25] * 4], [1.0], [0.5], [2.0], "1").to_crs("EPSG:4326")
    said = json.loads(as_json(made(table)))
    assert len(said["buildings"]["features"]) == 1
    assert f"1 building, {int(status == 'ok')} judged" in said["footer"]


def test_the_ends_of_the_velocity_colours_are_those_of_most_points() -> None:
    assert colour_limit(np.append(np.linspace(-3, 3, 100), [-40.0, np.nan])) == 3
    assert colour_limit(np.zeros(0)) == 2


def test_a_city_on_both_sides_of_180_degrees_is_in_one_piece() -> None:
    """Its bounds would else be those of the Earth."""
    east, north, crs = 819_787.0, 8_140_000.0, "EPSG:32760"
    houses = [shapely.box(east + x - 8, north, east + x + 8, north + 10) for x in (-50, 0, 50)]
    frame = geopandas.GeoDataFrame({"building_id": list("abc")}, geometry=houses, crs=crs)
    figures = ([[0.7, 0.1, 0.1, 0.1]] * 3, [1.0, 4.0, 2.0], [0.1] * 3, [9.0] * 3, "1")
    table = table_of(frame, ["ok"] * 3, [9] * 3, *figures, [0.99, 0.6, 0.8])
    points = replace(track(3), crs=crs, easting=east + np.array([-50.0, 0.0, 50.0]), northing=np.full(3, north + 5))
    said = made(table, [points])
    west, south, end, _ = said["bounds"]
    assert 179.999 < west < 180 < end < 180.001
    assert south < -16
    shapes = [shapely.geometry.shape(one["geometry"]) for one in said["buildings"]["features"]]
    assert shapely.total_bounds(shapes).tolist() == said["bounds"]
    assert all(part.geom_type == "Polygon" for part in shapes)
    longitudes = said["points"][0]["lon"] + [one["lon"] for one in said["histories"]["series"]]
    assert len(longitudes) == 6
    assert all(west <= longitude <= end for longitude in longitudes)
