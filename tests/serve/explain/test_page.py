"""The plan: everything inside of its drawing, in its place, said twice for who sees no colour, and escaped."""

import re
import xml.etree.ElementTree as ElementTree

import geopandas
import numpy as np
import pandas as pd
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from shapely import affinity

from plumbline.core.compass import QUADRANTS, frames
from plumbline.params import Prepare
from plumbline.prepare.abstention import reason_sentences
from plumbline.reporting.colours import DIVERGING
from plumbline.reporting.plans import DrawnBuilding, colour, draw_building, mark
from plumbline.serve.base_rate import DamageRate
from plumbline.serve.explain import page as explain_page
from plumbline.serve.explain.page import write_page
from plumbline.serve.explain.run import FIGURES, PARTS, QUESTIONS
from tests.browser import TEXTS, framed, in_browser
from tests.serve.made import table_of

RATE = DamageRate(0.031, 0.014, 0.066, True)
ROUND = shapely.Point(0, 0).buffer(9)
SHAPES = {
    "L": shapely.Polygon([(0, 0), (20, 0), (20, 6), (8, 6), (8, 14), (0, 14)]),
    "court": ROUND.difference(shapely.Point(1, 1).buffer(3)),
    "two": shapely.MultiPolygon([shapely.box(0, 0, 5, 5), shapely.box(8, 0, 12, 3)]),
    "long": shapely.box(0, 0, 180, 3),
}


def plan_of(shape, rng, count=12, beyond=4.0):
    """Scatterers in and around a footprint, in its frame."""
    frame = frames(np.array([shape], object))
    local = shapely.transform(shape, lambda place: frame.to_building(np.zeros(len(place), int), place))
    west, south, east, north = local.bounds
    xy = rng.uniform((west - beyond, south - beyond), (east + beyond, north + beyond), (count, 2))
    return DrawnBuilding(
        local,
        frame.side[0],
        float(frame.angle[0]),
        np.array([0.1, 0.2, 0.3, 0.4]),
        ["10 %", "20 %", "30 %", "40 %"],
        "SE",
        xy,
        rng.normal(0, 5, count),
        np.full(count, 1.0),
        rng.normal(0, 0.1, count),
        [f"p{i}" for i in range(count)],
    )


def coordinates(path):
    """All corners of a path of absolute M, L, H, and of circles by their first point."""
    found = [(0.0, 0.0)]
    for letter, numbers in re.findall(r"([MLH])([^MLHVZa]*)", path):
        values = [float(value) for value in numbers.split()]
        found.append((values[0], found[-1][1] if letter == "H" else values[1]))
    return np.array(found[1:])


def parse(svg):
    root = ElementTree.fromstring(svg)
    return root, [float(value) for value in root.get("viewBox").split()]


def marks(root):
    return [item for item in root.findall("path") if item.find("title") is not None]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@given(degrees=st.floats(0, 360), seed=st.integers(0, 99))
def test_all_is_drawn_within_the_view_and_in_its_place(shape, degrees, seed):
    turned = affinity.rotate(shape, degrees, origin=(0, 0))
    plan = plan_of(turned, np.random.default_rng(seed))
    root, (_, _, width, height) = parse(draw_building(plan, 10.0, "house"))
    drawn = marks(root)
    assert len(drawn) == len(plan.xy)
    for item in root.findall("path"):
        corners = coordinates(item.get("d"))
        assert (corners >= 0).all()
        assert (corners <= (width, height)).all()
    for item in root.findall("text"):
        assert 0 <= float(item.get("x")) <= width
        assert 0 <= float(item.get("y")) <= height
    # The marks lie as the scatterers do, east to the right and north up, by one scale.
    order = [plan.texts.index(item.find("title").text) for item in drawn]
    middle = np.array([_middle(item.get("d")) for item in drawn])
    scale = (np.ptp(middle[:, 0]) + np.ptp(middle[:, 1])) / (np.ptp(plan.xy[:, 0]) + np.ptp(plan.xy[:, 1]))
    wanted = plan.xy[order] * (scale, -scale)
    np.testing.assert_allclose(middle - middle.mean(0), wanted - wanted.mean(0), atol=0.5)


def _middle(path):
    """Middle of a mark: of a circle from its leftmost point and radius, of a triangle from its corners."""
    corners = coordinates(path)
    radius = re.search(r"a([\d.]+)", path)
    if radius:
        return corners[0] + (float(radius[1]), 0)
    return np.array([corners[0, 0], (corners[:, 1].min() + corners[:, 1].max()) / 2])


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_every_ring_is_drawn_and_holes_stay_empty(shape):
    root, _ = parse(draw_building(plan_of(shape, np.random.default_rng(0)), 10.0, "house"))
    outline = root.find("path")
    assert outline.get("fill-rule") == "evenodd"
    rings = sum(len(shapely.get_rings(part)) for part in shapely.get_parts(shape))
    assert outline.get("d").count("M") == outline.get("d").count("Z") == rings


def test_quadrants_are_named_at_their_corners_and_the_decided_one_stands_out():
    root, (_, _, width, height) = parse(draw_building(plan_of(SHAPES["L"], np.random.default_rng(0)), 10.0, "house"))
    labels = {item.text: item for item in root.findall("text") if item.text[:2] in QUADRANTS}
    assert sorted(labels) == ["NE 10 %", "NW 20 %", "SE 40 %", "SW 30 %"]
    for text, item in labels.items():
        assert (float(item.get("x")) > width / 2) == ("E" in text)
        assert (float(item.get("y")) < height / 2) == ("N" in text)
        assert (item.get("font-weight") == "bold") == (text == "SE 40 %")


@pytest.mark.parametrize("degrees", [-40, 0, 30])
def test_the_arrow_points_north(degrees):
    """A building turned counter-clockwise has its north clockwise of its own y axis."""
    house = affinity.rotate(shapely.box(0, 0, 20, 10), degrees, origin=(0, 0))
    root, _ = parse(draw_building(plan_of(house, np.random.default_rng(0)), 10.0, "house"))
    turned = re.search(r"rotate\(([-\d.]+)\)", root.find("g").get("transform"))
    assert float(turned[1]) == pytest.approx(degrees, abs=0.1)


@given(st.floats(-20, 20), st.floats(0.1, 5), st.floats(0, 1), st.booleans())
def test_shape_and_outline_say_what_colour_says(moved, error, share, favours):
    drawn = mark((50, 50), moved, error, share=share, favours=favours, limit_mm=10, text="<&>")
    (item,) = ElementTree.fromstring(f"<svg>{drawn}</svg>")
    corners, path = coordinates(item.get("d")), item.get("d")
    assert ("a" in path) == (abs(moved) <= error)
    if "a" not in path:
        assert (corners[0, 1] < 50) == (moved > 0)  # the tip
        assert (DIVERGING.index(item.get("fill")) > 5) >= (moved > 1)
        assert (DIVERGING.index(item.get("fill")) < 5) >= (moved < -1)
    assert (item.get("stroke-dasharray") is None) == favours
    assert item.find("title").text == "<&>"


def test_colours_are_in_order():
    drawn = [colour(value, 10) for value in np.linspace(-12, 12, 200)]
    assert list(dict.fromkeys(drawn)) == list(DIVERGING)


EVIL = '<script>alert("1")</script>&\'x'


def tables(count, category=2):
    """Buildings in a row with four scatterers each; the first is called by what a page must not take literally."""
    ids = [EVIL, *(f"b{i}" for i in range(1, count))]
    boxes = [shapely.box(30 * i, 0, 30 * i + 20, 10) for i in range(count)]
    footprints = geopandas.GeoDataFrame({"building_id": ids}, geometry=boxes, crs="EPSG:3035")
    severity = np.arange(count) + (1.0 if category == 2 else 0.6)
    figures = [[0.7, 0.1, 0.1, 0.1]] * count, severity, [0.5] * count, [9.0] * count
    table = table_of(footprints, ["ok"] * count, [4] * count, *figures, "v1", p_damaged=0.9)
    names = [f"{question}_{part}" for question in QUESTIONS for part in PARTS]
    attributions = pd.DataFrame(0.01, index=range(count), columns=names)
    buildings = pd.concat([pd.DataFrame(table.drop(columns="geometry")), attributions], axis=1)
    scatterers = pd.DataFrame(dict.fromkeys(FIGURES, 1.0), index=range(4 * count))
    scatterers["building_id"], scatterers["point_id"], scatterers["track"] = np.repeat(ids, 4), EVIL, EVIL
    return buildings, footprints, scatterers


def page_of(tmp_path, *given, title="city"):
    buildings, *places = given
    buildings = buildings.assign(explanation=buildings["status"])
    write_page(buildings, *places, tmp_path / "plan.html", title=title, rate=RATE)
    return (tmp_path / "plan.html").read_text(encoding="utf-8")


def test_a_page_loads_nothing_runs_nothing_and_shows_text_as_text(tmp_path):
    page = page_of(tmp_path, *tables(3), title=EVIL)
    assert page.startswith("<!DOCTYPE html>")
    assert not re.search(r"<script|<link|<img|<iframe|\bsrc=|\bhref=|https?:|url\(|@import| on\w+=", page)
    assert page.count("&lt;script&gt;") >= 3
    assert "4 points" in page
    assert "Severity 3.00 permille (90 % interval 0.50 to 9.00)" in page
    assert f"Severities and probabilities are for a city like this: {RATE}." in page
    for svg in re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL):
        parse(svg)


def test_where_damage_is_not_probable_the_severity_is_explained_and_no_quadrant_marked(tmp_path):
    buildings, *places = tables(1, 1)  # by its severity of category 1 all the same
    marked, unmarked = (page_of(tmp_path, buildings.assign(p_damaged=p), *places) for p in (0.9, 0.4))
    assert "moved the quadrant NE, in logits" in marked
    assert "moved the severity, in log permille" in unmarked
    assert ("NE 70 %" in marked, "NE 70 %" in unmarked) == (True, False)
    assert ('font-weight="bold"' in marked, 'font-weight="bold"' in unmarked) == (True, False)


def test_strain_over_time_is_drawn_where_it_is_known(tmp_path):
    buildings, footprints, scatterers = tables(3)
    buildings.loc[1, ["begins", "begins_early", "begins_late"]] = ["2021-05-03", "2021-02-01", "2021-08-30"]
    buildings.loc[1, ["severity_rate", "severity_rate_low", "severity_rate_high"]] = [0.42, 0.2, 0.7]
    days = ["2020-01-01", "2020-07-01", "2021-07-01", "2022-01-01"]
    values = np.array([0.0, 0.0, 0.5, 2.0])
    courses = pd.DataFrame({"building_id": "b1", "date": days, "severity_permille": values})
    courses["severity_low"], courses["severity_high"] = values / 2, values * 2
    given = {"title": "city", "rate": RATE, "courses": courses}
    buildings["explanation"] = buildings["status"]
    write_page(buildings, footprints, scatterers, tmp_path / "plan.html", **given)
    sections = (tmp_path / "plan.html").read_text(encoding="utf-8").split("<section>")[1:]
    growth = "grows by 0.42 permille a year (90 % interval 0.20 to 0.70)"
    said = f"Damage begins 2021-05 (90 % interval 2021-02 to 2021-08); {growth}"
    drawn = ["Strain over time" in part for part in sections]
    assert drawn == [said in part for part in sections] == ["<b>b1</b>" in part for part in sections]
    assert sum(drawn) == 1
    for svg in re.findall(r"<svg.*?</svg>", sections[drawn.index(True)], flags=re.DOTALL):
        parse(svg)


def test_the_most_probably_damaged_are_drawn_and_the_others_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(explain_page, "MAX_DRAWN", 2)
    page = page_of(tmp_path, *tables(5))
    assert re.findall(r"<b>(b\d)</b>", page) == ["b4", "b3"]
    assert "3 less probably damaged buildings" in page


def test_a_building_that_may_be_damaged_is_said_to_be_that_as_on_the_map(tmp_path):
    buildings, footprints, scatterers = tables(3)
    buildings.loc[:1, "status"] = "insufficient_points"
    buildings.loc[:1, "reason"] = ["unsure_where", "few_points"]
    buildings.index = pd.Index([7, 8, 9])
    may, few = (reason_sentences(Prepare())[name] for name in ("unsure_where", "few_points"))
    buildings["explanation"] = [may, few, ""]
    write_page(buildings, footprints, scatterers, tmp_path / "plan.html", title="city", rate=RATE)
    sections = (tmp_path / "plan.html").read_text(encoding="utf-8").split("<section>")[1:]
    assert [(f"Not judged: {may}" in part, f"Not judged: {few}" in part) for part in sections] == [
        (False, False),
        (False, True),
        (True, False),
    ]


def test_a_page_of_no_judged_building_says_so(tmp_path):
    page = page_of(tmp_path, *(part[:0] for part in tables(1)))
    assert "No building was judged" in page
    assert "Model version" not in page


@pytest.mark.browser
@in_browser
@pytest.mark.parametrize("width", [390, 1400])
def test_the_words_of_drawings_can_be_read_on_every_screen(tmp_path, width):
    page_of(tmp_path, *tables(2))
    said = framed(tmp_path / "plan.html", tmp_path, TEXTS, width, 844)
    assert (said["width"], said["page"]) == (width, width)
    assert "dashed: speaks against the answer" in [one["text"] for one in said["texts"]]
    assert [one for one in said["texts"] if not 11 < one["size"] < 16 or min(one["left"], one["right"]) < 0] == []
