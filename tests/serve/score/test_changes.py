"""Who has changed between two deliveries, told by hand-made tables."""

from __future__ import annotations

import csv
from types import SimpleNamespace

import geopandas
import pytest
import shapely

from plumbline.serve.score.changes import COLUMNS, compare_predictions
from plumbline.serve.score.publish import _warn_of_tracks
from tests.refusals import warned
from tests.serve.made import table_of

SE = (0.1, 0.1, 0.1, 0.7)
NE = (0.7, 0.1, 0.1, 0.1)


def table(crs: str = "EPSG:3035", **buildings) -> geopandas.GeoDataFrame:
    """Buildings by name: (place, status, quadrants, severity, low, high)."""
    rows = list(buildings.values())
    square = [shapely.box(4e6 + 50 * row[0], 3e6, 4e6 + 50 * row[0] + 10, 3e6 + 10) for row in rows]
    frame = geopandas.GeoDataFrame({"building_id": list(buildings)}, geometry=square, crs="EPSG:3035").to_crs(crs)
    return table_of(
        frame,
        [row[1] for row in rows],
        [9] * len(rows),
        [row[2] for row in rows],
        *zip(*(row[3:] for row in rows), strict=True),
        "v",
    )


def test_each_kind_of_change_is_told_the_surest_first():
    before = table(
        same=(0, "ok", SE, 2.0, 1.0, 3.0),
        up=(1, "ok", SE, 1.0, 0.6, 1.8),
        up_surely=(2, "ok", SE, 0.1, 0.0, 0.4),
        down=(3, "ok", SE, 4.0, 2.0, 6.0),
        turned=(4, "ok", SE, 2.0, 1.0, 3.0),
        low=(5, "ok", SE, 0.1, 0.0, 0.4),
        lost=(6, "ok", SE, 2.0, 1.0, 3.0),
        found=(7, "insufficient_points", SE, 0, 0, 0),
        gone=(8, "ok", SE, 1, 1, 1),
    )
    after = table(
        same=(0, "ok", SE, 2.5, 1.0, 4.0),
        up=(1, "ok", SE, 2.9, 1.7, 5.0),
        up_surely=(2, "ok", SE, 1.0, 0.5, 1.4),
        down=(3, "ok", SE, 1.0, 0.5, 2.5),
        turned=(4, "ok", NE, 2.0, 1.0, 3.0),
        low=(5, "ok", NE, 0.2, 0.0, 0.4),
        lost=(6, "out_of_distribution", SE, 0, 0, 0),
        found=(7, "ok", SE, 2, 1, 3),
        newer=(9, "ok", SE, 1, 1, 1),
    )
    changes = compare_predictions(before, after)
    told = changes.table.set_index("building_id")
    assert tuple(changes.table.columns) == COLUMNS
    assert dict(told["what"]) == {
        "up_surely": "category",
        "up": "category",
        "turned": "quadrant",
        "down": "category",
        "found": "status",
        "lost": "status",
    }
    assert list(told.index) == ["up_surely", "up", "turned", "down", "found", "lost"]
    assert told["intervals_overlap"].tolist()[:4] == [False, True, True, True]
    assert told["intervals_overlap"].isna().tolist() == [False] * 4 + [True] * 2
    assert (told.loc["up", "severity_high_before"], told.loc["up", "severity_low_after"]) == (1.8, 1.7)
    assert changes.counts == {
        "compared": 8,
        "changed": 6,
        "status": 2,
        "category_up": 2,
        "category_down": 1,
        "quadrant": 1,
        "beyond_intervals": 1,
        "new": 1,
        "gone": 1,
        "moved": 0,
    }


def test_categories_are_whole_numbers_also_beside_one_that_is_missing():
    before = table(a=(0, "ok", SE, 0.1, 0.0, 0.3), b=(1, "insufficient_points", SE, 0, 0, 0))
    after = table(a=(0, "out_of_distribution", SE, 0, 0, 0), b=(1, "ok", SE, 4.0, 2.0, 6.0))
    header, *lines = compare_predictions(before, after).table.to_csv(index=False).splitlines()
    told = {line["building_id"]: line for line in csv.DictReader([header, *lines])}
    assert [(told[name]["burland_category_before"], told[name]["burland_category_after"]) for name in "ab"] == [
        ("0", ""),
        ("", "4"),
    ]


ROWS = {"here": (0, "ok", SE, 2.0, 1.0, 3.0), "there": (3, "ok", SE, 0.1, 0.0, 0.2)}
UNJUDGED = (1, "insufficient_points", SE, 0, 0, 0)


@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [
        (table("EPSG:4326", a=ROWS["here"], b=UNJUDGED), table(a=ROWS["here"], b=UNJUDGED), {"compared": 2}),
        (table(a=ROWS["here"]), table(a=ROWS["there"]), {"moved": 1}),
        (table(a=ROWS["here"]), table(b=ROWS["there"]), {"new": 1, "gone": 1}),
    ],
    ids=["the same in another CRS", "a name that went to another house", "nothing in common"],
)
def test_what_is_the_same_or_another_house_is_no_change(before, after, counts):
    changes = compare_predictions(before, after)
    assert not len(changes.table)
    assert {name: count for name, count in changes.counts.items() if count} == counts


@pytest.mark.parametrize("severity", [0.49, 0.51])
def test_a_quadrant_below_category_one_is_no_quadrant(severity):
    changes = compare_predictions(table(a=(0, "ok", SE, 0.1, 0, 9)), table(a=(0, "ok", NE, severity, 0, 9)))
    assert [row.what for row in changes.table.itertuples()] == (["category"] if severity > 0.5 else [])


@pytest.mark.parametrize(
    ("now", "is_warned"), [([-0.6, 0.6], False), ([-0.6], True), ([-0.6, -0.5], True), ([-0.6, 0.6, 0.5], True)]
)
def test_a_direction_or_a_track_that_is_missing_or_new_is_announced(caplog, now, is_warned):
    def tracks(east):
        return [{"name": f"t{number}", "los": [x, 0.1, 0.8]} for number, x in enumerate(east)]

    _warn_of_tracks(SimpleNamespace(folder_name="first", tracks=tracks([0.6, -0.6])), tracks(now))
    assert bool(warned(caplog, "delivery.other_tracks", "first", "east + west")) == is_warned
