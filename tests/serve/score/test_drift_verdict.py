"""Drift by effect sizes: no alarm for a city of the same kind, one for another kind, silence for few buildings."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from plumbline.core.errors import InputError
from plumbline.core.files import read_json, write_json
from plumbline.params import Ingest, Prepare, Simulate
from plumbline.params.serve import Drift
from plumbline.prepare.audit.distributions import ColumnValues
from plumbline.prepare.audit.reference import (
    CONDITIONS_FILE,
    WATCHED,
    conditions_of,
    describe_conditions,
    load_conditions,
)
from plumbline.prepare.features.shards import Shards, load_shards
from plumbline.prepare.stage import prepare
from plumbline.serve.score.drift import by_chance, drift_of, least_share
from plumbline.simulate.stage import simulate
from plumbline.sources.city.files import city_folders
from plumbline.sources.city.ingest import ingest

TRAINED = ("trained_a", "trained_b")
BAND_C = {"band": "C", "buildings": 150, "revisit_days": 12}


@pytest.fixture(scope="module")
def cities(tmp_path_factory: pytest.TempPathFactory) -> Shards:
    """Two cities to train on, two others of their kind, one under another satellite."""
    data = tmp_path_factory.mktemp("cities")
    named = {name: {**BAND_C, "seed": seed} for seed, name in enumerate((*TRAINED, "same_a", "same_b"), 40)}
    named["other"] = {"band": "X", "buildings": 130, "seed": 50}
    section = {"cities": named, "showcase": {**BAND_C, "buildings": 4, "seed": 1}, "years": 1.5}
    simulate(Simulate.model_validate(section), data / "simulate", 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(data)
        ingest(city_folders(data), Ingest(), data / "ingest", 1)
        split = {"train": 0.7, "tune": 0.1, "calibrate": 0.1, "test": 0.1}
        prepare(data / "ingest", Prepare.model_validate({"block_m": 40.0, "split": split}), data / "prepare", 1)
    return Shards([part for name in split for part in load_shards(data / "prepare" / name).parts])


@pytest.fixture(scope="module")
def conditions(cities: Shards) -> dict[str, ColumnValues]:
    return conditions_of(cities)


def counts(novel: int = 0, ok: int = 100, few: int = 0, categories: tuple[int, ...] = (80, 10, 5, 3, 2)):
    return {
        "statuses": {"ok": ok, "out_of_distribution": novel, "insufficient_points": few},
        "categories": {str(number): count for number, count in enumerate(categories)},
    }


def verdict(found: ColumnValues, reference: dict[str, ColumnValues] | None, said=None, before=None, **params: float):
    told = drift_of(found, reference, said or counts(), before, Drift.model_validate(params))
    return told["verdict"], told


@pytest.mark.slow
def test_cities_of_the_same_kind_are_no_drift_and_another_satellite_is(conditions: dict[str, ColumnValues]):
    trained = {name: conditions[name] for name in TRAINED}
    for name in ("same_a", "same_b"):
        said, told = verdict(conditions[name], trained)
        assert said == "none", told["reasons"]
        assert set(told["features"]) == set(WATCHED)
    said, told = verdict(conditions["other"], trained)
    assert said == "drift"
    assert any(reason.startswith("geometry.log_points: ") for reason in told["reasons"])
    # What was trained on is no drift, whatever else was.
    assert verdict(conditions["other"], {**trained, "other": conditions["other"]})[0] == "none"
    # The same shift in a few buildings is nothing that could be told.
    few = ColumnValues(40, {name: values[::3] for name, values in conditions["other"].values.items()})
    assert verdict(few, trained)[0] == "too_few"


@pytest.mark.slow
def test_a_package_carries_what_it_was_trained_on(cities: Shards, conditions: dict[str, ColumnValues], tmp_path: Path):
    assert load_conditions(tmp_path) is None
    write_json(tmp_path / CONDITIONS_FILE, describe_conditions(cities))
    stored = load_conditions(tmp_path)
    assert stored is not None
    for name, columns in conditions.items():
        assert stored[name].buildings == columns.buildings
        for column in WATCHED:
            assert stats.ks_2samp(stored[name].values[column], columns.values[column]).statistic < 0.01
    write_json(tmp_path / CONDITIONS_FILE, {**read_json(tmp_path / CONDITIONS_FILE), "version": 99})
    with pytest.raises(InputError, match="version 99"):
        load_conditions(tmp_path)
    write_json(tmp_path / CONDITIONS_FILE, {"version": 1})
    with pytest.raises(InputError, match=CONDITIONS_FILE):
        load_conditions(tmp_path)


def drawn(buildings: int, shift: float, seed: int) -> ColumnValues:
    random = np.random.default_rng(seed)
    return ColumnValues(buildings, {name: np.sort(random.normal(shift, 1, buildings)) for name in WATCHED})


def test_by_chance_alone_nothing_drifts_in_samples_of_any_size():
    """A hundred deliveries without drift and no effect asked for: at a confidence of 0.99, two alarms at most."""
    alarms = 0
    for seed in range(100):
        size = (20, 100, 1000)[seed % 3]
        found = verdict(drawn(size, 0, seed), {"a": drawn(300, 0, 1000 + seed)}, min_buildings=1, max_distance=0)[0]
        alarms += found == "drift"
    assert alarms <= 2


def test_significance_is_not_enough_and_a_large_shift_is():
    trained = {"a": drawn(20_000, 0, 1)}
    little, much = drawn(20_000, 0.2, 2), drawn(400, 1.5, 2)
    assert stats.ks_2samp(little.values[WATCHED[0]], trained["a"].values[WATCHED[0]]).pvalue < 1e-20
    assert verdict(little, trained)[0] == "none"
    assert verdict(much, trained)[0] == "drift"
    # Near one of several training cities is near enough.
    assert verdict(much, {**trained, "b": drawn(500, 1.6, 3)})[0] == "none"


@given(st.integers(2, 400), st.integers(2, 400))
def test_the_bound_of_chance_is_above_the_asymptotic_one(n: int, m: int):
    asymptotic = stats.kstwobign.isf(0.01) * np.sqrt((n + m) / (n * m))
    assert asymptotic < by_chance(n, m, 0.01) < 1.2 * asymptotic


def test_buildings_unlike_any_count_when_they_surely_are_many():
    trained = {"a": drawn(300, 0, 1)}
    assert verdict(drawn(300, 0, 2), trained, counts(novel=62, ok=238))[0] == "none"  # 21 %, as 20 % may be by chance
    said, told = verdict(drawn(300, 0, 2), trained, counts(novel=120, ok=180))
    assert said == "drift"
    assert told["reasons"][0].startswith("40% of 300 buildings are unlike any in training")
    assert least_share(0, 0, 0.99) == 0
    assert verdict(drawn(300, 0, 2), None)[0] == "no_reference"
    assert verdict(drawn(300, 0, 2), None, counts(novel=120, ok=180))[0] == "drift"


@pytest.mark.parametrize(
    ("now", "wanted", "has_inputs"),
    [
        (counts(), "none", True),
        (counts(ok=50, few=50), "look", True),
        (counts(ok=50, few=50), "look", False),
        (counts(categories=(30, 20, 20, 20, 10)), "look", True),
        (counts(categories=(76, 12, 6, 4, 2)), "none", True),
    ],
)
def test_what_only_the_answers_show_is_for_a_person(now, wanted, has_inputs):
    before = SimpleNamespace(**counts(), folder_name="before")
    reference = {"a": drawn(300, 0, 1)} if has_inputs else None
    assert verdict(drawn(300, 0, 2), reference, now, before)[0] == wanted
