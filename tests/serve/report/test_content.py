"""What a report says of a building: the figures of the predictions, limits, and what was not seen."""

import html
import json
import re
from datetime import date

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from plumbline.export.interface import PROBABILITIES
from plumbline.pretrained import PACKAGE
from plumbline.reporting.colours import GREY, PROBABILITY_COLOURS
from plumbline.serve.columns import format_share
from plumbline.serve.judgement import answer, open_model
from plumbline.serve.report.content import POSSIBLY, Page, list_order, make_report
from plumbline.serve.report.drawings import city as city_map
from plumbline.serve.report.run import report_of
from plumbline.serve.report.words import plain, signed
from plumbline.sources.city.in_memory import read_city_files
from tests.refusals import refuses
from tests.serve.report.conftest import CASE, NAMED, UNSEEN, changed


@pytest.fixture(scope="module")
def report(answered, city):
    """The report of all buildings."""
    return make_report(answered, city, list_order(answered).tolist(), "houses.gpkg", date(2024, 5, 1))


@pytest.fixture(scope="module")
def whole(report):
    """Its pages, by the building's name."""
    return {page["name"]: page for page in report["pages"]}


def page_of(answered, city, name: str = NAMED) -> Page:
    row = int((answered.judged.table["building_id"] == name).argmax())
    return make_report(answered, city, [row], "houses.gpkg", date(2024, 5, 1))["pages"][0]


def test_the_list_begins_with_the_most_probable_damage_and_ends_with_those_not_judged(answered, whole):
    table = answered.judged.table.set_index("building_id")
    p_damaged = table.loc[list(whole), "p_damaged"].to_numpy(float)
    assert (np.diff(p_damaged[:-1]) <= 0).all()
    assert list(whole)[-1] == UNSEEN
    assert [page["number"] for page in whole.values()] == list(range(1, len(table) + 1))


def test_a_page_has_the_figures_of_the_predictions(answered, whole):
    one = answered.judged.table.iloc[list_order(answered)[0]]
    page = whole[one.building_id]
    said = f"{one.severity_permille:.2f} permille ({one.severity_low:.2f} to {one.severity_high:.2f})"
    assert page["facts"][0].value == said
    assert page["category"].startswith(f"Category {one.burland_category},")
    assert f"NE {html.escape(format_share(one.p_ne))}<" in page["plan"]
    assert len(page["histories"]) == 2
    assert {row["note"] for row in page["limits"] if row["quantity"] == "tensile strain, permille"} == {
        "made for masonry buildings"
    }
    assert "a frame (building:material = concrete)" in page["kind"]


def test_what_points_could_show_is_that_of_the_predictions(answered, whole):
    for one in answered.judged.table.itertuples():
        sentences = [text for text in whole[one.building_id]["unseen"] if text.startswith("Small strain")]
        assert len(sentences) == np.isfinite(one.strain_resolution_permille)
        for text in sentences:
            assert f"{one.strain_resolution_permille:.2g} permille" in text
            assert ("the severity is below" in text) == (one.severity_permille < one.strain_resolution_permille)


def test_a_building_without_points_says_why_and_claims_nothing(whole):
    page = whole[UNSEEN]
    assert (page["judged"], page["headline"], page["facts"], page["histories"], page["course"]) == (
        False,
        "Not judged",
        [],
        [],
        "",
    )
    assert page["why"][0] == "Why it is not judged: no usable point is on it."
    assert "no strain can be estimated" in page["why"][1]
    assert "does not mean sound" in page["why"][2]
    assert {cell.value for row in page["limits"] for cell in row["cells"]} == {"not known"}


def test_a_city_seen_from_one_side_is_told_so(footprints):
    city = read_city_files([CASE / "asc.csv"], footprints)
    answered = answer(city, open_model(PACKAGE))
    seen = [page for page in report_of(answered, city, footprints, (), 6)["pages"] if page["histories"]]
    assert seen
    for page in seen:
        assert len(page["histories"]) == 1
        assert page["unseen"][1].startswith("Seen from the west only")
        assert page["whole"][0].name != "Settlement"
        assert "Not a settlement" in page["whole"][0].means
        assert page["in_list"][-1][-1:] in ("", "*")


def test_named_buildings_stand_in_the_order_of_the_list_and_must_exist(answered, city, footprints):
    names = answered.judged.table["building_id"].iloc[list_order(answered)[[5, 2]]].tolist()
    made = report_of(answered, city, footprints, names, 1)
    assert [page["name"] for page in made["pages"]] == names[::-1]
    with refuses("buildings.unknown_id", "--building nobody, none", 37):
        report_of(answered, city, footprints, ["nobody", names[0], "none"], 1)


@given(st.text(max_size=300))
def test_texts_of_users_are_short_and_hold_nothing_that_documents_may_not(text):
    found = plain(text, 50)
    assert len(found) <= 50
    assert found.isprintable() or not any(ord(letter) < 32 for letter in found)
    assert not {"\u202e", "\x00", "\ud800"} & set(found)


def test_the_probability_is_explained_by_the_building_s_own_figure(answered, whole):
    for one in answered.judged.table[answered.judged.table["status"] == "ok"].itertuples():
        about = {"< 1 %": "fewer than 1", "> 99 %": "more than 99"}.get(format_share(one.p_damaged))
        expected = about or f"about {format_share(one.p_damaged).removesuffix(' %')}"
        assert f"Of 100 buildings with this probability, {expected} should" in whole[one.building_id]["why"][0]


def test_both_histories_of_a_building_have_the_same_axes(whole):
    for page in whole.values():
        ticks = [re.findall(r">([-\d.]+)</text>", svg) for svg in page["histories"]]
        assert all(own == ticks[0] for own in ticks)


def test_limits_that_are_possible_beside_category_0_are_explained(whole):
    for page in whole.values():
        possible = any(cell.value == "possibly" for row in page["limits"] if not row["note"] for cell in row["cells"])
        is_sound = possible and page["in_list"][3].startswith("0")
        assert (POSSIBLY in page["kind"]) == is_sound


def test_the_map_is_coloured_by_the_probability_that_the_list_is_sorted_by():
    boxes = np.array([shapely.box(20 * i, 0, 20 * i + 10, 10) for i in range(7)], object)
    drawn = city_map(boxes, np.array([0.01, 0.02, 0.19, 0.49, 0.5, 0.95, np.nan]), range(7))[0]
    colours = re.findall(r'fill="(#\w{6})" fill-rule', drawn)  # the first of the list is drawn last
    assert colours[::-1] == [*PROBABILITY_COLOURS, GREY]


def test_a_client_reads_no_option_no_column_and_no_path(answered, report):
    assert "--damage-rate" in answered.judged.rate.advice
    assert re.findall(r"--[a-z]\S*|\w+\.md|docs/\S*|p_damaged|damage_rate", json.dumps(report)) == []


def test_the_list_says_how_many_buildings_it_leaves_out(answered, city, footprints):
    names = answered.judged.table["building_id"].iloc[list_order(answered)[[5, 2]]].tolist()
    first, chosen = (report_of(answered, city, footprints, own, 3, sheet="r_list.csv")["cut"] for own in ((), names))
    assert first.startswith("The list has the first 3 of 37 buildings, by probability of damage; the map shows ")
    assert first.endswith("All 37 are in the file r_list.csv.")
    assert chosen.startswith("The list has the 2 of 37 buildings")
    assert "file" not in report_of(answered, city, footprints, (), 3)["cut"]


UNSURE = {
    "status": "insufficient_points",
    "quadrant": None,
    "quadrant_confidence": np.nan,
    "quadrants": "NE|NW|SW|SE",
    **dict(zip(PROBABILITIES, (0.31, 0.28, 0.22, 0.19), strict=True)),
}
"""Columns of a building that is damaged nobody knows where."""


def test_a_building_damaged_at_an_unknown_place_keeps_its_place_in_the_list_and_its_figures(answered, city, whole):
    name = next(iter(whole))
    unsure = changed(answered, name, "unsure_where", "it may be damaged", **UNSURE)
    assert (list_order(unsure) == list_order(answered)).all()
    page, before = page_of(unsure, city, name), whole[name]
    assert (page["judged"], page["headline"], page["category"]) == (True, before["headline"], before["category"])
    assert page["in_list"][:4] == before["in_list"][:4]
    assert page["in_list"][4] == "not sure"
    (where,) = (fact for fact in page["facts"] if fact.name == "Where")
    assert where.value == "not sure: NE 31 %, NW 28 %, SW 22 %, SE 19 %"
    assert "NE 31 %" in page["plan"]
    assert 'font-weight="bold">NE' not in page["plan"]
    assert "Where it is damaged is not sure" in page["why"][-1]
    assert "about as often" not in " ".join(page["why"])
    assert page["limits"] == before["limits"]
    made = make_report(unsure, city, [0], "f", date(2024, 5, 1))
    place = "of 1 of these the place of the damage is not sure"
    assert f"judged; {place}; observed from 2019-01-04 to 2023" in made["counts"]
    assert made["unjudged"] == ["no points: 1"]


def test_a_probability_without_a_severity_is_shown_and_said_to_be_less_reliable(answered, city):
    table = answered.judged.table
    empty = {name: None for name in table if name.startswith(("p_category", "severity", "begins", *PROBABILITIES))}
    stray = changed(answered, NAMED, "out_of_distribution", "it is odd", burland_category=None, p_damaged=0.9, **empty)
    page = page_of(stray, city)
    assert (page["headline"], page["category"], page["judged"]) == ("Probability of damage: 90 %", "Not judged", False)
    assert page["in_list"][1:6] == ["90 %", "not judged", "", "", ""]
    assert "less reliable" in page["why"][-1]
    assert (page["course"], page["facts"]) == ("", [])


def test_quadrants_have_probabilities_only_where_damage_is_as_probable_as_not(answered, whole):
    for building in answered.judged.table.itertuples():
        page = whole[building.building_id]
        assert bool(re.search(r">N[EW] .*%<", page["plan"])) == (building.p_damaged >= 0.5)
        assert ("with their probabilities" in page["legend"]) == (building.p_damaged >= 0.5)


def test_a_movement_along_one_line_of_sight_is_marked(answered, city):
    slant = changed(answered, NAMED, settlement_direction="line of sight")
    page = page_of(slant, city)
    assert page["whole"][0].name == "Along the line of sight"
    assert "negative: away from the satellite" in page["whole"][0].means
    assert page["in_list"][-1].endswith("*")
    made = make_report(slant, city, [int((slant.judged.table["building_id"] == NAMED).argmax())], "f", date(2024, 5, 1))
    assert any(note.startswith("* along the line of sight") for note in made["notes"])
    upright = page_of(changed(answered, NAMED, settlement_direction="vertical"), city)
    assert upright["whole"][0].means.startswith("Vertical")
    assert not upright["in_list"][-1].endswith("*")


@pytest.mark.parametrize(
    ("against", "verdict"), [(-0.5, "No clear difference"), (-4.2, "differs from them"), (-9.0, "differs clearly")]
)
def test_a_difference_from_the_neighbours_agrees_with_its_interval(answered, city, against, verdict):
    figures = {"settlement_mm": -11.26, "against_neighbours_mm": against, "against_neighbours_std_mm": 0.9}
    fact = page_of(changed(answered, NAMED, **figures), city)["whole"][1]
    assert verdict in fact.means
    assert f"moved −{11.3 + against:.1f} mm" in fact.means


def test_a_small_footprint_is_large_enough_in_the_map_to_show_its_colour():
    boxes = np.array([shapely.box(0, 0, 5, 5), shapely.box(9000, 0, 9008, 8), shapely.box(4000, 0, 4500, 500)], object)
    drawn = city_map(boxes, np.array([0.2, 0.7, 0.3]), [0, 1])[0]
    widths = [
        np.ptp([float(x) for x in re.findall(r"[ML]?([-\d.]+)[ ,][-\d.]+", path)])
        for path in re.findall(r'<path d="([^"]+)" fill="#\w{6}" fill-rule', drawn)
    ]
    assert len(widths) == 3
    assert min(widths) >= 7.5
    assert max(widths) > 40


def test_no_figure_is_a_negative_zero():
    assert [signed(value) for value in (-0.04, 0.04, -0.06)] == ["+0.0", "+0.0", "−0.1"]
