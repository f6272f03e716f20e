"""The map tells what the table says, harms nobody who opens it, loads nothing, and works in a real browser."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import geopandas
import numpy as np
import pyproj
import pytest
import shapely
from bokeh.models import ColorBar, ColumnDataSource
from bokeh.plotting import figure
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from plumbline.core.compass import QUADRANTS
from plumbline.core.errors import InputError
from plumbline.params import Prepare
from plumbline.prepare.abstention import reasons
from plumbline.serve.base_rate import DamageRate
from plumbline.serve.colours import CATEGORY_COLOURS
from plumbline.serve.map import page as drawing
from plumbline.serve.map.content import (
    MapPoints,
    description,
    map_crs,
    points_near_buildings,
    quarters,
    velocity_mm_per_year,
)
from plumbline.serve.map.layers import draw_points, groups
from plumbline.serve.map.page import write_map
from plumbline.serve.predictions import STATUSES
from plumbline.sources.track import Track
from tests.browser import browse, complaints, framed, in_browser
from tests.full_disk import largest_file
from tests.serve.made import judged_of, table_of

EAST, NORTH = 337000.0, 4285000.0
HOSTILE = "</script><img src=x onerror=\"document.title='taken'\"><b>@{text}"
EPOCHS = np.arange(np.datetime64("2020-01-03"), np.datetime64("2022-01-01"), 12)


def why_not(table: geopandas.GeoDataFrame, prepare: Prepare, unsure: np.ndarray | None = None) -> np.ndarray:
    return reasons(table["status"], table["n_points"].to_numpy(), table.geometry.to_numpy(), prepare, unsure)


def house(x: float, y: float, turn: float = 0.0) -> shapely.Polygon:
    return shapely.affinity.rotate(shapely.box(x - 10, y - 6, x + 10, y + 6), turn)


def town(count: int = 40, crs: str = "EPSG:32633") -> geopandas.GeoDataFrame:
    """Rows of ten houses; the first severe and of hostile name, some abstained, one with a yard, one in two parts."""
    footprints = [house(EAST + 40 * (i % 10), NORTH + 40 * (i // 10), 3.0 * i) for i in range(count)]
    footprints[1] = footprints[1].difference(footprints[1].centroid.buffer(2))
    footprints[2] = shapely.MultiPolygon([house(EAST + 80, NORTH), house(EAST + 80, NORTH - 25)])
    buildings = geopandas.GeoDataFrame({"building_id": [f"h{i}" for i in range(count)]}, geometry=footprints, crs=crs)
    buildings.loc[0, "building_id"] = HOSTILE
    severity = np.array([5.0, 0.2, 0.6, 1.0, 2.0] * (count // 5))
    severity[0] = 9.0
    status = ["ok"] * count
    status[5:7] = STATUSES[1:]
    probability = np.full((count, 4), 0.1)
    probability[:, 1] = 0.7
    return table_of(buildings, status, np.arange(count), probability, severity, severity / 2, severity * 2, "3")


def track(count: int, name: str = "T_044", crs: str = "EPSG:32633", seed: int = 0) -> Track:
    """Points over the town, of which point k moves by k/count mm/yr."""
    rng = np.random.default_rng(seed)
    velocity = np.arange(count) / count
    years = (EPOCHS - EPOCHS[0]).astype(float) / 365.25
    return Track(
        name,
        crs,
        EPOCHS,
        np.array([f"p{k}" for k in range(count)], object),
        rng.uniform(EAST, EAST + 360, count),
        rng.uniform(NORTH, NORTH + 120, count),
        np.zeros(count),
        np.tile([-0.5, -0.1, 0.86], (count, 1)),
        (velocity[:, None] * years).astype(np.float32),
    )


@given(
    slope=st.floats(-50, 50),
    offset=st.floats(-100, 100),
    missing=st.sets(st.integers(0, len(EPOCHS) - 1), max_size=len(EPOCHS) - 2),
)
def test_velocity_of_a_line_is_its_slope_whatever_is_missing(slope: float, offset: float, missing: set[int]) -> None:
    years = (EPOCHS - EPOCHS[0]).astype(float) / 365.25
    displacement = (offset + slope * years).astype(np.float32)[None]
    displacement[0, list(missing)] = np.nan
    assert velocity_mm_per_year(displacement, EPOCHS) == pytest.approx(slope, abs=2e-3)


def test_velocity_is_least_squares() -> None:
    displacement = np.random.default_rng(1).normal(0, 3, (4, len(EPOCHS))).astype(np.float32)
    years = (EPOCHS - EPOCHS[0]).astype(float) / 365.25
    expected = np.polyfit(years, displacement.T, 1)[0]
    np.testing.assert_allclose(velocity_mm_per_year(displacement, EPOCHS), expected, rtol=1e-5)


def test_velocity_needs_two_epochs() -> None:
    displacement = np.full((2, len(EPOCHS)), np.nan, np.float32)
    displacement[0, 3] = 1.0
    assert np.isnan(velocity_mm_per_year(displacement, EPOCHS)).all()


@pytest.mark.parametrize(("quadrant", "sign"), zip(QUADRANTS, [(1, 1), (-1, 1), (-1, -1), (1, -1)], strict=True))
def test_a_quarter_is_the_buildings_own_not_the_maps(quadrant: str, sign: tuple[int, int]) -> None:
    turn = 30.0
    part = quarters(np.array([house(100, 200, turn)], object), [quadrant])[0]
    cos, sin = np.cos(np.radians(turn)), np.sin(np.radians(turn))
    x, y = 5 * sign[0], 3 * sign[1]
    assert part.area == pytest.approx(20 * 12 / 4)
    assert part.centroid.distance(shapely.Point(100 + x * cos - y * sin, 200 + x * sin + y * cos)) < 1e-6


def test_a_quarter_is_cut_from_the_footprint_or_else_the_frames() -> None:
    corner = shapely.box(0, 0, 20, 20).difference(shapely.box(10, 10, 20, 20))
    cut = quarters(np.array([corner, corner], object), ["SW", "NE"])
    assert cut[0].equals(shapely.box(0, 0, 10, 10))
    assert cut[1].equals(shapely.box(10, 10, 20, 20))


def test_the_maps_crs_is_in_metres() -> None:
    table = town()
    assert map_crs(table, [track(3, crs="EPSG:3035")]) == pyproj.CRS("EPSG:3035")
    assert map_crs(table, []) == pyproj.CRS("EPSG:32633")
    assert map_crs(table.to_crs("EPSG:4326"), []) == pyproj.CRS("EPSG:32633")
    assert map_crs(table.to_crs("EPSG:2263"), []).axis_info[0].unit_name == "metre"  # New York, in feet


def test_points_are_cropped_and_evenly_thinned() -> None:
    many, few = track(9000, "many"), track(1000, "few", seed=1)
    bounds = np.array([EAST, NORTH, EAST + 360, NORTH + 120])
    a, b = points_near_buildings([many, few], pyproj.CRS("EPSG:32633"), bounds, 1000)
    assert (a.near, b.near) == (9000, 1000)
    assert (len(a.velocity), len(b.velocity)) == (900, 100)
    assert np.diff(a.velocity).max() == pytest.approx(10 / 9000, rel=0.2)  # velocity counts the points: no gaps
    far = points_near_buildings([many], pyproj.CRS("EPSG:32633"), bounds + 1000, 1000)[0]
    assert (far.near, far.velocity.size) == (0, 0)


def test_points_of_another_crs_land_in_the_map() -> None:
    there = track(50)
    east, north = pyproj.Transformer.from_crs("EPSG:32633", "EPSG:3035", always_xy=True).transform(
        there.easting, there.northing
    )
    other = Track("o", "EPSG:3035", EPOCHS, there.point_id, east, north, there.height, there.los, there.displacement)
    bounds = np.array([EAST, NORTH, EAST + 360, NORTH + 120])
    drawn = points_near_buildings([other], pyproj.CRS("EPSG:32633"), bounds, 1000)[0]
    np.testing.assert_allclose(drawn.east_north, np.stack([there.easting, there.northing], axis=1), atol=1e-3)


def test_descriptions() -> None:
    table = table_of(
        geopandas.GeoDataFrame({"building_id": list("abc<")}, geometry=[house(0, 0)] * 4, crs="EPSG:32633"),
        ["ok", "ok", *STATUSES[1:]],
        [14, 1200, 1, 30],
        [[0.15, 0.1, 0.05, 0.7]] * 4,
        [1.84, 0.3, 0, 0],
        [1.1, 0.2, 0, 0],
        [2.94, 0.4, 0, 0],
        "1",
        [0.93, 0.31, 0, 0],
        [[0.05, 0.9, 0.05, 0, 0, 0]] * 4,
    )
    said = [
        re.findall("<div>(.*?)</div>", description(row, said))
        for row, said in zip(table.itertuples(), ["", "", "no point", "1 < 2"], strict=True)
    ]
    severity = "Severity 1.8 permille (1.1 to 2.9)"
    where = ["Damaged with 93%", "Quadrant NE or SE", "Fails like: end"]
    assert said[0] == ["<b>a</b>", "Category 3, moderate", severity, *where, "14 points"]
    sound = ["Category 0, negligible", "Severity 0.3 permille (0.2 to 0.4)", "Damaged with 31%"]
    assert said[1] == ["<b>b</b>", *sound, "1,200 points"]
    assert said[2] == ["<b>c</b>", "Not judged: no point", "1 point"]
    assert said[3][:2] == ["<b>&lt;</b>", "Not judged: 1 &lt; 2"]


def test_every_building_has_one_line_of_the_legend() -> None:
    table = town()
    category = table["burland_category"].fillna(-1).to_numpy(np.int64)
    members = np.array([group.member for group in groups(table["status"].to_numpy(object), category)])
    assert (members.sum(axis=0) == 1).all()
    assert members.sum(axis=1).tolist()[:4] == [0, 1, 0, 1]


def test_the_map_says_what_is_wrong_with_the_building_and_what_with_its_points(tmp_path: Path) -> None:
    footprints = [house(0, 0), shapely.box(50, 0, 51, 20), shapely.box(100, 0, 500, 50), house(0, 50), house(0, 90)]
    table = table_of(
        geopandas.GeoDataFrame({"building_id": list("abcde")}, geometry=footprints, crs="EPSG:32633"),
        ["ok", *["insufficient_points"] * 4],
        [9, 3, 400, 0, 2],
        [[0.25] * 4] * 5,
        [0.1] * 5,
        [0.1] * 5,
        [2.0] * 5,
        "1",
    )
    prepare = Prepare(min_side_m=3.0)
    assert why_not(table, prepare).tolist() == [
        "ok",
        "too_small",
        "too_large",
        "no_points",
        "insufficient_points",
    ]
    write_map(judged_of(table, why_not(table, prepare)), [], tmp_path / "map.html", "Town", prepare)
    page = (tmp_path / "map.html").read_text()
    for said in (
        "shorter side is below 3 m",
        "longer side is above 300 m",
        "no usable point is on it",
        "its points are too few, all on one line, or too noisy to tell",
    ):
        assert page.count(f"Not judged: {said}") == 1 or page.count(f"Not judged: its {said}") == 1, said
    assert "too small or large: 2" in page


def test_a_building_that_may_be_damaged_is_told_apart(tmp_path: Path) -> None:
    houses = [house(0, 50 * i) for i in range(3)]
    table = table_of(
        geopandas.GeoDataFrame({"building_id": list("abc")}, geometry=houses, crs="EPSG:32633"),
        ["insufficient_points", "ok", "insufficient_points"],
        [9] * 3,
        [[0.25] * 4] * 3,
        [2.0] * 3,
        [0.1] * 3,
        [3.0] * 3,
        "1",
    )
    reason = why_not(table, Prepare(), np.array([False, False, True]))
    assert reason.tolist() == [
        "insufficient_points",
        "ok",
        "unsure_where",
    ]
    write_map(judged_of(table, reason), [], tmp_path / "map.html", "Town", Prepare())
    page = (tmp_path / "map.html").read_text()
    assert page.count("Not judged: it may be damaged, and its points do not tell in which quadrant") == 1
    assert "damaged? unsure where: 1" in page
    assert "points too few or noisy: 1" in page


def test_the_ends_of_the_velocity_bar_stand_for_all_beyond_them() -> None:
    plot = figure()
    points = MapPoints("a", np.zeros((101, 2)), np.append(np.linspace(-3, 3, 100), -40.0), 101)
    draw_points(plot, [points], np.zeros(2))
    (bar,) = plot.select(ColorBar)
    assert list(bar.ticker.ticks) == [-3, -1.5, 0, 1.5, 3]
    assert bar.major_label_overrides == {-3: "≤\u22123", 3: "≥3"}


class Tags(HTMLParser):
    """Collects start tags; what is inside of scripts and styles is no tag."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("map") / "map.html"
    write_map(
        judged_of(town()),
        [track(300, "A_<i>044</i>"), track(200, "A_117", "EPSG:32633", 1)],
        path,
        "Ours <i>& theirs</i>",
        Prepare(),
    )
    return path


def test_the_page_is_whole_and_asks_for_nothing(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    tags = Tags(text).found
    assert not [attributes for _, attributes in tags if {"src", "href", "data", "action"} & attributes.keys()]
    assert not {"img", "i", "link", "iframe", "object"} & {tag for tag, _ in tags}
    styles = "".join(re.findall("<style>(.*?)</style>", text, re.DOTALL))
    assert styles
    assert not re.search(r"@import|url\(", styles)
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in tags
    assert "<title>Ours &lt;i&gt;&amp; theirs&lt;/i&gt;</title>" in text
    assert "Model version 3 · points from 2020-01-03 to 2021-12-23" in text
    assert "38 buildings judged, 2 abstained." in text
    assert "All 500 points near the buildings can be shown." in text


def test_the_page_says_that_points_are_thinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "MAX_POINTS", 100)
    write_map(judged_of(town()), [track(300)], tmp_path / "map.html", "Thin", Prepare())
    assert "Of 300 points near the buildings, 100 can be shown, evenly thinned." in (tmp_path / "map.html").read_text()


@pytest.mark.parametrize("status", STATUSES)
def test_without_points_and_with_one_building_there_is_still_a_map(tmp_path: Path, status: str) -> None:
    one = geopandas.GeoDataFrame({"building_id": ["a"]}, geometry=[house(12.5, 41.9)], crs="EPSG:32633")
    table = table_of(one, [status], [3], [[0.25] * 4], [1.0], [0.5], [2.0], "1")
    write_map(judged_of(table.to_crs("EPSG:4326")), [], tmp_path / "map.html", "One", Prepare())
    text, judged = (tmp_path / "map.html").read_text(), status == "ok"
    assert f"{int(judged)} buildings judged" in text
    assert ("for a city like this: 10 % of the buildings are taken to be damaged, as given." in text) == judged


def test_the_page_says_what_share_of_damage_it_stands_for(tmp_path: Path) -> None:
    judged = judged_of(town())._replace(rate=DamageRate(0.031, 0.014, 0.066, True))
    write_map(judged, [], tmp_path / "map.html", "Town", Prepare())
    said = "about 3.1 % of the judged buildings are damaged (90 % interval 1.4 to 6.6 %)."
    assert f"Severities and probabilities are for a city like this: {said}" in (tmp_path / "map.html").read_text()


def test_the_worst_are_those_most_surely_damaged_and_the_sound_are_not_listed(tmp_path: Path) -> None:
    houses = [house(EAST, NORTH + 40 * i) for i in range(5)]
    frame = geopandas.GeoDataFrame({"building_id": list("abcde")}, geometry=houses, crs="EPSG:32633")
    said = ([[0.7, 0.1, 0.1, 0.1]] * 5, [1.0, 4.0, 2.0, 5.0, 0.3], [0.1] * 5, [9.0] * 5, "1")
    table = table_of(frame, ["ok"] * 4 + ["insufficient_points"], [9] * 5, *said, [0.99, 0.6, 0.8, 0.4, 0.9])
    write_map(judged_of(table), [], tmp_path / "map.html", "Town", Prepare())
    page = (tmp_path / "map.html").read_text()
    listed = re.findall(r"u2068([a-e])[^:]*: (\d+)%, ([\d.]+) permille, NE\|NW", page)
    assert [name for name, *_ in listed] == ["a", "c", "b"]
    assert listed[0][1:] == ("99", "1.0")


def test_a_disk_that_fills_up_leaves_no_page(tmp_path: Path) -> None:
    with largest_file(100_000):
        for path in (tmp_path / "map.html", tmp_path / ".map.4711.part.html"):  # as `atomic_file` names it
            with pytest.raises(InputError, match=r"/map\.html: could not be written"):
                write_map(judged_of(town()), [], path, "Full", Prepare())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.browser
@in_browser
@pytest.mark.parametrize("size", [(1400, 900), (390, 844)], ids=["desktop", "phone"])
def test_the_map_is_drawn(page: Path, tmp_path: Path, size: tuple[int, int]) -> None:
    picture = tmp_path / "map.png"
    width, height = size
    done = browse(page, tmp_path / "profile", f"--window-size={width},{height}", f"--screenshot={picture}")
    assert complaints(done.stderr) == []
    pixels = np.asarray(Image.open(picture).convert("RGB")).reshape(-1, 3)
    for code, colour in enumerate(CATEGORY_COLOURS):
        rgb = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
        # The legend's box alone has about 400 pixels.
        assert (pixels == rgb).all(axis=1).sum() > 800, f"category {code} is not seen"


USE = """
<script>
const wait = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds))
const deep = (node, selector) => [...node.querySelectorAll("*")].flatMap(child => [
    ...(child.matches(selector) ? [child] : []),
    ...(child.shadowRoot ? deep(child.shadowRoot, selector) : [])])
const use = async () => {
    while (!(window.Bokeh && Bokeh.documents.length && Bokeh.documents[0].is_idle)) await wait(50)
    const named = name => Bokeh.documents[0].get_model_by_name(name)
    const plot = named("map"), source = named("buildings"), worst = named("worst"), said = {}
    const perPixel = () => [
        (plot.x_range.end - plot.x_range.start) / plot.inner_width,
        (plot.y_range.end - plot.y_range.start) / plot.inner_height]
    said.whole = perPixel()
    worst.value = worst.options[1][0]
    await wait(500)
    said.near = perPixel()
    const i = Number(worst.value)
    said.off = [
        (plot.x_range.start + plot.x_range.end) / 2 - source.data.x[i],
        (plot.y_range.start + plot.y_range.end) / 2 - source.data.y[i]]
    said.details = document.getElementById("details").innerText
    const view = Bokeh.index.find_one(plot)
    // The page may still move when it first says that it is idle: point at where the building is by then.
    for (let tries = 0; tries < 20 && !(said.tooltips || []).length; tries++) {
        const box = view.frame.bbox, page = view.el.getBoundingClientRect()
        const at = {clientX: page.left + (box.left + box.right) / 2, clientY: page.top + (box.top + box.bottom) / 2}
        const over = {...at, bubbles: true, composed: true, pointerType: "mouse", isPrimary: true, pointerId: 1}
        deep(document, ".bk-events")[0].dispatchEvent(new PointerEvent("pointermove", over))
        await wait(250)
        const tips = deep(document, ".bk-Tooltip").map(tip => tip.shadowRoot.textContent)
        said.tooltips = tips.filter(text => text.includes("Category"))
    }
    const layers = () => plot.renderers.map(renderer => renderer.visible)
    said.start = layers()
    named("points0").active = true
    await wait(300)
    said.points = layers()
    said.bar = plot.above.map(bar => bar.visible)
    deep(document, ".bk-item")[4].dispatchEvent(new PointerEvent("pointerdown"))
    await wait(300)
    said.hidden = layers()
    said.images = deep(document, "img").length
    const loaded = performance.getEntriesByType("resource").map(entry => entry.name)
    said.loaded = loaded.filter(name => !/^(blob|data):/.test(name))
    said.title = document.title
    const result = document.createElement("pre")
    result.id = "said"
    result.textContent = JSON.stringify(said)
    document.body.append(result)
}
use().catch(error => console.error(error))
</script>
"""


@pytest.mark.browser
@in_browser
def test_the_map_can_be_used(page: Path, tmp_path: Path) -> None:
    used = tmp_path / "used.html"
    head, end, tail = page.read_text(encoding="utf-8").rpartition("</body>")
    used.write_text(head + USE + end + tail, encoding="utf-8")
    done = browse(used, tmp_path / "profile", "--window-size=1000,800", "--dump-dom")
    assert complaints(done.stderr) == []
    found = re.search('<pre id="said">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found
    said = json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    for scale in (said["whole"], said["near"]):
        assert scale[0] == pytest.approx(scale[1], rel=0.01), "metres are not square"
    assert said["near"][0] == pytest.approx(0.3)
    assert said["off"] == pytest.approx([0, 0], abs=0.1)
    for text in (said["details"], *said["tooltips"]):
        assert HOSTILE in text
        assert "Severity 9.0 permille (4.5 to 18.0)" in text
    assert len(said["tooltips"]) == 1
    assert said["start"].count(False) == 2  # the points of two tracks
    assert said["points"].count(False) == 1
    assert said["bar"] == [True]
    assert said["hidden"].count(False) == 1 + 3  # dots, footprints and damaged quadrants of category 4
    assert said["images"] == 0
    assert said["loaded"] == []
    assert said["title"] == "Ours <i>& theirs</i>"


LOOK = """
const look = async () => {
    while (!(window.Bokeh && Bokeh.documents.length && Bokeh.documents[0].is_idle))
        await new Promise(resolve => setTimeout(resolve, 50))
    await new Promise(resolve => setTimeout(resolve, 500))
    const plot = Bokeh.documents[0].get_model_by_name("map"), {x_range: x, y_range: y} = plot
    const deep = (node, selector) => [...node.querySelectorAll("*")].flatMap(child => [
        ...(child.matches(selector) ? [child] : []),
        ...(child.shadowRoot ? deep(child.shadowRoot, selector) : [])])
    const right = Object.fromEntries(deep(document, ".bk-item, .bk-title").map(
        item => [item.textContent, item.getBoundingClientRect().right]))
    parent.postMessage({range: [x.start, x.end, y.start, y.end], width: innerWidth, right}, "*")
}
look().catch(error => console.error(error))
"""


@pytest.mark.browser
@in_browser
@pytest.mark.parametrize("width", [320, 390, 450])
def test_the_legend_ends_within_a_phone(tmp_path: Path, width: int) -> None:
    table = town()
    table.loc[10:19, "status"] = STATUSES[1]
    reason = why_not(table, Prepare(), np.isin(np.arange(len(table)), [10, 11, 12]))
    write_map(judged_of(table, reason), [], tmp_path / "map.html", "Town", Prepare())
    said = framed(tmp_path / "map.html", tmp_path, LOOK, width, 844)
    assert said["width"] == width
    assert "damaged? unsure where: 3" in said["right"]
    assert {text: right for text, right in said["right"].items() if right > width} == {}


@pytest.mark.browser
@in_browser
@pytest.mark.parametrize("count", [1, 2])
def test_a_map_of_few_buildings_shows_them_whole(tmp_path: Path, count: int) -> None:
    footprints = [house(EAST, NORTH + 40 * i) for i in range(count)]
    few = geopandas.GeoDataFrame({"building_id": list("ab"[:count])}, geometry=footprints, crs="EPSG:32633")
    table = table_of(
        few, ["ok"] * count, [3] * count, [[0.25] * 4] * count, [1.0] * count, [0.5] * count, [2.0] * count, "1"
    )
    write_map(judged_of(table), [], tmp_path / "map.html", "Few", Prepare())
    west, east, south, north = framed(tmp_path / "map.html", tmp_path, LOOK, 1000, 700)["range"]
    half = [10, 6 + 20 * (count - 1)]
    assert (west < -half[0], east > half[0], south < -half[1], north > half[1]) == (True,) * 4
    assert north - south < 200


WRITTEN = """
onload = () => {
    // Where the parts of the line behind the name begin.
    const at = text => {
        const range = document.createRange(), node = document.getElementById("line").firstChild
        range.setStart(node, node.data.indexOf(text))
        range.setEnd(node, node.data.indexOf(text) + 1)
        return range.getBoundingClientRect().left
    }
    parent.postMessage({places: [":", "3.7", "7 permille", "permille", "NE"].map(at)}, "*")
}
"""


@pytest.mark.browser
@in_browser
@pytest.mark.parametrize("name", ["\u05d1\u05d9\u05ea 12", "\u202e12", "plain"])
def test_a_name_from_right_to_left_does_not_turn_the_severity(tmp_path: Path, name: str) -> None:
    one = geopandas.GeoDataFrame({"building_id": [name]}, geometry=[house(EAST, NORTH)], crs="EPSG:32633")
    table = table_of(one, ["ok"], [3], [[0.7, 0.1, 0.1, 0.1]], [3.7], [0.5], [7.0], "1")
    (worst,) = drawing._worst_first(figure(), ColumnDataSource(), table)
    line = tmp_path / "line.html"
    line.write_text(f'<meta charset="utf-8"><body><p id="line">{worst.options[1][1]}</p></body>', encoding="utf-8")
    places = framed(line, tmp_path, WRITTEN, 600, 300)["places"]
    assert places == sorted(places)
