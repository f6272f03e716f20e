import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from plumbline.model.diagnosis import SEVERITY_FLOOR
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY
from plumbline.prepare.features.shards import Shards
from plumbline.train.data import splits as statistics
from plumbline.train.data.splits import SHRINKAGE, fit_statistics
from tests.model.made import small_model
from tests.train.made import column, make_sequences


def fitted(sequences):
    model = small_model()
    fit_statistics(model, sequences)
    return model


def test_a_constant_column_is_centred_and_another_value_stays_finite():
    train = make_sequences(40)
    height = column(DISTANCE, "height")
    train.distance[:, height] = 1234.567
    model = fitted(train)
    assert model.get_buffer("distance_sd")[height] == 1
    row = torch.tensor(train.distance[:1]).clone()
    assert model.standardise("distance", row)[0, height].abs() < 1e-3
    row[0, height] += 5
    assert model.standardise("distance", row)[0, height].item() == pytest.approx(np.arcsinh(5), rel=1e-3)


def test_equal_severities_stay_finite():
    model = fitted(replace(make_sequences(40), severity=np.ones(40, np.float32)))
    assert torch.isfinite(model.standard_severity(torch.tensor([0.0, 1.0, 9.0]))).all()


def test_training_buildings_are_no_novelty_and_strange_ones_are():
    train, unseen, strange = (make_sequences(count, seed) for seed, count in enumerate((600, 300, 300)))
    strange.geometry[:, column(GEOMETRY, "height_range")] += 400
    strange.geometry[:, column(GEOMETRY, "spread")] -= 300
    model = fitted(train)

    def novelty(sequences):
        geometry = torch.tensor(sequences.geometry)
        return model.novelty_distance(geometry) / model.get_buffer("novelty_limit")

    assert (novelty(train) < 1).all()
    assert (novelty(unseen) < 1).float().mean() > 0.98
    assert (novelty(strange) > novelty(unseen).max()).all()


def test_the_length_of_the_observation_is_no_novelty():
    train = make_sequences(300)
    model = fitted(train)
    geometry = torch.tensor(train.geometry)
    longer = geometry.clone()
    longer[:, column(GEOMETRY, "years")] += 6
    torch.testing.assert_close(model.novelty_distance(longer), model.novelty_distance(geometry))
    wider = geometry.clone()
    wider[:, column(GEOMETRY, "side_x")] += 300
    assert (model.novelty_distance(wider) > model.novelty_distance(geometry)).float().mean() > 0.95


def in_shards(sequences, cuts):
    """The same buildings in several parts."""
    ends = [0, *cuts, len(sequences)]
    return Shards([sequences.take(np.arange(a, b)) for a, b in itertools.pairwise(ends)])


def directly(sequences, model):
    """Buffers by formulas over whole arrays, as they are defined; `model` standardises, in single precision."""
    wanted = {}
    for name in ("distance", "slope", "geometry"):
        values = getattr(sequences, name).astype(float)
        wanted[f"{name}_mean"], wanted[f"{name}_sd"] = values.mean(0), np.where(values.std(0) > 1e-6, values.std(0), 1)
    log_severity = np.log(sequences.severity.astype(float) + SEVERITY_FLOOR)
    wanted |= {"severity_mean": log_severity.mean(), "severity_sd": log_severity.std()}
    wanted["severity_limit"] = sequences.severity.max()
    standard = model.standardise("geometry", torch.tensor(sequences.geometry)).numpy().astype(float)
    whitening = np.linalg.inv(np.linalg.cholesky(np.cov(standard, rowvar=False) + SHRINKAGE * np.eye(len(GEOMETRY)))).T
    free = [column(GEOMETRY, name) for name in ("years", "tracks", "rectangularity")]
    whitening[free] = 0
    wanted["novelty_whitening"] = whitening
    distance = np.sqrt(((standard @ whitening) ** 2).mean(1))
    wanted["novelty_limit"] = 1.1 * np.quantile(distance, 0.999)
    lowest, highest = sequences.geometry.min(0).astype(float), sequences.geometry.max(0).astype(float)
    wanted["geometry_middle"] = (lowest + highest) / 2
    wanted["geometry_reach"] = np.maximum(1.25 * (highest - lowest) / 2, 1e-3)
    wanted["geometry_reach"][free] = np.inf
    wanted["least_years"] = lowest[free[0]] / 1.25
    return wanted


def far_off(count):
    """Columns far from zero and of very different sizes, where a naive sum of squares would lose all digits."""
    sequences = make_sequences(count)
    sequences.distance[:, 0] += 3000
    sequences.slope[:, 1] *= 1e4
    sequences.geometry[:] = sequences.geometry * np.geomspace(1e-2, 1e3, len(GEOMETRY)) + 50
    return sequences


@pytest.mark.parametrize("cuts", [[], [1], [0, 40, 40, 90]])  # some parts have no building
@pytest.mark.parametrize("chunk", [7, 1 << 16])
def test_parts_and_chunks_give_what_whole_arrays_do(monkeypatch, cuts, chunk):
    monkeypatch.setattr(statistics, "VALUES_AT_A_TIME", chunk)
    sequences = far_off(120)
    model = fitted(in_shards(sequences, cuts))
    for name, wanted in directly(sequences, model).items():
        scale = float(np.abs(np.where(np.isfinite(wanted), wanted, 0)).max())
        np.testing.assert_allclose(model.get_buffer(name), wanted, rtol=2e-6, atol=2e-6 * scale, err_msg=name)


@pytest.mark.parametrize("sample", [100, 250, 3000])
def test_the_limit_is_that_of_evenly_chosen_buildings_where_there_are_very_many(monkeypatch, sample):
    monkeypatch.setattr(statistics, "SAMPLE", sample)
    monkeypatch.setattr(statistics, "VALUES_AT_A_TIME", 64)
    sequences = make_sequences(600)
    model = fitted(in_shards(sequences, [100, 333]))
    distance = model.novelty_distance(torch.tensor(sequences.geometry)).numpy()
    step = -(-600 // sample)
    wanted = 1.1 * np.quantile(distance[::step], 0.999)
    assert len(distance[::step]) <= sample
    assert model.get_buffer("novelty_limit").item() == pytest.approx(wanted, rel=1e-5)
