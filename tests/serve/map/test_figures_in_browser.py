"""The map's figures in a real browser: one rule and one form for each, and colours that separate a city."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plumbline.serve.map.document import make_document
from plumbline.serve.map.page import page_html
from tests.serve.made import judged_of, table_of
from tests.serve.map.test_browser import REST, counted, middle_of, wait_for_count
from tests.serve.map.town import town, track

pytestmark = pytest.mark.browser
Open = Callable[..., Any]


def properties_of(document: dict[str, Any], name: str) -> dict[str, Any]:
    features = document["buildings"]["features"]
    return next(one["properties"] for one in features if one["properties"]["building_id"] == name)


@pytest.fixture
def show(visit: Open, tmp_path: Path) -> Open:
    """Open the page of a document."""

    def open_(document: dict[str, Any], *size: int) -> Any:
        path = tmp_path / "map.html"
        path.write_text(page_html(document), encoding="utf-8")
        return visit(path.as_uri(), *size)

    return open_


def document() -> dict[str, Any]:
    return make_document(judged_of(town()), [track(100)], "Town")


def undecided() -> dict[str, Any]:
    """The town with two buildings that have a probability and are not judged, as the table has them."""
    made = document()
    columns = {"p_ne": 0.4, "p_nw": 0.3, "p_sw": 0.2, "p_se": 0.1, "quadrant": "NE", "quadrants": "NE|NW|SW"}
    figures = {"severity_permille": 1.234, "severity_low": 0.3, "severity_high": 3.0, "burland_category": 2}
    why = "it may be damaged, and its points do not tell in which quadrant"
    unsure = {"reason": "unsure_where", "reason_group": "unsure", "why": why, "p_damaged": 0.9961}
    properties_of(made, "h5").update(columns | figures | unsure, status="insufficient_points")
    few = {"reason": "few_points", "reason_group": "points", "why": "it has 2 points", "p_damaged": 0.004}
    properties_of(made, "h6").update(few)
    return made


def text_of_row(window: Any, name: str) -> str:
    return window.locator(".row", has_text=name).first.inner_text().replace("\u2068", "").replace("\u2069", "")


def test_a_building_that_is_unsure_where_stands_where_its_probability_puts_it(show: Open) -> None:
    window = show(undecided())
    assert text_of_row(window, "h5").split("\n") == ["h5", "> 99 %, where is not known, 1.23 permille"]
    assert window.locator(".row").first.inner_text().strip("\u2068\u2069").startswith("h5")
    last = window.evaluate("window.plumbline.state.shown.at(-1).building_id")
    assert last == "h6"
    window.locator(".row").first.click()
    panel = window.locator(".details").inner_text()
    for part in (
        "> 99 %",
        "is not known: it may be damaged",
        "1.23 permille (90\u00a0% interval 0.30 to 3.00)",
        "2, slight",
    ):
        assert part in panel, part
    assert "Decide by\nthe probability" in panel
    assert "Quadrant\n" not in panel
    assert "NE 40 %" in panel
    assert window.locator(".plan circle").count() > 0
    assert "damaged? unsure where: 1" in window.locator(".legend").inner_text()
    window.get_by_label("Search by building_id").fill("h6")
    wait_for_count(window, 1)
    assert text_of_row(window, "h6").split("\n") == ["h6", "< 1 %, not judged"]
    window.locator(".row").first.click()
    panel = window.locator(".details").inner_text()
    assert "it has 2 points" in panel
    assert "< 1 %, not a judgement" in panel
    assert "NE " not in panel


def test_a_building_that_is_unsure_where_is_counted_coloured_and_hatched(show: Open) -> None:
    window = show(undecided())
    x, y = middle_of(window, "h5")
    window.evaluate(REST)
    layers = """([x, y]) => {
        const {map} = window.plumbline.view, box = map.getCanvas().getBoundingClientRect()
        return map.queryRenderedFeatures([x - box.left, y - box.top]).map(({layer, properties}) =>
            [layer.id, properties.p, map.getPaintProperty(layer.id, "fill-pattern") ?? null])
    }"""
    found = sorted(window.evaluate(layers, [x, y]))
    assert found == [["abstained-unsure", 0.9961, "hatch-unsure"], ["footprints", 0.9961, None]]
    window.get_by_label("Least probability of damage, %").fill("99")
    window.get_by_label("Least probability of damage, %").press("Tab")
    wait_for_count(window, 1)
    window.get_by_label("Quadrant").select_option("NE")
    wait_for_count(window, 0)


def test_one_rule_says_whether_a_quadrant_is_shown(show: Open) -> None:
    """h32 is of category 1 and probably sound; h31 is of category 0 and probably damaged."""
    made = document()
    properties_of(made, "h32")["p_damaged"] = 0.31
    properties_of(made, "h31").update(p_damaged=0.58, severity_permille=0.4996, severity_low=0.01, burland_category=0)
    window = show(made)
    shaded = window.evaluate("""() => {
        const {view: {map}, city} = window.plumbline, {features} = map.getSource("quarters").serialize().data
        return [...new Set(features.map(({id}) => city.buildings[id].building_id))]
    }""")
    for name, percent, shown in (("h32", "31 %", False), ("h31", "58 %", True)):
        assert (name in shaded) is shown
        window.get_by_label("Search by building_id").fill(name)
        row = window.locator(".row", has_text=name).first
        wait_for_count(window, 1)
        assert percent in row.inner_text()
        assert ("NW" in row.inner_text()) is shown
        row.click()
        panel = window.locator(".details").inner_text()
        assert ("Quadrant\n" in panel) is shown
        assert ("NW 70 %" in panel) is shown
        assert ("the points also fit a sound building" in panel) is shown
        assert ("0.49 permille" in panel and "0.49 permille" in row.inner_text()) is shown  # of category 0
        window.keyboard.press("Escape")


def test_quarters_are_shaded_under_colours_of_damage_alone_and_the_legend_explains_them(show: Open) -> None:
    window = show(document())
    visible = """["quarters", "abstained-points"]
        .map(id => window.plumbline.view.map.getLayoutProperty(id, "visibility") ?? "visible")"""
    legend, colours = window.locator(".legend"), window.get_by_label("Colours")
    damaged = window.evaluate(
        "window.plumbline.city.buildings.filter(one => one.judged && one.p_damaged >= 0.5).length"
    )
    for by, shown in (("settlement_mm", False), ("p_damaged", True), ("tilt_mm_m", False), ("category", True)):
        if colours.locator(f"option[value={by}]").count() == 0:
            continue  # all are alike
        colours.select_option(by)
        window.evaluate(REST)
        assert window.evaluate(visible) == ["visible" if shown else "none"] * 2, by
        assert (
            f"where damage may be: the darker, the more probable (from 50 % on): {damaged}" in legend.inner_text()
        ) is shown
    assert "Quarters" not in window.locator("footer").inner_text()


def test_settlement_has_its_90_percent_interval_and_its_direction(show: Open) -> None:
    made = document()
    figures = {"settlement_mm": -73.0, "settlement_std_mm": 10.0, "settlement_rate_mm_year": -18.0}
    properties_of(made, "h3").update(figures, settlement_direction="line of sight")
    properties_of(made, "h4").update(figures, settlement_mm=-5.0, settlement_direction="vertical")
    window = show(made)
    said = []
    for name in ("h3", "h4"):
        window.mouse.click(*middle_of(window, name))
        said.append(window.locator(".details").inner_text())
        window.keyboard.press("Escape")
    assert "\u221273.0 ± 16.4 mm (90\u00a0%), along one line of sight, not vertical; \u221218.0 mm a year" in said[0]
    assert "\u22125.0 ± 16.4 mm (90\u00a0%); \u221218.0 mm a year" in said[1]
    window.get_by_label("Colours").select_option("settlement_mm")
    window.evaluate(REST)
    legend = window.locator(".legend").inner_text()
    assert "Along one line of sight, not vertical: 1" in legend
    assert "faint: the 90 % interval holds 0: 1" in legend
    names = window.evaluate("""window.plumbline.view.map.queryRenderedFeatures({layers: ["footprints"]})
        .filter(({properties}) => properties.faint).map(({id}) => window.plumbline.city.buildings[id].building_id)""")
    assert set(names) == {"h4"}


def box_of(window: Any, name: str) -> list[float]:
    return window.evaluate("name => window.plumbline.view.boxOf(window.plumbline.city.byId.get(name))", name)


def legend_covers(window: Any, name: str) -> bool:
    """Whether the legend is over a part of the building that is in the map."""
    legend, map_ = (window.locator(selector).bounding_box() for selector in (".legend", ".map"))
    left, top, right, bottom = box_of(window, name)
    top, bottom = max(top, map_["y"]), min(bottom, map_["y"] + map_["height"])
    if legend is None:
        return False
    beside = legend["x"] >= right or legend["x"] + legend["width"] <= left
    return not (beside or legend["y"] >= bottom or legend["y"] + legend["height"] <= top)


@pytest.mark.parametrize("size", [(801, 600), (700, 700), (390, 844), (844, 390)])
def test_the_legend_never_covers_the_chosen_building(show: Open, size: tuple[int, int]) -> None:
    window = show(document(), *size)
    window.locator(".list").focus()
    for _ in range(3):
        window.keyboard.press("ArrowDown")
        window.evaluate(REST)
        name = window.evaluate("window.plumbline.state.chosen.building_id")
        assert not legend_covers(window, name)
    for zoom, dx in ((19, 0), (19, 150), (20, -80), (17, 120)):
        window.evaluate(
            """([zoom, dx]) => {
                const {map} = window.plumbline.view
                map.jumpTo({zoom, center: window.plumbline.state.chosen.centre})
                map.panBy([dx, -60], {animate: false})
            }""",
            [zoom, dx],
        )
        window.evaluate(REST)
        assert not legend_covers(window, name), (zoom, dx)
    if window.locator(".legend").is_visible():
        window.evaluate("document.querySelector('.legend summary').click()")  # the panel may be over its middle
        window.evaluate(REST)
        assert not legend_covers(window, name)
    window.keyboard.press("Escape")
    assert window.locator(".legend").is_visible()


@pytest.mark.parametrize("width", [320, 390])
def test_on_a_phone_the_filters_are_one_press_away(show: Open, width: int) -> None:
    window = show(document(), width, 844)
    category = window.get_by_label("Category", exact=True)
    assert not category.is_visible()
    window.get_by_role("button", name="Filters and layers").click()
    for label in ("Category", "Status", "Quadrant"):
        box = window.get_by_label(label, exact=True).bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    assert window.evaluate("document.documentElement.scrollWidth") == width
    category.select_option("4")
    window.locator(".counted", has_text="of 40").wait_for()
    assert 0 < counted(window) < 40


def large_town(p_damaged: Any, severity: Any) -> dict[str, Any]:
    buildings = town(500, across=5)[["building_id", "geometry"]]
    figures = np.tile([0.1, 0.7, 0.1, 0.1], (500, 1)), severity, severity / 2, severity * 2
    return make_document(
        judged_of(table_of(buildings, ["ok"] * 500, np.full(500, 9), *figures, "3", p_damaged)), [], "T"
    )


COLOURS_OF_HEXAGONS = """() => {
    const {map} = window.plumbline.view, [,,, [, , , ...steps]] = map.getPaintProperty("hexagons", "fill-color")
    const edges = steps.filter((_, i) => i % 2 === 0)
    const shares = map.getSource("hexagons").serialize().data.features.map(({properties}) => properties.share)
    return [...new Set(shares.map(share => edges.filter(edge => share >= edge).length))]
}"""


@pytest.mark.parametrize("share", [0.02, 0.5])
def test_hexagons_separate_in_a_quiet_and_in_a_damaged_city(show: Open, share: float) -> None:
    """The share grows from 0 at one end of the town to twice its mean at the other."""
    damaged = np.random.default_rng(0).uniform(size=500) < 2 * share * np.arange(500) / 500
    window = show(large_town(np.where(damaged, 0.9, 0.1), np.where(damaged, 2.0, 0.2)))
    assert window.evaluate("window.plumbline.view.map.getZoom() < window.plumbline.view.near")
    assert len(window.evaluate(COLOURS_OF_HEXAGONS)) >= (2 if share < 0.1 else 4)
