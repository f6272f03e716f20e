"""The styles are well-formed, name all fields, and have the colours of the map."""

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import numpy as np
import pytest

from plumbline.prepare.abstention import STATUSES, UNSURE_WHERE
from plumbline.reporting.colours import CATEGORY_COLOURS, DIVERGING, GREY, ORANGE, PROBABILITY_COLOURS
from plumbline.serve.columns import COLUMNS
from plumbline.serve.layers import HATCHINGS, unjudged_layer
from plumbline.serve.map.document import PAGE
from plumbline.serve.place.causes import CauseEstimate
from plumbline.serve.place.moving_areas import COLUMNS as AREAS
from plumbline.serve.qgis import documents as qml
from plumbline.serve.qgis.styles import (
    NOT_JUDGED,
    SCATTERER_ALIASES,
    SHOWS_QUADRANT,
    STRAIN,
    UNSURE_LABEL,
    Hatching,
    areas_style,
    causes_style,
    field_style,
    map_tip,
    predictions_style,
    scatterers_style,
)
from tests.serve.made import judged_of
from tests.serve.test_predictions import predictions

SLD = {"sld": "http://www.opengis.net/sld", "se": "http://www.opengis.net/se", "ogc": "http://www.opengis.net/ogc"}
EPOCHS = ["D20200103", "D20200115"]


def parsed(document):
    return ElementTree.fromstring(document)


def option(element, name):
    return [one.get("value") for one in element.iter("Option") if one.get("name") == name]


def unjudged():
    """Style of the layer of a building that is not judged."""
    table = predictions(["a"], ["out_of_distribution"])
    (layer,) = unjudged_layer(judged_of(table, np.array(["out_of_distribution"], object)))
    return layer.style


def styles():
    return {
        "predictions": predictions_style("predictions"),
        "scatterers_a": scatterers_style("scatterers_a", 7, EPOCHS),
        "not_judged": unjudged(),
        "moving_areas": areas_style("moving_areas", 7),
        "causes": causes_style("causes"),
    }


@pytest.mark.parametrize(("layer", "style"), styles().items())
def test_every_symbol_of_the_legend_is_there_once(layer, style):
    root = parsed(style.qml)
    assert root.tag == "qgis"
    renderer = root.find("renderer-v2")
    lines = [*renderer.iter("rule"), *renderer.iter("range")]
    assert [line.get("symbol") for line in lines] == [str(number) for number in range(len(lines))]
    assert [one.get("name") for one in renderer.find("symbols")] == [line.get("symbol") for line in lines]
    sld = parsed(style.sld)
    assert sld.find("sld:NamedLayer/se:Name", SLD).text == layer
    named = [one.text for one in sld.iterfind(".//se:Rule/se:Name", SLD)]
    assert named == [line.get("label") for line in lines]


def test_causes_of_all_kinds_have_one_style():
    """With the code of one geometry, QGIS would refuse it for the others."""
    root = parsed(causes_style("causes").qml)
    assert root.find("layerGeometryType") is None
    kinds = [one.get("type") for one in root.find("renderer-v2/symbols")]
    assert kinds == ["marker", "line", "fill"] * 2


def test_probabilities_have_the_classes_and_colours_of_the_map():
    style, classes = predictions_style("p"), PAGE["probability_classes"]
    rules = list(parsed(style.qml).iter("rule"))
    symbols = list(parsed(style.qml).find("renderer-v2/symbols"))
    for rule, symbol, name, colour in zip(rules, symbols, classes["names"], classes["colours"], strict=False):
        assert rule.get("label") == name
        assert option(symbol, "color") == [qml.rgba(colour)]
    ends = [re.findall(r'"p_damaged" >= (\S+) AND "p_damaged" < (\S+)', rule.get("filter"))[0] for rule in rules[:6]]
    assert [float(low) for low, _ in ends] == [0, *classes["edges"]]
    assert [float(high) for _, high in ends[:-1]] == classes["edges"]
    assert float(ends[-1][1]) > 1
    fills = [one.text for one in parsed(style.sld).iterfind(".//se:Fill/se:SvgParameter", SLD)]
    assert fills[:6] == classes["colours"]


def test_a_map_tip_has_the_decimals_of_the_report_and_a_quadrant_by_the_rule_of_all():
    tip = map_tip()
    assert all(STRAIN.format(f'"severity_{part}"') in tip for part in ("permille", "low", "high"))
    assert f"if({SHOWS_QUADRANT}, 'Quadrant '" in tip
    assert "'&lt; 1'" in tip


OF_PREDICTIONS = [
    Hatching("b_diagonal", "slash", GREY),
    Hatching("diagonal_x", "x", GREY),
    Hatching("f_diagonal", "backslash", ORANGE),
]


@pytest.mark.parametrize(
    ("style", "first", "hatchings"),
    [(predictions_style("p"), 6, OF_PREDICTIONS), (unjudged(), 0, list(HATCHINGS.values()))],
    ids=["predictions", "not_judged"],
)
def test_what_is_not_judged_is_hatched_by_status_or_reason(style, first, hatchings):
    symbols = list(parsed(style.qml).find("renderer-v2/symbols"))[first : first + len(hatchings)]
    shapes = [one.text for one in parsed(style.sld).iterfind(".//se:WellKnownName", SLD)]
    looks = [(option(one, "style")[-1], option(one, "color")[-1]) for one in symbols]
    assert looks == [(one.brush, qml.rgba(one.colour)) for one in hatchings]
    assert shapes == [one.shape for one in hatchings]


def test_who_is_not_judged_is_told_by_status_and_reason():
    """One that is unsure where has the colour of its probability, and orange lines."""
    assert tuple(NOT_JUDGED) == STATUSES[1:]
    rules = {rule.get("label"): rule.get("filter") for rule in parsed(predictions_style("p").qml).iter("rule")}
    assert rules[UNSURE_LABEL] == f"\"reason\" = '{UNSURE_WHERE}'"
    assert "IS NULL" in rules[NOT_JUDGED["insufficient_points"][0]]


@pytest.mark.parametrize(
    ("style", "fields"),
    [
        (predictions_style("p"), {"fid", *COLUMNS} - {"geometry"}),
        (scatterers_style("s", 2, EPOCHS), {*SCATTERER_ALIASES, *EPOCHS}),
        (areas_style("a", 2), {"fid", *AREAS} - {"geometry"}),
        (causes_style("c"), {"fid", *CauseEstimate._fields} - {"geometry"}),
    ],
    ids=["predictions", "scatterers", "areas", "causes"],
)
def test_every_field_has_an_alias_with_its_unit(style, fields):
    aliases = {one.get("field"): one.get("name") for one in parsed(style.qml).iter("alias")}
    assert set(aliases) == fields
    assert all(aliases.values())
    units = {"severity_permille": "permille", "D20200103": "mm", "velocity": "mm/yr"}
    assert all(aliases[name].endswith(f"({unit})") for name, unit in units.items() if name in aliases)


def test_the_ranges_of_velocity_leave_none_out_and_are_alike_about_zero():
    ranges = list(parsed(scatterers_style("s", 7, EPOCHS).qml).iter("range"))
    lower, upper = ([float(one.get(name)) for one in ranges] for name in ("lower", "upper"))
    assert lower[1:] == upper[:-1]
    assert lower == [-value for value in reversed(upper)]
    assert lower[0] <= -1e6
    symbols = parsed(scatterers_style("s", 7, EPOCHS).qml).find("renderer-v2/symbols")
    assert [option(one, "color")[0] for one in symbols] == [qml.rgba(colour) for colour in DIVERGING]


@pytest.mark.parametrize("limit", [0.1, 3.21, 1234.5])
def test_the_ramp_of_a_field_is_about_zero_and_ends_at_the_limit(limit):
    root = parsed(field_style(limit))
    shader = root.find("pipe/rasterrenderer/rastershader/colorrampshader")
    values = [float(one.get("value")) for one in shader]
    assert values[0] == pytest.approx(-limit)
    assert values[-1] == pytest.approx(limit)
    assert values[5] == 0
    assert values == sorted(values)
    assert [one.get("color") for one in shader] == list(DIVERGING)
    assert qml.MARK in field_style(limit)


def test_the_colours_of_all_ramps_stay_apart_for_colour_blind_readers():
    """By their lightness alone: it falls, and of the velocities to both sides."""

    def lightness(colour):
        red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
        return 0.299 * red + 0.587 * green + 0.114 * blue

    for colours in (CATEGORY_COLOURS, PROBABILITY_COLOURS):
        assert all(lightness(one) - lightness(other) > 20 for one, other in pairwise(colours))
    middle = len(DIVERGING) // 2
    ramp = [lightness(colour) for colour in DIVERGING]
    assert ramp[: middle + 1] == sorted(ramp[: middle + 1])
    assert ramp[middle:] == sorted(ramp[middle:], reverse=True)
    assert all(re.fullmatch("#[0-9a-f]{6}", colour) for colour in (*DIVERGING, *CATEGORY_COLOURS))
