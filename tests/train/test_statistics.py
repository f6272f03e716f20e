from dataclasses import replace

import numpy as np
import pytest
import torch

from plumbline.model.diagnosis import SEVERITY_FLOOR
from plumbline.prepare.features import DISTANCE, GEOMETRY
from plumbline.train.statistics import fit_statistics
from tests.model.made import small_model
from tests.train.made import column, make_sequences


def fitted(sequences):
    model = small_model()
    fit_statistics(model, sequences)
    return model


def test_means_and_deviations_are_those_of_the_rows():
    train = make_sequences(80)
    train.distance[:] = train.distance * 7 + 3
    model = fitted(train)
    np.testing.assert_allclose(model.get_buffer("distance_mean"), train.distance.mean(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.get_buffer("distance_sd"), train.distance.std(0), rtol=1e-4)
    np.testing.assert_allclose(model.get_buffer("geometry_mean"), train.geometry.mean(0), rtol=1e-4, atol=1e-5)
    log_severity = np.log(train.severity + SEVERITY_FLOOR)
    assert model.get_buffer("severity_mean").item() == pytest.approx(log_severity.mean(), rel=1e-5)
    assert model.get_buffer("severity_sd").item() == pytest.approx(log_severity.std(), rel=1e-5)
    standard = model.standard_severity(torch.tensor(train.severity))
    assert standard.mean().item() == pytest.approx(0, abs=1e-5)
    assert standard.std(correction=0).item() == pytest.approx(1, rel=1e-5)


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


def test_weights_are_not_touched():
    before, after = small_model(), fitted(make_sequences(30))
    for (name, left), right in zip(before.named_parameters(), after.parameters(), strict=True):
        assert torch.equal(left, right), name
