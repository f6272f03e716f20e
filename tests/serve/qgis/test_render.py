"""QGIS itself loads what is written by its default styles, and draws what they mean."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pytest
import shapely
from shapely import affinity

from plumbline.core.compass import QUADRANTS, frames
from plumbline.prepare.abstention import UNSURE_WHERE
from plumbline.reporting.colours import DIVERGING, GREY, ORANGE, PROBABILITY_NAMES
from plumbline.serve.layers import REASON_GROUPS, scatterer_layers, unjudged_layer
from plumbline.serve.predictions import write_predictions
from plumbline.serve.qgis.styles import NOT_JUDGED, QUADRANT_LABEL, UNSURE_LABEL, field_style
from plumbline.serve.report.drawings import probability_colour
from tests.prepare.made import EPOCHS, make_track
from tests.serve.made import judged_of, table_of

rasterio = pytest.importorskip("rasterio")
PYTHON = os.environ.get("PLUMBLINE_QGIS_PYTHON", "/usr/bin/python3")
"""A Python that has PyQGIS: that of Debian's `python3-qgis`."""
CRS = "EPSG:32633"
LIMIT = 4.0
AWKWARD = 'b "0" <i>&'


@cache
def why_not() -> str | None:
    """Why QGIS cannot be asked here; None where it can."""
    try:
        asked = subprocess.run([PYTHON, "-c", "import qgis.core"], env=environment(), capture_output=True, text=True)
    except OSError as error:
        return f"no Python with QGIS ({error})"
    return f"no QGIS in {PYTHON} (apt-get install python3-qgis qgis-providers)" if asked.returncode else None


def environment() -> dict[str, str]:
    """Without this Python's own packages, which are of another version."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return kept | {"QT_QPA_PLATFORM": "offscreen"}


def render(folder: Path, *sources: str) -> list[dict[str, Any]]:
    """What `render.py` says of each source."""
    if reason := why_not():
        pytest.skip(reason)
    command = [PYTHON, str(Path(__file__).with_name("render.py")), str(folder), *sources]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def town() -> geopandas.GeoDataFrame:
    """Houses turned in all directions, two of each category, two of each reason against, and two L-shaped ones."""
    shapes = []
    for number, degrees in enumerate((0, 10, 30, 44, 45, -20, -44, 60, 90, 120, -70, 5, 17, -33, 0, 25)):
        house = shapely.box(-12, -7, 12, 7)
        if number >= 14:
            house = house.difference(shapely.box(2, 1, 12, 7))
        turned = affinity.rotate(house, degrees, origin=(0, 0))
        shapes.append(affinity.translate(turned, 337000 + 40 * (number % 8), 4285000 + 40 * (number // 8)))
    count = len(shapes)
    names = [AWKWARD, *(f"b{number}" for number in range(1, count))]
    severity = np.array([0.2, 0.2, 0.6, 0.6, 1.0, 1.0, 2.0, 2.0, 5.0, 5.0, 1, 1, 1, 1, 5.0, 5.0])
    status = np.array(["ok"] * count, object)
    status[10:12], status[12:14] = list(NOT_JUDGED)
    probability = np.full((count, 4), 0.1)
    probability[np.arange(count), np.arange(count) % 4] = 0.7
    return table_of(
        geopandas.GeoDataFrame({"building_id": names}, geometry=shapes, crs=CRS),
        list(status),
        np.full(count, 12),
        probability,
        severity,
        severity / 2,
        severity * 2,
        p_damaged=np.where(np.arange(count) % 2 == 0, 0.9, 0.25),
    )


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """The town's predictions, its scatterers and a field beneath, by QGIS."""
    if reason := why_not():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("qgis")
    table = town()
    owner = np.repeat(np.arange(len(table)), 11)
    middle = shapely.get_coordinates(shapely.centroid(table.geometry.to_numpy()))[owner]
    place = middle + np.tile(np.column_stack([np.linspace(-10, 10, 11), np.zeros(11)]), (len(table), 1))
    years = (EPOCHS - EPOCHS[0]).astype(float) / 365.25
    velocity = np.tile(np.linspace(-10, 10, 11), len(table)) + 0.1  # a series of zeros would say nothing
    track = make_track("asc 1", place, np.zeros(len(owner)), (0, 0, 1), velocity[:, None] * years)
    (layer,) = scatterer_layers([track], [owner], table)
    points = layer._replace(pieces=[piece.set_crs(CRS, allow_override=True) for piece in layer.pieces])
    reason = judged_of(table).reason
    reason[10] = UNSURE_WHERE
    left = unjudged_layer(judged_of(table, reason))
    write_predictions(table, folder / "out.gpkg", [*left, points])
    field = np.tile(np.linspace(-2 * LIMIT, 2 * LIMIT, 340, dtype=np.float32), (100, 1))
    about = {"driver": "GTiff", "height": 100, "width": 340, "count": 1, "dtype": "float32", "crs": CRS}
    transform = rasterio.transform.from_origin(336970, 4285070, 1, 1)
    with rasterio.open(folder / "field.tif", "w", **about, transform=transform, nodata=np.nan) as target:
        target.write(field, 1)
    (folder / "field.qml").write_text(field_style(LIMIT))
    names = ("scatterers_asc_1", "not_judged", "predictions")
    sources = [*(f"{folder / 'out.gpkg'}|layername={name}" for name in names), str(folder / "field.tif")]
    return table, dict(zip(("scatterers", "not_judged", "predictions", "field"), render(folder, *sources), strict=True))


OF_PREDICTIONS = [*PROBABILITY_NAMES, *(said[0] for said in NOT_JUDGED.values()), UNSURE_LABEL, QUADRANT_LABEL]


@pytest.mark.parametrize(
    ("layer", "renderer", "colours", "least", "legend"),
    [
        ("predictions", "RuleRenderer", list(map(probability_colour, (0.25, 0.9))), 300, OF_PREDICTIONS),
        ("not_judged", "RuleRenderer", [ORANGE, GREY], 50, [label for label, _ in REASON_GROUPS.values()]),
        ("scatterers", "graduatedSymbol", DIVERGING, 20, None),
    ],
)
def test_each_layer_has_its_colours_and_its_legend(drawn, layer, renderer, colours, least, legend):
    said = drawn[1][layer]
    assert said["renderer"] == renderer
    for colour in colours:
        assert said["colours"].get(colour, 0) > least, colour
    assert legend in (None, said["legend"])


def test_the_quadrants_of_damaged_buildings_are_dark(drawn):
    """Black with 60 % of opacity over the colour of their probability."""
    table, said = drawn
    assert ((table["status"] == "ok") & (table["p_damaged"] > 0.5)).any()
    assert 300 < said["predictions"]["colours"][GREY] < 5000  # lines on the colour of four houses
    wanted = 0.4 * np.array([int(probability_colour(0.9)[place : place + 2], 16) for place in (1, 3, 5)])
    found = sum(
        count
        for colour, count in said["predictions"]["colours"].items()
        if np.abs(np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) - wanted).max() <= 2
    )
    assert found > 500


def quarters(footprints: np.ndarray, quadrant: list[str]) -> np.ndarray:
    """Return the part of each footprint (B,) that lies in its named quadrant of the building frame.

    Where a footprint has nothing in that quadrant (an L-shape), it is the frame's whole quarter.
    """
    frame = frames(footprints)
    sign = np.array([(1, 1), (-1, 1), (-1, -1), (1, -1)])[[QUADRANTS.index(name) for name in quadrant]]
    corner = sign * frame.side / 2
    along_x, along_y, zero = corner[:, 0], corner[:, 1], np.zeros(len(corner))
    local = np.stack(
        [np.stack(pair, axis=1) for pair in ((zero, zero), (along_x, zero), (along_x, along_y), (zero, along_y))],
        axis=1,
    )
    cos, sin = np.cos(frame.angle)[:, None], np.sin(frame.angle)[:, None]
    east = local[..., 0] * cos - local[..., 1] * sin
    north = local[..., 0] * sin + local[..., 1] * cos
    whole = shapely.polygons(np.stack([east, north], axis=-1) + frame.centre[:, None, :])
    part = shapely.intersection(whole, shapely.make_valid(footprints))
    return np.asarray(np.where(shapely.area(part) > 0, part, whole))


def test_a_quadrant_is_where_the_compass_has_it(drawn):
    """For houses in all directions, at exactly 45 degrees too, and where an L has nothing in its quadrant."""
    table, said = drawn
    judged = table[table["status"] == "ok"]
    wanted = quarters(judged.geometry.to_numpy(), judged["quadrant"].tolist())
    assert set(judged["quadrant"]) == set(QUADRANTS)
    for name, own in zip(judged["building_id"], wanted, strict=True):
        found = shapely.from_wkt(said["predictions"]["quarters"][name])
        assert shapely.area(shapely.symmetric_difference(found, own)) < 0.01 * shapely.area(own), name


@pytest.mark.parametrize("layer", ["predictions", "scatterers", "not_judged"])
def test_every_field_has_an_alias_and_the_sld_is_read_too(drawn, layer):
    said = drawn[1][layer]
    assert all(said["fields"].values()), said["fields"]
    assert said["sld"]["read"], said["sld"]["message"]
    if layer == "scatterers":
        assert said["fields"]["D20200101"] == "Displacement 2020-01-01 (mm)"
    assert len(said["sld"]["legend"]) >= len(said["legend"]) - 1  # its quadrant is a label, which has no symbol


def test_map_tips_say_the_judgement_its_interval_or_why_there_is_none(drawn):
    tips = drawn[1]["predictions"]["tips"]
    assert '<b>b "0" &lt;i>&amp;</b>' in tips[AWKWARD]
    figures = "Damaged with 90 %<br>Category 0, negligible<br>Severity 0.20 permille (90 % interval 0.10 to 0.40)<br>"
    assert figures in tips[AWKWARD]
    assert "Quadrant " not in tips["b1"]
    assert "Quadrant NE or SW" in tips["b2"]
    assert "Not judged: its points are too few" in tips["b10"] + tips["b11"]
    assert "unlike anything the model was trained on" in tips["b12"] + tips["b13"]
    assert all("12 points" in tip for tip in tips.values())
    left = drawn[1]["not_judged"]["tips"]
    assert set(left) == {"b10", "b11", "b12", "b13"}
    assert "<b>b10</b><br>Not judged: it may be damaged" in left["b10"]
    assert "12 points" in left["b10"]


def test_a_field_has_its_colours_about_zero(drawn):
    said = drawn[1]["field"]
    assert said["renderer"] == "singlebandpseudocolor"
    colours = said["colours"]
    ends = sum(colours[one] for one in (DIVERGING[0], DIVERGING[-1]))
    assert ends > 0.4 * sum(count for colour, count in colours.items() if colour != "#ffffff")
    assert colours[DIVERGING[0]] == pytest.approx(colours[DIVERGING[-1]], rel=0.05)
    assert len(colours) > 100  # continuous between them
