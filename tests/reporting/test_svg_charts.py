"""A chart is sound XML, and its curves stand where their numbers put them."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from plumbline.reporting.charts import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Estimate,
    Line,
    course_chart,
    interval_chart,
    line_chart,
)

SVG = "{http://www.w3.org/2000/svg}"


def drawn(*lines, **more):
    return ElementTree.fromstring(line_chart("a < b & c", "x", "y", lines, **more))


def test_a_curve_goes_from_corner_to_corner():
    (line,) = drawn(Line("one", [(0, 0), (0.5, 1), (1, 1)])).findall(f"{SVG}polyline")
    points = [tuple(map(float, pair.split(","))) for pair in line.get("points").split()]
    middle = (LEFT + WIDTH - RIGHT) / 2
    assert points == [(LEFT, HEIGHT - BOTTOM), (middle, TOP), (WIDTH - RIGHT, TOP)]


def test_a_dashed_curve_has_the_colour_of_the_one_before():
    lines = drawn(Line("a", [(0, 0)]), Line("a, by hand", [(0, 1)], dashed=True), Line("b", [(1, 1)]))
    colours = [line.get("stroke") for line in lines.findall(f"{SVG}polyline")]
    assert colours[0] == colours[1] != colours[2]
    assert [bool(line.get("stroke-dasharray")) for line in lines.findall(f"{SVG}polyline")] == [False, True, False]


@pytest.mark.parametrize("words", ["a < b & c", "x", "y", "one <i>"])
def test_words_are_shown_as_they_are(words):
    chart = drawn(Line("one <i>", [(0, 0)]))
    assert words in [part.text for part in chart.iter(f"{SVG}text")]


def estimates(*rows, **more):
    return ElementTree.fromstring(interval_chart("a < b", rows, **more))


def test_an_interval_is_a_line_about_its_place():
    chart = estimates(Estimate("one", 2.0, 1.0, 3.0), Estimate("alone", 1.5))
    first, second = chart.findall(f"{SVG}circle")
    (line,) = (part for part in chart.findall(f"{SVG}line") if part.get("stroke-width"))
    low, place, high = (float(value) for value in (line.get("x1"), first.get("cx"), line.get("x2")))
    assert place - low == pytest.approx(high - place, abs=0.2)
    assert float(second.get("cx")) == pytest.approx((low + place) / 2, abs=0.2)
    assert 0 < low < high < WIDTH


def test_the_figures_of_a_scale_end_within_the_chart():
    for value in (0.06, 1234.5, -0.012):
        chart = estimates(Estimate("one", value, 0.99 * value, 1.01 * value))
        scale = [part for part in chart.findall(f"{SVG}text") if part.get("text-anchor") == "middle"]
        half = [len(part.text) * 7 / 2 for part in scale]  # no figure of 12 px is wider than 7
        assert all(float(part.get("x")) + own <= WIDTH for part, own in zip(scale, half, strict=True))


def test_two_charts_on_one_page_share_no_name():
    names = [ElementTree.fromstring(line_chart(title, "x", "y", [])).find(f"{SVG}clipPath").get("id") for title in "ab"]
    assert names[0] != names[1]


def test_a_value_over_time_ends_at_its_last_day_within_its_band():
    days = ["2020-01-01", "2021-01-01", "2022-01-01"]
    drawing = ElementTree.fromstring(course_chart("a < b", days, low=[0, 0, 1], value=[0, 1, 2], high=[0, 2, 4]))
    line, band = (
        [tuple(map(float, pair.split(","))) for pair in drawing.find(f"{SVG}{kind}").get("points").split()]
        for kind in ("polyline", "polygon")
    )
    assert [line[0][0], line[-1][0]] == [LEFT, WIDTH - RIGHT]
    assert line[1][0] == pytest.approx((LEFT + WIDTH - RIGHT) / 2, abs=0.5)
    high, low = band[:3], band[:2:-1]
    assert all(top[1] <= middle[1] <= bottom[1] for top, middle, bottom in zip(high, line, low, strict=True))
    assert {"2021", "2022"} <= {text.text for text in drawing.findall(f"{SVG}text")}
