"""What a report says of a building: the figures of the predictions, limits, and what was not seen."""

import re
from datetime import date

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from plumbline.core.errors import InputError
from plumbline.pretrained import PACKAGE
from plumbline.serve.judgement import answer, open_model
from plumbline.serve.report.content import list_order, make_report
from plumbline.serve.report.drawings import city as city_map
from plumbline.serve.report.run import MOST, report_of
from plumbline.serve.report.words import percent, plain
from plumbline.sources.city.in_memory import read_city_files
from tests.serve.report.conftest import CASE, UNSEEN


@pytest.fixture(scope="module")
def whole(answered, city):
    """The report of all buildings, by name."""
    made = make_report(answered, city, list_order(answered).tolist(), "houses.gpkg", date(2024, 5, 1))
    return {page.name: page for page in made.pages}


def test_the_list_begins_with_the_most_probable_damage_and_ends_with_those_not_judged(answered, whole):
    table = answered.judged.table.set_index("building_id")
    p_damaged = table.loc[list(whole), "p_damaged"].to_numpy(float)
    assert (np.diff(p_damaged[:-1]) <= 0).all()
    assert list(whole)[-1] == UNSEEN
    assert [page.number for page in whole.values()] == list(range(1, len(table) + 1))


def test_a_page_has_the_figures_of_the_predictions(answered, whole):
    one = answered.judged.table.iloc[list_order(answered)[0]]
    page = whole[one.building_id]
    said = f"{one.severity_permille:.2f} permille ({one.severity_low:.2f} to {one.severity_high:.2f})"
    assert page.facts[0].value == said
    assert page.category.startswith(f"Category {one.burland_category},")
    assert f"NE {one.p_ne:.2f}" in page.plan
    assert len(page.histories) == 2
    assert {row.note for row in page.limits if row.quantity == "tensile strain, permille"} == {
        "made for masonry buildings"
    }
    assert "a frame (building:material = concrete)" in page.kind


def test_what_points_could_show_is_that_of_the_predictions(answered, whole):
    for one in answered.judged.table.itertuples():
        said = f"Small strain: these points could show {one.strain_resolution_permille:.2g} permille at best."
        assert (said in whole[one.building_id].unseen) == np.isfinite(one.strain_resolution_permille)


def test_a_building_without_points_says_why_and_claims_nothing(whole):
    page = whole[UNSEEN]
    assert (page.judged, page.headline, page.facts, page.histories, page.course) == (False, "Not judged", [], [], "")
    assert page.why[0] == "Why: no usable point is on it."
    assert "no strain can be told" in page.why[1]
    assert "does not mean sound" in page.why[2]
    assert {cell.value for row in page.limits for cell in row.cells} == {"not known"}


def test_a_city_seen_from_one_side_is_told_so(footprints):
    city = read_city_files([CASE / "asc.csv"], footprints)
    answered = answer(city, open_model(PACKAGE))
    seen = [page for page in report_of(answered, city, footprints, (), MOST).pages if page.histories]
    assert seen
    for page in seen:
        assert len(page.histories) == 1
        assert page.unseen[1].startswith("Seen from the west only")
    assert any("line of sight" in page.whole[0].means for page in seen)


def test_named_buildings_stand_in_the_order_of_the_list_and_must_exist(answered, city, footprints):
    names = answered.judged.table["building_id"].iloc[list_order(answered)[[5, 2]]].tolist()
    made = report_of(answered, city, footprints, names, 1)
    assert [page.name for page in made.pages] == names[::-1]
    with pytest.raises(InputError, match="--building nobody, none: no such building_id among the 37"):
        report_of(answered, city, footprints, ["nobody", names[0], "none"], 1)


@given(st.text(max_size=300))
def test_texts_of_users_are_short_and_hold_nothing_that_documents_may_not(text):
    found = plain(text, 50)
    assert len(found) <= 50
    assert found.isprintable() or not any(ord(letter) < 32 for letter in found)
    assert not {"\u202e", "\x00", "\ud800"} & set(found)


def test_the_probability_is_explained_by_the_building_s_own_figure(answered, whole):
    for one in answered.judged.table[answered.judged.table["status"] == "ok"].itertuples():
        about = {"< 1 %": "fewer than 1", "> 99 %": "more than 99"}.get(percent(one.p_damaged))
        expected = about or f"about {percent(one.p_damaged).removesuffix(' %')}"
        assert f"Of 100 buildings with this probability, {expected} should" in whole[one.building_id].why[0]


def test_both_histories_of_a_building_have_the_same_axes(whole):
    for page in whole.values():
        ticks = [re.findall(r">([-\d.]+)</text>", svg) for svg in page.histories]
        assert all(own == ticks[0] for own in ticks)


def test_limits_that_are_possible_beside_category_0_are_explained(whole):
    for page in whole.values():
        possible = any(cell.value == "possibly" for row in page.limits if not row.note for cell in row.cells)
        assert ("Category 0 is the most probable" in page.kind) == (possible and "Category 0" in page.category)


def test_a_missing_figure_against_neighbours_has_its_reason(answered, city, whole):
    assert [one.means for one in whole[UNSEEN].whole if one.name == "Against neighbours"] == [
        "Its own settlement is not known."
    ]
    rows = list_order(answered).tolist()
    full, without = (make_report(answered, city, own, "f", date(2024, 5, 1)).missing for own in (rows, rows[:1]))
    assert "fewer than 3 buildings around it" in full
    assert not without


def test_the_scale_of_the_map_stands_below_the_buildings():
    boxes = np.array([shapely.box(0, 0, 10, 10), shapely.box(80, 80, 90, 90)], object)
    drawn = city_map(boxes, np.array([0, 1]), [0, 1])
    inside, below = drawn.split("</g>", 1)[0], drawn.rsplit("</g>", 1)[1]
    assert " m</text>" in below
    assert "fill-opacity" not in inside
