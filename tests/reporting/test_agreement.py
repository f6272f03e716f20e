"""The picture of one measurement against another."""

import re
from xml.etree import ElementTree

from plumbline.reporting.agreement import LEFT, Pair, Panel, agreement_chart


def texts(drawing):
    return [one.text for one in ElementTree.fromstring(drawing).iter("{http://www.w3.org/2000/svg}text")]


def test_the_key_has_colours_bars_and_what_was_done():
    found = " ".join(texts(agreement_chart("Two", [Panel("Tilt", "levelling", "radar", [])], "2 mm are taken off.")))
    for part in ("both agree", "they differ", "Bars: 90 % intervals", "2 mm are taken off."):
        assert part in found


def test_what_cannot_be_below_0_has_no_axis_and_no_bar_there():
    pair = Pair("house", 0.1, 0.2, 0.5, 0.4, 0.3, True)
    drawn = agreement_chart("Tilt", [Panel("Tilt", "levelling", "radar", [pair], 0.0)])
    assert not any(text.startswith("-") for text in texts(drawn))
    left, right = map(float, re.search(r'd="M([\d.]+) [\d.]+H([\d.]+)M', drawn).groups())
    assert left == LEFT
    assert right > left


def test_labels_of_large_figures_are_whole_and_stay_within_the_picture():
    drawn = agreement_chart("S", [Panel("S", "levelling", "radar", [Pair("h", -36_000, -5, 1, 1, 1, False)])])
    lowest = next(text for text in texts(drawn) if text.startswith("-"))
    assert lowest == "-40000"
    assert len(lowest) * 8 < LEFT - 6  # px of a letter
