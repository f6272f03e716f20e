"""Map, report, list, sheet and file say the same of one building, whatever the answer is."""

from __future__ import annotations

import html
import re

import geopandas
import numpy as np
import shapely
from hypothesis import given
from hypothesis import strategies as st

from plumbline.export.interface import SURE_DAMAGE
from plumbline.prepare.abstention import ABSTENTIONS, OK, UNSURE_WHERE
from plumbline.serve.columns import LIST_ORDER, VERTICAL, format_permille, format_share, has_answer
from plumbline.serve.map.content import description
from plumbline.serve.map.document import make_document
from plumbline.serve.report.listing import ListedBuilding, list_cells, sheet_cells
from plumbline.serve.report.words import facts_of, headline_of
from tests.serve.made import judged_of, table_of
from tests.serve.one_answer import assert_one_answer

BUILDINGS = 8


@st.composite
def tables(draw: st.DrawFn) -> geopandas.GeoDataFrame:
    """Predictions of a few buildings: any reason, probability, direction, beginning, and a severity that goes along."""
    reason = draw(
        st.lists(st.sampled_from([OK, OK, UNSURE_WHERE, *ABSTENTIONS]), min_size=BUILDINGS, max_size=BUILDINGS)
    )
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    status = [OK if name == OK else name if name == "out_of_distribution" else "insufficient_points" for name in reason]
    places = [shapely.box(500_000 + 30 * i, 4_000_000, 500_020 + 30 * i, 4_000_010) for i in range(BUILDINGS)]
    buildings = geopandas.GeoDataFrame({"building_id": list("abcdefgh")}, geometry=places, crs="EPSG:32633")
    p_damaged = np.where(rng.random(BUILDINGS) < 0.3, rng.choice([0.0, 0.004, 0.5, 0.996, 1.0]), rng.random(BUILDINGS))
    # A median: in category 1 or above exactly where damage is as probable as not.
    severity = np.where(p_damaged < SURE_DAMAGE, rng.uniform(0, 0.49, BUILDINGS), rng.uniform(0.5, 4, BUILDINGS))
    table = table_of(
        buildings,
        status,
        rng.integers(6, 40, BUILDINGS),
        rng.dirichlet(np.ones(4), BUILDINGS),
        severity,
        severity * rng.uniform(0, 1, BUILDINGS),
        severity * rng.uniform(1, 3, BUILDINGS),
        p_damaged=p_damaged,
        reason=reason,
    )
    table["settlement_direction"] = rng.choice([VERTICAL, "line of sight"], BUILDINGS)
    begun = has_answer(table) & (p_damaged >= SURE_DAMAGE)
    early = rng.choice(["2021-05-03", "2020-11-20"])
    table.loc[begun, ["begins", "begins_early", "begins_late"]] = ["2021-05-03", early, "2021-09-30"]
    return table


@given(tables())
def test_one_building_has_one_answer_wherever_it_is_shown(table: geopandas.GeoDataFrame) -> None:
    document = make_document(judged_of(table), [], "Town")
    on_map = {one["properties"]["building_id"]: one["properties"] for one in document["buildings"]["features"]}
    in_order = table.sort_values(list(LIST_ORDER), ascending=False, na_position="last", kind="stable")
    assert list(on_map) == in_order["building_id"].tolist()
    for (_, building), is_answered in zip(table.iterrows(), has_answer(table), strict=True):
        listed = ListedBuilding(building, "why")
        assert_one_answer(building, on_map[building.building_id], list_cells(listed), sheet_cells(listed))
        panel = html.unescape(re.sub("<[^>]*>", "\n", description(building, "why")))
        percent = format_share(building.p_damaged)
        assert f"Damaged with {percent}" in panel
        assert headline_of(building) == f"Probability of damage: {percent}"
        if not is_answered:
            assert "Not judged" in panel
            continue
        severity, low = (format_permille(building[f"severity_{end}"]) for end in ("permille", "low"))
        assert f"Severity {severity} permille (90 % interval {low}" in panel
        is_placed = building.p_damaged >= SURE_DAMAGE and building.reason == OK
        assert ("Quadrant " in panel) == is_placed
        facts = {fact.name: fact.value for fact in facts_of(building)}
        assert ("Where" in facts) == (is_placed or building.reason == UNSURE_WHERE)
