"""The predictions table keeps the contract in all four formats, and never leaves half a file."""

import json
import re
from functools import partial
from pathlib import Path

import geopandas
import numpy as np
import pandas as pd
import pytest
import shapely
from hypothesis import example, given, settings
from hypothesis import strategies as st

from plumbline.core.errors import InputError, NotWritable
from plumbline.export.interface import CATEGORIES, PROBABILITIES
from plumbline.prepare.abstention import STATUSES
from plumbline.serve.columns import COLUMNS, DTYPES, JUDGEMENT, LIST_ORDER, has_answer
from plumbline.serve.predictions import (
    SUFFIXES,
    check_output,
    make_predictions,
    named_mechanism,
    probable_set,
    read_predictions,
    write_predictions,
)
from tests.refusals import refuses
from tests.serve.made import table_of

CONTRACT = (
    "building_id status reason n_points quadrant quadrant_confidence quadrants p_ne p_nw p_sw p_se severity_permille "
    "severity_low severity_high burland_category p_damaged p_category_0 p_category_1 p_category_2 p_category_3 "
    "p_category_4 mechanism damage_rate cause begins begins_early begins_late "
    "severity_rate severity_rate_low severity_rate_high p_accelerating settlement_mm settlement_std_mm "
    "settlement_rate_mm_year settlement_direction tilt_mm_m tilt_std_mm_m tilt_towards against_neighbours_mm "
    "against_neighbours_std_mm strain_resolution_permille model_version geometry"
)
AWKWARD_IDS = ["007", "NA", "2024-01-01", '{"a": 1}', 'comma, "quote"\nline', "Straße 7", "𠠀", "<script>"]


def buildings(ids: list[str], crs: str = "EPSG:32633") -> geopandas.GeoDataFrame:
    boxes = [shapely.box(337000 + 30 * i, 4285000, 337020 + 30 * i, 4285012, ccw=False) for i in range(len(ids))]
    return geopandas.GeoDataFrame({"building_id": ids}, geometry=boxes, crs=crs)


def predictions(
    ids: list[str], status: list[str] | None = None, seed: int = 0, reason: list[str] | None = None
) -> geopandas.GeoDataFrame:
    rng = np.random.default_rng(seed)
    count = len(ids)
    severity = rng.uniform(0, 5, count)
    return table_of(
        buildings(ids),
        status or [STATUSES[i % 3] for i in range(count)],
        rng.integers(0, 200, count),
        rng.dirichlet(np.ones(4), count),
        severity,
        severity * 0.7,
        severity * 1.4,
        "3",
        p_damaged=rng.random(count),
        mechanism=rng.dirichlet(np.full(6, 0.3), count),
        reason=reason,
    )


@pytest.mark.parametrize(
    ("probability", "wanted"),
    [
        ([0.8, 0.1, 0.05, 0.05], "NE"),
        ([0.1, 0.45, 0.45, 0.0], "NW|SW"),
        ([0.25] * 4, "NE|NW|SW|SE"),
        ([0.27, 0.27, 0.26, 0.2], "NE|NW|SW"),
    ],
)
def test_the_fewest_quadrants_with_four_fifths_of_the_probability_are_named(probability, wanted) -> None:
    assert probable_set(np.array([probability])).tolist() == [wanted]


def test_a_mechanism_is_named_where_it_and_damage_are_probable() -> None:
    at = np.array([[0.6, 0.4, 0, 0, 0, 0], [0.59, 0.41, 0, 0, 0, 0], [0, 0, 0, 0, 0.1, 0.9], [1, 0, 0, 0, 0, 0]])
    assert named_mechanism(at, np.array([0.9, 0.9, 0.5, 0.49])).tolist() == ["corner", None, "several", None]
    assert named_mechanism(np.full((1, 6), np.nan), np.array([np.nan])).tolist() == [None]


def assert_same(read: geopandas.GeoDataFrame, written: geopandas.GeoDataFrame) -> None:
    plain = list(DTYPES)
    pd.testing.assert_frame_equal(pd.DataFrame(read[plain]), pd.DataFrame(written[plain]), rtol=0, atol=0)


def test_columns_are_the_contracts() -> None:
    assert list(COLUMNS) == CONTRACT.split()
    table = predictions(["a"])
    assert list(table.columns) == CONTRACT.split()
    with pytest.raises(ValueError, match="column p_sw is missing"):
        write_predictions(table.drop(columns="p_sw"), Path("out.csv"))


def test_answers_become_judgements_and_abstentions_become_nulls() -> None:
    none = np.nan
    about = {
        "status": ["ok", "insufficient_points", "ok"],
        "reason": ["ok", "no_points", "ok"],
        "n_points": [12, 2, 40],
    }
    answers = {
        **dict(
            zip(PROBABILITIES, ([0.1, none, 0.7], [0.2, none, 0.1], [0.6, none, 0.1], [0.1, none, 0.1]), strict=True)
        ),
        **{"quadrant_confidence": [0.65, none, 0.8], "damage_rate": [0.03, none, 0.03]},
        **{"severity_permille": [1.5, none, 0.49], "severity_low": [1.0, none, 0.1], "severity_high": [2.0, none, 0.9]},
        **{name: [0.1, none, 0.0] for name in CATEGORIES},
        **{"p_damaged": [0.9, none, 0.25], "mechanism": ["bowl", None, None]},
    }
    table = make_predictions(buildings(["a", "b", "c"]), about, pd.DataFrame(answers).loc[[2, 0]], "7")
    assert table["quadrant"].tolist()[::2] == ["SW", "NE"]
    assert table["quadrant_confidence"].tolist()[::2] == [0.65, 0.8]
    assert table["quadrants"].tolist()[::2] == ["NW|SW", "NE|NW"]
    assert table["p_damaged"].tolist()[::2] == [0.9, 0.25]
    assert table["mechanism"].tolist()[0] == "bowl"
    assert table["cause"].isna().all()
    assert table["damage_rate"].tolist()[::2] == [0.03, 0.03]
    assert table["burland_category"].tolist()[::2] == [3, 0]
    assert table.loc[1, list(JUDGEMENT)].isna().all()
    assert table["n_points"].tolist() == [12, 2, 40]
    assert (table["model_version"] == "7").all()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_building_that_is_unsure_where_keeps_its_answer_in_every_format(tmp_path: Path, suffix: str) -> None:
    status = ["ok", *["insufficient_points"] * 3, "out_of_distribution"]
    reason = ["ok", "unsure_where", "leaning", "no_points", "out_of_distribution"]
    p = [0.4, 0.9, 0.2, np.nan, 0.7]
    severity = [0.4, 2.0, 0.2, np.nan, 1.0]
    quadrants = np.full((5, 4), 0.25)
    places = buildings(list("abcde"))
    written = table_of(places, status, [9] * 5, quadrants, severity, severity, severity, p_damaged=p, reason=reason)
    write_predictions(written, tmp_path / f"out{suffix}")
    table = read_predictions(tmp_path / f"out{suffix}")
    assert table["reason"].tolist() == reason
    np.testing.assert_allclose(table["p_damaged"], p, atol=1e-6)
    assert table["severity_permille"].notna().tolist() == [True, True, False, False, False]
    assert table["p_ne"].notna().tolist() == has_answer(table).tolist() == [True, True, False, False, False]
    order = table.sort_values(list(LIST_ORDER), ascending=False, na_position="last")
    assert order["building_id"].tolist() == ["b", "e", "a", "c", "d"]


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".GPKG"])
@pytest.mark.parametrize("status", [["ok", "insufficient_points", "out_of_distribution", "ok"], STATUSES[1:]])
def test_round_trip(tmp_path: Path, suffix: str, status: list[str]) -> None:
    written = predictions([f"b{i}" for i in range(len(status))], list(status))
    path = tmp_path / f"out{suffix}"
    write_predictions(written, path)
    read = read_predictions(path)
    assert list(read.columns) == CONTRACT.split()
    assert_same(read, written)
    if suffix == ".csv":
        assert read.crs is None
    else:
        assert read.crs is not None
        read = read.to_crs(written.crs)
    apart = shapely.hausdorff_distance(read.geometry.to_numpy(), written.geometry.to_numpy())
    assert apart.max() < 0.02  # GeoJSON: seven decimals of a degree


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=3)
@example(ids=AWKWARD_IDS, seed=0)
@given(
    ids=st.lists(
        st.sampled_from(AWKWARD_IDS)
        | st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1),
        min_size=1,
        max_size=8,
    ),
    seed=st.integers(0, 99),
)
def test_any_name_of_a_building_survives(tmp_path: Path, suffix: str, ids: list[str], seed: int) -> None:
    written = predictions(ids, seed=seed)
    path = tmp_path / f"out{suffix}"
    write_predictions(written, path)
    assert_same(read_predictions(path), written)


def test_geojson_is_rfc_7946(tmp_path: Path) -> None:
    path = tmp_path / "out.geojson"
    write_predictions(predictions(["a", "b"], ["ok", "insufficient_points"]), path)
    content = json.loads(path.read_text(encoding="utf-8"))
    assert "crs" not in content
    judged, abstained = content["features"]
    assert isinstance(judged["properties"]["burland_category"], int)
    assert abstained["properties"]["burland_category"] is None
    assert abstained["properties"]["quadrant"] is None
    ring = judged["geometry"]["coordinates"][0]
    assert shapely.is_ccw(shapely.LinearRing(ring))
    assert (12.9 < ring[0][0] < 13.2, 38.6 < ring[0][1] < 38.8) == (True, True)
    # Cut at 180 degrees.
    across = geopandas.GeoSeries([shapely.box(819_779, 8_140_000, 819_795, 8_140_010)] * 2, crs="EPSG:32760")
    write_predictions(predictions(["a", "b"]).set_geometry(across), path)
    for feature in json.loads(path.read_text(encoding="utf-8"))["features"]:
        parts = shapely.get_parts(shapely.geometry.shape(feature["geometry"]))
        ends = sorted(end for part in parts for end in (part.bounds[0], part.bounds[2]))
        assert ends == pytest.approx([-180, -179.9999, 179.9999, 180], abs=1e-4)
        assert all(part.exterior.is_ccw for part in parts)


def test_csv_is_plain(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    write_predictions(predictions(["a", "b"], ["insufficient_points", "ok"]), path)
    header, abstained, judged = path.read_text(encoding="utf-8").splitlines()
    assert header == ",".join(CONTRACT.split())
    cells = dict(zip(header.split(","), abstained.split(","), strict=False))
    assert {name for name in JUDGEMENT if cells[name]} == {"p_damaged", "damage_rate"}
    assert cells["reason"] == "few_points"
    assert judged.split(",")[14] in "01234"
    assert "POLYGON ((" in judged


@pytest.mark.parametrize(
    ("column", "row", "value", "message"),
    [
        ("quadrant", 0, None, "building b0: quadrant is empty although"),
        ("severity_low", 1, 0.0, "building b1: severity_low is given although"),
        ("burland_category", 0, 4, "building b0: burland_category is not the one"),
        ("quadrant", 0, "N", "building b0: quadrant is none of"),
        ("reason", 0, "few_points", "building b0: status and reason contradict"),
        ("reason", 1, "tired", "building b1: reason is none of"),
        ("geometry", 1, None, "building b1: geometry is empty"),
    ],
)
def test_a_broken_table_is_not_written(tmp_path: Path, column: str, row: int, value: object, message: str) -> None:
    table = predictions(["b0", "b1", "b2"])
    table["severity_permille"] = table["severity_permille"].where(table["status"] != "ok", 1.0)
    table["burland_category"] = table["burland_category"].where(table["status"] != "ok", 2)
    write_predictions(table, tmp_path / "good.csv")
    table.loc[row, column] = value
    with pytest.raises(ValueError, match=message):
        write_predictions(table, tmp_path / "bad.csv")
    assert [p.name for p in tmp_path.iterdir()] == ["good.csv"]


@pytest.mark.parametrize("name", ["out.shp", "out", "nowhere/out.csv", "file.txt/out.csv"])
def test_an_output_that_cannot_be_is_refused_early(tmp_path: Path, name: str) -> None:
    (tmp_path / "file.txt").touch()
    for write in (check_output, partial(write_predictions, predictions(["a"]))):
        with pytest.raises(
            NotWritable if "/" in name else InputError, match=re.escape(str(tmp_path / name))
        ) as refusal:
            write(tmp_path / name)
        assert "/" in name or refusal.value.key == "output.other_format"


@pytest.mark.parametrize(
    ("name", "content", "key", "place"),
    [
        ("none.csv", None, "file.missing", ""),
        ("a.csv", b"", "predictions.unreadable", ""),
        ("a.csv", b"building_id,geometry\nx,POINT (0 0)\n", "predictions.unreadable", "column status"),
        ("a.gpkg", b"SQLite", "predictions.unreadable", ""),
        ("a.parquet", b"PAR1", "predictions.unreadable", ""),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, name: str, content: bytes | None, key: str, place: str):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with refuses(key, name, place):
        read_predictions(path)
