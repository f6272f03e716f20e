from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from plumbline.core.strain import INTERVAL_SHARE, category
from plumbline.model.diagnosis import Diagnosis
from plumbline.prepare.features.sequences import concatenate
from plumbline.train.calibrate.probabilities import calibrate
from tests.model.made import raw_answer, small_model
from tests.refusals import warned, warning_keys
from tests.train.made import in_quadrants, make_sequences

HALF_WIDTH = 1.0


class Echo(nn.Module):
    """Answers with what the geometry says: four logits, the middle of the interval, and half its length if asked."""

    def __init__(self, middle: int = 4, half: int | None = None):
        super().__init__()
        self.middle, self.half = middle, half

    def forward(self, distance, slope, geometry, mask):
        middle = geometry[:, [self.middle]]
        half = HALF_WIDTH if self.half is None else geometry[:, [self.half]]
        severity = torch.cat([middle - half, middle, middle + half], dim=1)
        return raw_answer(logits_B4=geometry[:, :4], severity_B3=severity)


def echo_model() -> Diagnosis:
    """Raw geometry comes through `asinh`; severity is standardised to have room above 0 permille."""
    model = small_model()
    for name, value in (("geometry_mean", 0.0), ("geometry_sd", 1.0), ("severity_mean", 0.0), ("severity_sd", 0.3)):
        model.get_buffer(name).fill_(value)
    model.network = Echo()
    return model


def echoed(model, rng, count, temperature=1.0, spread=1.0):
    """Buildings whose quadrant follows the logits over `temperature`, and severity the middle, +- `spread`."""
    sequences = make_sequences(count, shortest=5, longest=6)
    logits, middle = rng.normal(0, 3, (count, 4)), rng.normal(0, 1, count)
    sequences.geometry[:, :4], sequences.geometry[:, 4] = np.sinh(logits), np.sinh(middle)
    probability = torch.tensor(logits / temperature).softmax(-1)
    quadrant = torch.multinomial(probability, 1, generator=torch.Generator().manual_seed(int(rng.integers(1 << 30))))
    standard = torch.tensor(middle + rng.normal(0, spread, count), dtype=torch.float32)
    return replace(in_quadrants(sequences, quadrant[:, 0].numpy()), severity=model.permille(standard).numpy())


def coverage(model, sequences):
    inputs = [
        torch.zeros(len(sequences), 1, 1),
        torch.zeros(len(sequences), 1, 1),
        torch.tensor(sequences.geometry),
        torch.ones(len(sequences), 1, dtype=torch.bool),
    ]
    model.standardise, whole = (lambda name, values: values.asinh()), model.standardise
    answer = model(*inputs)
    model.standardise = whole
    truth = torch.tensor(sequences.severity)
    return ((answer.severity_low - 1e-5 <= truth) & (truth <= answer.severity_high + 1e-5)).float().mean().item()


@pytest.mark.parametrize("temperature", [0.5, 3.0])
def test_a_known_temperature_is_recovered(temperature):
    model = echo_model()
    calibrate(model, echoed(model, np.random.default_rng(0), 3000, temperature))
    assert model.get_buffer("temperature").item() == pytest.approx(temperature, rel=0.1)


def test_undefined_quadrants_do_not_count():
    model = echo_model()
    sequences = echoed(model, np.random.default_rng(1), 1000, 2.0)
    calibrate(model, sequences)
    alone = model.get_buffer("temperature").item()
    noise = in_quadrants(echoed(model, np.random.default_rng(2), 1000, 0.1), np.full(1000, -1))
    calibrate(model, concatenate([sequences, noise]))
    assert model.get_buffer("temperature").item() == pytest.approx(alone, rel=1e-6)
    calibrate(model, noise)
    assert model.get_buffer("temperature").item() == 1.0


@pytest.mark.parametrize("spread", [0.2, 3.0])
def test_the_interval_holds_its_share_of_buildings_never_seen(spread):
    """Conformal guarantee on exchangeable data, whether the raw interval was too wide or too narrow."""
    model, rng = echo_model(), np.random.default_rng(3)
    calibrate(model, echoed(model, rng, 4000, spread=spread))
    assert (model.get_buffer("interval_above").amax() < 1) == (spread < 0.5)
    again = echoed(model, rng, 4000, spread=spread)
    assert coverage(model, again) >= INTERVAL_SHARE - 0.02
    for number in range(5):
        own = again.take(np.flatnonzero(category(again.severity) == number))
        if len(own) > 400:
            assert coverage(model, own) >= INTERVAL_SHARE - 0.04


@pytest.mark.parametrize("count", [19, 200])
def test_few_buildings_are_said(count, caplog):
    calibrate(echo_model(), echoed(echo_model(), np.random.default_rng(6), count))
    messages = warned(caplog, "calibration.few_buildings", "19 ", " 90 %", " 7. ", "prepare.split.calibrate")
    assert len(messages) == len(warned(caplog, "calibration.few_buildings")) == (count == 19)


def test_a_temperature_that_could_not_be_fitted_is_said(caplog):
    model, sequences = echo_model(), echoed(echo_model(), np.random.default_rng(6), 200)
    calibrate(model, sequences)
    assert not warning_keys(caplog)
    calibrate(model, in_quadrants(sequences, np.full(200, -1)))
    assert warning_keys(caplog) == ["temperature.no_quadrant"]
    right = np.arcsinh(sequences.geometry[:, :4]).argmax(1)
    calibrate(model, in_quadrants(sequences, right))
    assert warned(caplog, "temperature.at_bound", " 0.10,", "200 buildings", "all correct")
    calibrate(model, in_quadrants(sequences, (right + 1) % 4))
    assert warned(caplog, "temperature.at_bound", " 10.00,", "200 buildings", "chance")


def test_damage_beyond_any_answer_is_said_where_the_interval_cannot_hold_it(caplog):
    model, sequences = echo_model(), echoed(echo_model(), np.random.default_rng(6), 200)
    model.get_buffer("severity_limit").fill_(float(np.sort(sequences.severity)[-10]))
    calibrate(model, sequences)  # nine are beyond it: they may be missed
    assert not warned(caplog, "calibration.beyond_training")
    model.get_buffer("severity_limit").fill_(float(np.sort(sequences.severity)[-41]))
    calibrate(model, sequences)
    assert len(warned(caplog, "calibration.beyond_training", "40 of 200 ")) == 1


def test_calibrating_again_changes_nothing():
    model = echo_model()
    sequences = echoed(model, np.random.default_rng(5), 500, 2.0, 2.0)
    calibrate(model, sequences)
    first = {name: value.clone() for name, value in model.named_buffers()}
    calibrate(model, sequences)
    assert all(torch.equal(value, first[name]) for name, value in model.named_buffers())
    assert not model.training
