"""The second graph of a package gives what `predict` gives after the network."""

from dataclasses import replace

import geopandas
import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from plumbline.core.strain import category_of_levels
from plumbline.export.answers import Answers
from plumbline.export.interface import predictions_interface
from plumbline.export.package import VECTORS, verify_package
from plumbline.export.second_graph import EMPTY, export_predictions
from plumbline.export.vectors import read_vectors, run_predictions
from plumbline.params import Prepare
from plumbline.prepare.abstention import ModelledBuildings, has_few_points, strain_error
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE, names
from plumbline.prepare.features.sequences import Sequences
from plumbline.pretrained import PACKAGE
from plumbline.serve.judgement import ModelSummary, judge
from tests.serve.made import SHARE, whole_of

LIMITS = Prepare(max_strain_error_permille=0.3, min_quadrant_confidence=0.75)
COUNT = 60
CODES = {tensor["name"]: tensor["values"] for tensor in predictions_interface()["outputs"] if "values" in tensor}


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    path = tmp_path_factory.mktemp("graph") / "predictions.onnx"
    export_predictions(LIMITS, SHARE, path, 18)
    return path


def any_buildings(rng) -> Sequences:
    """Buildings of which some have too few points, and some too noisy ones."""
    length = rng.integers(3, 40, COUNT)
    offsets = np.r_[0, np.cumsum(length)]
    slope = rng.normal(0, 1, (offsets[-1], len(SLOPE)))
    noise_mm = np.repeat(rng.choice([0.5, 1, 5], COUNT), length)
    slope[:, names(SLOPE).index("differential_displacement_se")] = noise_mm * rng.uniform(0.5, 2, offsets[-1])
    geometry = rng.normal(0, 1, (COUNT, len(GEOMETRY)))
    geometry[:, names(GEOMETRY).index("tracks")] = rng.integers(1, 5, COUNT)
    for side in ("side_x", "side_y"):
        geometry[:, names(GEOMETRY).index(side)] = rng.uniform(4, 30, COUNT)
    none = np.full(COUNT, -1)
    return Sequences(
        *(np.arange(COUNT).astype(str), np.full(COUNT, "town"), offsets),
        *(rng.normal(0, 1, (offsets[-1], len(DISTANCE))).astype(np.float32), slope.astype(np.float32)),
        *(geometry.astype(np.float32), np.full(COUNT, np.nan, np.float32), none, np.zeros((COUNT, 4), bool)),
        *(none.astype(np.int8), none.astype(np.int8)),
    )


def any_answers(rng) -> Answers:
    """Answers of any kind; some are no numbers, some are of unlike buildings."""
    low, severity, high = np.sort(rng.uniform(0, 13, (COUNT, 3)) * rng.choice([0.1, 1], (COUNT, 1)), axis=1).T
    quadrant = rng.dirichlet(np.full(4, 0.5), COUNT)
    accepted = np.clip(quadrant * rng.uniform(1, 2, (COUNT, 1)), 0, 1)
    level, mechanism = rng.dirichlet(np.full(16, 0.1), COUNT), rng.dirichlet(np.full(6, 0.2), COUNT)
    novelty = rng.uniform(0.5, 1.1, COUNT)
    for part in (quadrant, severity, low, high, novelty, accepted, level, mechanism):
        part[rng.random(COUNT) < 0.02] = rng.choice([np.nan, np.inf])
    category = level @ np.eye(5)[category_of_levels()]
    parts = (quadrant, severity, low, high, novelty, accepted, category, level, mechanism)
    return Answers(*(part.astype(np.float32) for part in parts))


def predicted(sequences, answers, hides_damage, rate, limits=LIMITS, share=SHARE):
    """The table of `predict`, with reasons, from the same answers."""
    count = len(sequences)
    squares = [shapely.box(20 * i, 0, 20 * i + 10, 10) for i in range(count)]
    town = geopandas.GeoDataFrame({"building_id": sequences.building_id}, geometry=squares, crs="EPSG:3035")
    few = has_few_points(sequences, limits)
    asked = ModelledBuildings(np.arange(count), np.asarray(sequences.length), few, strain_error(sequences))
    whole = whole_of(count)._replace(lean=np.where(hides_damage, 1e3, 0.0), resolution=np.full(count, 1e3))
    judged = judge(asked, answers, town, limits, ModelSummary("1", share), damage_rate=rate, whole=whole)
    return judged.table.assign(reason=judged.reason)


def check(columns, table):
    """Each column is that of the table."""
    for name, values in columns.items():
        if name in CODES:
            texts = [None if code == EMPTY else CODES[name][code] for code in values.tolist()]
            assert texts == table[name].astype(object).where(table[name].notna(), None).tolist(), name
        else:
            np.testing.assert_allclose(values, table[name], rtol=1e-6, atol=1e-6, err_msg=name)


@settings(deadline=None, max_examples=6)
@given(st.integers(0, 10_000), st.floats(0.001, 0.9))
def test_it_gives_every_column_of_the_table(graph, seed, rate):
    rng, rate = np.random.default_rng(seed), float(np.float32(rate))
    sequences, answers = any_buildings(rng), any_answers(rng)
    hides_damage = rng.random(COUNT) < 0.2
    inputs = {
        **sequences.pad(np.arange(COUNT)),
        "damage_rate": np.full(COUNT, rate, np.float32),
        "hides_damage": hides_damage,
    }
    found = run_predictions(graph, inputs, answers._asdict())
    check(found, predicted(sequences, answers, hides_damage, rate))


def test_a_building_has_the_share_of_its_own(graph):
    rng = np.random.default_rng(4)
    sequences, answers = any_buildings(rng), any_answers(rng)
    rates = rng.uniform(0.001, 0.6, COUNT).astype(np.float32)
    inputs = {**sequences.pad(np.arange(COUNT)), "hides_damage": np.zeros(COUNT, bool)}
    together = run_predictions(graph, {**inputs, "damage_rate": rates}, answers._asdict())
    for row in (0, 17, 59):
        same = run_predictions(graph, {**inputs, "damage_rate": np.full(COUNT, rates[row])}, answers._asdict())
        for name, values in together.items():
            np.testing.assert_array_equal(values[row], same[name][row])


def test_what_is_tested_has_every_status_reason_category_and_mechanism():
    rng = np.random.default_rng(0)
    table = predicted(any_buildings(rng), any_answers(rng), rng.random(COUNT) < 0.5, 0.5)
    for name in ("status", "reason", "quadrant", "burland_category"):
        assert set(table[name].dropna()) == set(CODES[name]), name
    assert table["mechanism"].nunique() > 2


def test_the_shipped_vectors_are_what_predict_gives():
    manifest = verify_package(PACKAGE)
    vectors = read_vectors(PACKAGE / VECTORS)
    inputs, answers = vectors["inputs"], Answers(**vectors["raw"])
    length = inputs["mask"].sum(1)
    sequences = replace(
        any_buildings(np.random.default_rng(0)).take(np.arange(len(length))),
        offsets=np.r_[0, np.cumsum(length)],
        distance=inputs["distance"][inputs["mask"]],
        slope=inputs["slope"][inputs["mask"]],
        geometry=inputs["geometry"],
    )
    seen = set()
    for rate in np.unique(inputs["damage_rate"]):
        limits = (manifest.prepare, manifest.category_share)
        table = predicted(sequences, answers, inputs["hides_damage"], float(rate), *limits)
        rows = np.flatnonzero(inputs["damage_rate"] == rate)
        check({name: values[rows] for name, values in vectors["predictions"].items()}, table.iloc[rows])
        seen |= set(table["reason"].iloc[rows])
    assert len(seen) > 3
