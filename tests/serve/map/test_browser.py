"""The map in a real browser: it asks nobody, and works by mouse, by keyboard, on a phone and for screen readers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import pytest
import shapely

from plumbline.export.interface import PROBABILITIES
from plumbline.prepare.abstention import UNSURE_WHERE
from plumbline.prepare.assignment.nearest import UNASSIGNED
from plumbline.serve.columns import DTYPES, JUDGEMENT
from plumbline.serve.map.document import make_document
from plumbline.serve.map.page import page_html, write_map
from plumbline.serve.place.causes import CauseEstimate, causes_table
from tests.serve.made import judged_of
from tests.serve.map.test_over_time import rows
from tests.serve.map.town import EAST, HOSTILE, NORTH, town, track

pytestmark = pytest.mark.browser
REST = """async () => {
    const {map} = window.plumbline.view
    await new Promise((done, fail) => {
        map.once("idle", done)
        map.triggerRepaint()
        setTimeout(() => fail(Error("the map never rests")), 60000)
    })
}"""
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="  # one, red


L_SHAPED = shapely.box(EAST + 190, NORTH + 114, EAST + 210, NORTH + 126).difference(
    shapely.box(EAST + 200, NORTH + 120, EAST + 210, NORTH + 126)
)


@pytest.fixture(scope="module")
def city() -> dict[str, Any]:
    table = town()
    table.loc[35, "geometry"] = L_SHAPED
    table.loc[17:19, "status"] = "insufficient_points"
    table.loc[17, list(JUDGEMENT)] = None
    table.loc[17:19, "reason"] = ["few_points", UNSURE_WHERE, UNSURE_WHERE]
    table.loc[18:19, ["p_damaged", *PROBABILITIES]] = [0.82, 0.4, 0.3, 0.2, 0.1]
    row = table["building_id"] == "h15"
    table.loc[row, ["begins", "begins_early", "begins_late"]] = ["2020-05-03", "2020-02-01", "2020-08-30"]
    table.loc[row, ["severity_rate", "severity_rate_low", "severity_rate_high"]] = [0.42, 0.2, 0.7]
    table.loc[row, ["tilt_mm_m", "tilt_std_mm_m", "tilt_towards"]] = [0.31, 0.4, np.nan]  # too small for a direction
    sunk = {"name": "A1", "track": "T", "rate_mm_year": -6.2, "displacement_mm": -12.4, "points": 7, "buildings": 1}
    area = table.geometry.iloc[[15]].buffer(20).to_frame("geometry").set_geometry("geometry").assign(**sunk, quality=1)
    middle = table.geometry.iloc[15].centroid
    line = shapely.LineString([(middle.x - 50, middle.y + 14), (middle.x + 50, middle.y + 14)])
    found = [CauseEstimate(HOSTILE, 75.0, False, 168, 0.32, 0.234, 0.49, True, line)]
    found.append(
        CauseEstimate("well", 10.0, True, 3, 0.0024, 0.001, 0.01, False, shapely.Point(middle.x - 30, middle.y))
    )
    causes = causes_table(found, table.crs)
    bolt = {"point": "<b>A1</b>", "building_id": "h15", "change_mm": -9.0, "change_std_mm": 0.4, "is_used": True}
    both = {"settlement_mm": -1.0, "settlement_std_mm": 1.2, "levelled_settlement_mm": -8.5}
    both |= {"levelled_settlement_std_mm": 0.5, "settlement_difference_mm": 5.5, "settlement_difference_std_mm": 1.4}
    bolts = geopandas.GeoDataFrame(
        [{**bolt, **both, "settlement_agrees": False, "datum_mm": 2.0}, {"point": "A2", "is_used": False}],
        geometry=[shapely.Point(middle.x + 2, middle.y), shapely.Point(middle.x - 2, middle.y)],
        crs=table.crs,
    )
    judged = judged_of(table)._replace(tabulate_courses=lambda: rows(["h15"]), areas=area, causes=causes)
    judged = judged._replace(levelling=bolts)
    document = make_document(judged, [track(300, "A_<i>044</i>")], "Ours")
    west, south, east, north = document["bounds"]
    corners = [[west, north], [east, north], [east, south], [west, south]]
    legend = {"colours": ["#fff", "#f00"], "least": -5, "most": 5, "unit": "mm"}
    overlay = {"name": "up", "png": f"data:image/png;base64,{PIXEL}", "corners": corners, "legend": legend}
    return {**document, "overlays": [overlay]}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, city: dict[str, Any]) -> Path:
    path = tmp_path_factory.mktemp("map") / "map.html"
    path.write_text(page_html(city), encoding="utf-8")
    return path


def on_screen(window: Any, place: str, name: object) -> tuple[float, float]:
    """Where on the screen a place is: an expression of JavaScript with `city` and `name`, longitude and latitude."""
    x, y = window.evaluate(
        f"""name => {{
        const {{view: {{map}}, city}} = window.plumbline
        const {{x, y}} = map.project({place}), box = map.getCanvas().getBoundingClientRect()
        return [x + box.left, y + box.top]
    }}""",
        name,
    )
    return x, y


def middle_of(window: Any, name: str) -> tuple[float, float]:
    """Where on the screen a building is."""
    return on_screen(window, "city.byId.get(name).centre", name)


def switch(window: Any, label: str) -> None:
    """Show or hide points, or a layer."""
    window.get_by_text("Points", exact=True).click()
    window.get_by_label(label).click()
    window.get_by_text("Points", exact=True).click()
    window.evaluate(REST)


def popup(window: Any, x: float, y: float) -> str:
    window.mouse.click(x, y)
    return " ".join(window.locator(".maplibregl-popup-content").inner_text().split())


def counted(window: Any) -> int:
    return window.evaluate("window.plumbline.state.shown.length")


def wait_for_count(window: Any, number: int) -> None:
    window.locator(".counted", has_text=f"{number} of 40 buildings").wait_for()


def test_a_click_on_a_building_says_its_judgement_and_draws_its_histories(page: Path, visit: Any) -> None:
    window = visit(page.as_uri())
    window.mouse.click(*middle_of(window, "h15"))
    details = window.get_by_role("complementary", name="The chosen building")
    said = details.inner_text()
    for part in (
        "h15",
        "4, severe or worse",
        "5.00 permille (90\u00a0% interval 2.50 to 10.00)",
        "95 %",
        "NE or NW",
        "15 points",
        "0.3 ± 0.7 mm/m (90\u00a0%)\n",
        "begins 2020-05 (90 % interval 2020-02 to 2020-08); grows by 0.42 permille a year (90 % interval 0.20 to 0.70)",
    ):
        assert part in said, part
    assert details.get_by_role("img", name="Strain over time, 0.33 permille at the end").is_visible()
    assert details.get_by_role("img", name="Plan: damaged in NE or NW").is_visible()
    window.keyboard.press("Escape")
    assert not details.is_visible()


def test_the_page_flags_from_the_probability_of_its_document(tmp_path: Path, city: dict[str, Any], visit: Any) -> None:
    (tmp_path / "map.html").write_text(page_html({**city, "flagged": 0.9}), encoding="utf-8")
    window = visit((tmp_path / "map.html").as_uri())
    found = "window.plumbline.city.buildings.filter(one => one.flagged).map(one => one.building_id).sort()"
    told = "window.plumbline.city.buildings.filter(one => one.p_damaged >= 0.9).map(one => one.building_id).sort()"
    assert window.evaluate(found) == window.evaluate(told)
    assert "h19" not in window.evaluate(found)  # 0.82
    assert "(from 90 % on)" in window.locator(".legend").inner_text()


def test_quarters_are_the_buildings_own_and_as_dark_as_they_are_probable(page: Path, visit: Any) -> None:
    """House 15 is turned by 45 degrees from east: its quarters are named counter-clockwise from there."""
    window = visit(page.as_uri())
    found = window.evaluate("""() => {
        const {view: {map}, city} = window.plumbline
        const {features} = map.getSource("quarters").serialize().data
        const damaged = city.buildings.filter(one => one.judged && one.p_damaged >= 0.5).map(one => one.index)
        const of = name => features.filter(one => one.id === city.byId.get(name).index)
        return [damaged, [...new Set(features.map(one => one.id))], ...["h15", "h10", "h35"].map(of)]
    }""")
    assert found[0] == found[1]
    assert [(one["properties"]["name"], one["properties"]["q"]) for one in found[2]] == [("NE", 0.1), ("NW", 0.7)]
    for number, quarters in ((15, found[2]), (10, found[3]), (35, found[4])):
        for quarter, (x, y) in zip(quarters, ((5, 3), (-5, 3)), strict=True):
            shape = geopandas.GeoSeries([shapely.geometry.shape(quarter["geometry"])], crs=4326).to_crs(32633)[0]
            turn = 0.0 if number == 35 else np.radians(3.0 * number)
            middle = np.array([EAST + 40 * (number % 10), NORTH + 40 * (number // 10)])
            middle += np.array([x * np.cos(turn) - y * np.sin(turn), x * np.sin(turn) + y * np.cos(turn)])
            assert shape.area == pytest.approx(60, rel=0.01)  # h35 has nothing in the north-east: the whole quarter
            assert shape.centroid.distance(shapely.Point(middle)) < 0.1


def test_a_history_says_its_trend_and_what_is_under_the_pointer_and_is_saved(page: Path, visit: Any) -> None:
    window = visit(page.as_uri())
    name, dates = window.evaluate("""() => {
        const {buildings, histories} = window.plumbline.city
        return [buildings.find(one => histories.buildings[one.index]).building_id, histories.tracks[0].epochs]
    }""")
    window.get_by_label("Search by building_id").fill(name)
    window.locator(".row").first.click()
    chart = window.locator(".chart", has=window.locator("figcaption")).first
    assert re.fullmatch(r"A_<i>044</i>: 0\.\d mm a year \(dashed\)", chart.locator("figcaption").inner_text())
    chart.scroll_into_view_if_needed()
    box = chart.locator(".u-over").bounding_box()
    window.mouse.move(box["x"] + box["width"] - 1, box["y"] + 5)
    assert re.fullmatch(rf"{dates[-1]}: \d\.\d mm, p\d+", chart.locator(".told").inner_text())
    with window.expect_download() as saved:
        window.get_by_role("button", name="Save these histories as CSV").click()
    rows_ = pd.read_csv(saved.value.path())
    assert list(rows_) == ["point_id", "track", "longitude", "latitude", "date", "displacement_mm"]
    assert rows_["date"].unique().tolist() == dates


def test_the_trend_of_a_building_is_that_of_its_own_points_and_others_are_grey(tmp_path: Path, visit: Any) -> None:
    """Of three points on a footprint only the still one is assigned to it."""
    moving = track(3)
    moving.easting[:], moving.northing[:] = np.array([-5, 0, 5]) + EAST, NORTH
    moving.displacement[:] = np.outer([0, -40, -40], np.linspace(0, 1, moving.displacement.shape[1]))
    owners = [np.array([0, 1, UNASSIGNED])]
    path = tmp_path / "map.html"
    path.write_text(page_html(make_document(judged_of(town()), [moving], "Town", owners=owners)), encoding="utf-8")
    window = visit(path.as_uri())
    window.mouse.click(*middle_of(window, HOSTILE))
    details = window.get_by_role("complementary", name="The chosen building")
    caption = details.locator(".chart figcaption").last.inner_text()
    assert caption == "T_044: 0.0 mm a year (dashed); grey: not assigned to this building"
    colours = details.locator(".plan circle").evaluate_all("all => all.map(one => one.getAttribute('fill'))")
    assert len(colours) == 3
    assert colours.count("#8a8a8a") == 2
    with window.expect_download() as saved:
        window.get_by_role("button", name="Save these histories as CSV").click()
    assert set(pd.read_csv(saved.value.path())["point_id"]) == {"p0"}


def test_a_point_is_clicked_for_its_history(page: Path, visit: Any) -> None:
    window = visit(page.as_uri())
    switch(window, "A_<i>044</i> (300)")
    window.mouse.click(*on_screen(window, "[city.points[0].lon[name], city.points[0].lat[name]]", 299))
    said = window.locator(".details").inner_text()
    assert "p299" in said
    assert "1.0 mm a year towards the satellite" in said
    assert window.locator(".chart canvas").count() == 1
    window.keyboard.press("Escape")
    assert not window.locator(".details").is_visible()


def test_a_hostile_name_stays_a_name(page: Path, visit: Any) -> None:
    window = visit(page.as_uri())
    window.mouse.click(*middle_of(window, HOSTILE))
    assert HOSTILE in window.locator(".details h2").inner_text()
    assert window.title() == "Ours"
    assert window.locator("img").count() == 0


def test_filters_change_what_is_counted_and_what_is_drawn(page: Path, visit: Any) -> None:
    window = visit(page.as_uri())
    assert counted(window) == 40
    window.get_by_label("Category", exact=True).select_option("4")
    severe = window.evaluate("window.plumbline.city.buildings.filter(one => one.burland_category === 4).length")
    wait_for_count(window, severe)
    window.evaluate(REST)
    drawn = """[...new Set(window.plumbline.view.map.queryRenderedFeatures({layers: ["footprints"]})
        .map(({id}) => id))].length"""
    assert window.evaluate(drawn) == severe
    window.get_by_label("Category", exact=True).select_option("")
    window.get_by_label("Status").select_option("abstained")
    wait_for_count(window, 5)
    window.get_by_label("Status").select_option("")
    window.get_by_label("Least probability of damage, %").fill("50")
    window.get_by_label("Least probability of damage, %").press("Tab")
    probable = window.evaluate("window.plumbline.city.buildings.filter(one => one.probability >= 0.5).length")
    wait_for_count(window, probable)  # with the two that are damaged nobody knows where
    window.get_by_label("Colours").select_option("category")
    assert f"4 severe or worse: {severe}" in window.locator(".legend").inner_text()


def test_the_search_finds_a_building_by_its_name_and_says_where_nothing_matches(page: Path, visit: Any) -> None:
    window = visit(page.as_uri())
    search, said = window.get_by_label("Search by building_id"), window.locator(".none")
    search.fill("z99")
    wait_for_count(window, 0)
    assert said.inner_text() == "No building_id contains “\u2068z99\u2069”."
    search.fill("h35")
    wait_for_count(window, 1)
    assert not said.is_visible()
    window.locator(".row").click()
    assert window.locator(".details h2").inner_text().strip("\u2068\u2069") == "h35"
    window.get_by_label("Status").select_option("abstained")
    wait_for_count(window, 0)
    assert said.inner_text() == "The filters hide 1 building with “\u2068h35\u2069” in building_id."


def test_the_list_is_used_by_keyboard(page: Path, visit: Any) -> None:
    window = visit(page.as_uri())
    box = window.get_by_role("listbox", name="Buildings")
    box.focus()
    window.keyboard.press("ArrowDown")
    first = window.locator("[aria-selected=true]")
    assert first.get_attribute("aria-posinset") == "1"
    assert box.get_attribute("aria-activedescendant") == first.get_attribute("id")
    window.keyboard.press("End")
    assert window.locator("[aria-selected=true]").get_attribute("aria-posinset") == "40"
    assert window.locator(".details").is_visible()
    window.keyboard.press("Escape")
    assert not window.locator(".details").is_visible()


def test_every_control_is_reached_by_tab_and_has_a_name(page: Path, visit: Any) -> None:
    window = visit(page.as_uri())
    names = []
    for _ in range(20):
        window.keyboard.press("Tab")
        names.append(
            window.evaluate("""() => { const own = document.activeElement
            return own.getAttribute("aria-label") ?? own.textContent.trim() }""")
        )
    assert "Search by building_id" in names
    assert "Buildings" in names
    assert "" not in names


def test_zoomed_out_hexagons_count_and_no_footprint_is_drawn(page: Path, visit: Any) -> None:
    window = visit(page.as_uri())
    window.evaluate("window.plumbline.view.map.jumpTo({zoom: window.plumbline.view.near - 2})")
    window.evaluate(REST)
    drawn = """layer => window.plumbline.view.map.queryRenderedFeatures({layers: [layer]}).map(one => one.properties)"""
    found = {json.dumps(one, sort_keys=True) for one in window.evaluate(drawn, "hexagons")}
    assert sum(json.loads(one)["all"] for one in found) == 40
    rated = window.evaluate("window.plumbline.city.buildings.filter(one => one.probability !== null).length")
    assert sum(json.loads(one)["rated"] for one in found) == rated >= 37
    assert window.evaluate(drawn, "footprints") == []
    assert "Share with a probability of damage of 50 % or more" in window.locator(".legend").inner_text()


def test_hexagons_stay_until_the_footprints_are_drawn(page: Path, visit: Any) -> None:
    window = visit(page.as_uri())
    go = """async step => {
        const {map, near} = window.plumbline.view, frames = []
        const drawn = name => map.queryRenderedFeatures({layers: [name]}).length > 0
        const look = () => frames.push([drawn("hexagons"), drawn("footprints")])
        map.on("render", look)
        map.jumpTo({zoom: near + step})
        await new Promise(done => map.once("idle", done))
        map.off("render", look)
        return frames
    }"""
    assert window.evaluate(go, -2)[-1] == [True, False]
    window.evaluate("window.plumbline.view.show(window.plumbline.city.buildings)")  # as a filter: drawn afresh
    frames = window.evaluate(go, 1)
    assert all(hexagons or judged for hexagons, judged in frames), frames
    assert frames[-1] == [False, True]


def test_the_hexagons_of_the_whole_city_are_in_view_beside_the_legend(visit: Any, tmp_path: Path) -> None:
    write_map(judged_of(town(500, across=5)), [], tmp_path / "long.html", "Long")  # 4 km
    window = visit((tmp_path / "long.html").as_uri())
    box = window.evaluate("""() => {
        const {map} = window.plumbline.view
        const corners = map.getSource("hexagons").serialize().data.features.flatMap(one => one.geometry.coordinates[0])
        const [x, y] = ["x", "y"].map(axis => corners.map(corner => map.project(corner)[axis]))
        return [Math.min(...x), Math.min(...y), Math.max(...x), Math.max(...y)]
    }""")
    legend, map_ = (window.locator(name).bounding_box() for name in (".legend", ".map"))
    assert map_["x"] + box[0] > legend["x"] + legend["width"]
    assert (box[1] > 0, box[2] < map_["width"], box[3] < map_["height"]) == (True, True, True)


def test_a_link_leads_to_the_place_and_the_building(page: Path, visit: Any) -> None:
    window = visit(page.as_uri())
    window.mouse.click(*middle_of(window, "h15"))
    address = window.evaluate("location.href")
    again = visit(address)
    assert again.locator(".details h2").inner_text().strip("\u2068\u2069") == "h15"
    places = [one.evaluate("window.plumbline.view.map.getCenter().toArray()") for one in (window, again)]
    assert places[0] == pytest.approx(places[1], abs=1e-5)


def test_what_is_shown_is_saved_with_all_columns(page: Path, visit: Any) -> None:
    window = visit(page.as_uri())
    window.get_by_label("Category", exact=True).select_option("3")
    window.locator(".counted", has_text="of 40").wait_for()
    shown = counted(window)
    with window.expect_download() as saved:
        window.get_by_role("button", name="Save the shown buildings as GeoJSON").click()
    content = json.loads(Path(saved.value.path()).read_text())
    assert len(content["features"]) == shown
    assert list(content["features"][0]["properties"]) == list(DTYPES)
    with window.expect_download() as saved:
        window.get_by_role("button", name="Save the shown buildings as CSV").click()
    lines = Path(saved.value.path()).read_text().splitlines()
    assert lines[0] == ",".join([*DTYPES, "geometry"])
    assert len(lines) == shown + 1


def test_colours_points_and_fields_can_be_switched(page: Path, visit: Any) -> None:
    window = visit(page.as_uri())
    window.get_by_label("Colours").select_option("category")
    window.get_by_label("Colours").select_option("p_damaged")
    switch(window, "A_<i>044</i> (300)")
    switch(window, "Moving areas (1)")
    window.get_by_label("Field", exact=True).select_option("0")
    window.evaluate(REST)
    found = window.evaluate("""() => {
        const {map} = window.plumbline.view
        const points = map.queryRenderedFeatures({layers: ["points"]}).length
        const [area] = map.queryRenderedFeatures({layers: ["areas"]})
        return [map.getPaintProperty("footprints", "fill-color")[3][2], points > 50, area.properties.text,
            map.getLayoutProperty("overlay-0", "visibility")]
    }""")
    assert found == ["#edf8fb", True, "A1: \u22126.2 mm/yr", "visible"]
    legend = window.locator(".legend").inner_text()
    for part in ("80 % or more", "Mean velocity, mm/yr", "up, mm"):
        assert part in legend


def test_causes_can_be_switched_and_say_what_was_found(page: Path, visit: Any) -> None:
    window = visit(page.as_uri())
    switch(window, "Causes (2)")
    assert "more damage near to it" in window.locator(".legend").inner_text()
    place = "[city.causes.features[name].geometry.coordinates].flat(2).slice(0, 2)"
    tunnel, well = (popup(window, *on_screen(window, place, number)) for number in (0, 1))
    for part in (HOSTILE, "75 m, estimated", "168", "about 32 % (90 % interval 23 to 49 %)"):
        assert part in tunnel
    assert "10 m, as given" in well
    assert "Changes nothing its buildings share the 0.24 % of the others" in well
    switch(window, "Causes (2)")
    assert window.evaluate("window.plumbline.view.map.getLayoutProperty('cause-lines', 'visibility')") == "none"


def test_levelled_points_can_be_switched_and_say_what_both_found(page: Path, visit: Any) -> None:
    window = visit(page.as_uri())
    switch(window, "Levelled points (2)")
    window.evaluate("""window.plumbline.view.map.jumpTo({ zoom: 19,
        center: window.plumbline.city.levelling.features[0].geometry.coordinates })""")
    window.evaluate(REST)
    place = "city.levelling.features[name].geometry.coordinates"
    first, second = (popup(window, *on_screen(window, place, number)) for number in (0, 1))
    figures = ("\u22129.0 ± 0.7 mm (90 %)", "\u22121.0 ± 2.0 mm (90 %)", "5.5 ± 2.3 mm (90 %), the two differ")
    for part in ("<b>A1</b>", "h15", *figures):
        assert part in first
    assert "A2" in second
    assert "Not compared" in second
    assert "building differs from the radar" in window.locator(".legend").inner_text()


@pytest.mark.parametrize("width", [320, 390, 480])
def test_on_a_phone_the_list_is_below_the_map_and_nothing_runs_out(page: Path, visit: Any, width: int) -> None:
    window = visit(page.as_uri(), width, 844)
    assert window.evaluate("document.documentElement.scrollWidth") == width
    map_, list_ = (window.locator(name).bounding_box() for name in (".map-holder", ".list"))
    assert map_["y"] + map_["height"] <= list_["y"]
    window.mouse.click(*middle_of(window, "h15"))
    details, map_ = (window.locator(name).bounding_box() for name in (".details", ".map-holder"))
    assert details["width"] == width
    assert min(details["y"], 844) - map_["y"] >= 844 / 2
    assert details["y"] + details["height"] <= 844


def test_a_map_of_one_building_shows_it_whole_on_a_phone_on_its_side(visit: Any, tmp_path: Path) -> None:
    one = town().iloc[[4]].reset_index(drop=True)
    write_map(judged_of(one), [], tmp_path / "one.html", "One")
    window = visit((tmp_path / "one.html").as_uri(), 844, 390)
    assert window.locator(".map-holder").bounding_box()["height"] >= 390 / 2
    assert window.evaluate("window.plumbline.view.map.queryRenderedFeatures({layers: ['footprints']}).length") >= 1
    assert "1 building" in window.locator(".counted").inner_text()
