"""A chart is sound XML, and its curves stand where their numbers put them."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from plumbline.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Line, Mark, line_chart

SVG = "{http://www.w3.org/2000/svg}"


def drawn(*lines, **more):
    return ElementTree.fromstring(line_chart("a < b & c", "x", "y", lines, **more))


def test_a_curve_goes_from_corner_to_corner():
    (line,) = drawn(Line("one", [(0, 0), (0.5, 1), (1, 1)])).findall(f"{SVG}polyline")
    points = [tuple(map(float, pair.split(","))) for pair in line.get("points").split()]
    middle = (LEFT + WIDTH - RIGHT) / 2
    assert points == [(LEFT, HEIGHT - BOTTOM), (middle, TOP), (WIDTH - RIGHT, TOP)]


def test_ranges_are_those_asked_for():
    (line,) = drawn(Line("one", [(2, 5)]), x_range=(2, 4), y_range=(5, 6)).findall(f"{SVG}polyline")
    assert line.get("points") == f"{LEFT:.1f},{HEIGHT - BOTTOM:.1f}"


def test_a_dashed_curve_has_the_colour_of_the_one_before():
    lines = drawn(Line("a", [(0, 0)]), Line("a, by hand", [(0, 1)], dashed=True), Line("b", [(1, 1)]))
    colours = [line.get("stroke") for line in lines.findall(f"{SVG}polyline")]
    assert colours[0] == colours[1] != colours[2]
    assert [bool(line.get("stroke-dasharray")) for line in lines.findall(f"{SVG}polyline")] == [False, True, False]


@pytest.mark.parametrize("words", ["a < b & c", "x", "y", "one <i>", "bar & goal"])
def test_words_are_shown_as_they_are(words):
    chart = drawn(Line("one <i>", [(0, 0)]), marks=[Mark("bar & goal", 0.7, 0.9)])
    assert words in [part.text for part in chart.iter(f"{SVG}text")]
