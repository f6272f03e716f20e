"""The losses, each against its formula, and what they are least at."""

import numpy as np
import pytest
import torch
from torch import nn

from plumbline.model.losses import (
    CHARBONNIER_WIDTH,
    HIGH,
    LOW,
    QuadrantLoss,
    SeverityLoss,
    build_losses,
)
from plumbline.model.network import RawAnswer
from plumbline.params import Train
from plumbline.params.plugins import QUADRANT_LOSS, SEVERITY_LOSS


def raw(logits, severity=((0.0, 0.0, 0.0),)):
    return RawAnswer(torch.tensor(logits), torch.tensor(severity))


def test_quadrant_loss_is_the_mean_over_defined_quadrants():
    logits = [[2.0, 0, 0, 0], [0, 0, 3.0, 0], [9.0, 0, 0, 0]]
    wanted = np.mean([np.log(np.exp(2) + 3) - 2, np.log(np.exp(3) + 3)])
    assert QuadrantLoss()(raw(logits), torch.tensor([0, 1, -1])).item() == pytest.approx(wanted, rel=1e-6)


def test_quadrant_loss_is_zero_with_gradients_where_none_is_defined():
    logits = torch.randn(3, 4, requires_grad=True)
    loss = QuadrantLoss()(RawAnswer(logits, torch.zeros(3, 3)), torch.full((3,), -1))
    loss.backward()
    assert loss.item() == 0
    assert not logits.grad.any()


def test_severity_loss_is_absolute_error_and_pinball():
    answer = raw([[0.0] * 4], ((-1.0, 0.5, 2.0),))
    wanted = 0.5 + LOW * 2 + (1 - HIGH) * 1  # truth 1: above the low end by 2, below the high end by 1
    assert SeverityLoss()(answer, torch.tensor([1.0])).item() == pytest.approx(wanted, rel=1e-6)


def test_severity_loss_is_least_at_the_quantiles():
    truth = torch.randn(4_000, generator=torch.Generator().manual_seed(0))
    guess = torch.zeros(3, requires_grad=True)
    optimiser = torch.optim.Adam([guess], lr=0.05)
    for _ in range(150):
        optimiser.zero_grad()
        loss = SeverityLoss()(RawAnswer(torch.zeros(len(truth), 4), guess.expand(len(truth), 3)), truth)
        loss.backward()
        optimiser.step()
    np.testing.assert_allclose(guess.detach(), np.quantile(truth, [LOW, 0.5, HIGH]), atol=0.05)


@pytest.mark.parametrize("weighted", [False, True])
def test_class_weights_are_those_of_torch_and_weigh_as_buildings_do(weighted):
    torch.manual_seed(0)
    answer, quadrant = RawAnswer(torch.randn(20, 4), torch.zeros(20, 3)), torch.arange(20) % 5 - 1
    each = (0.5, 2.0, 3.0, 1.0)
    loss = QuadrantLoss(class_weights=each)
    of_building = torch.tensor(each)[quadrant.clamp(min=0)]
    if not weighted:
        wanted = nn.functional.cross_entropy(answer.logits_B4, quadrant, torch.tensor(each), ignore_index=-1)
        torch.testing.assert_close(loss(answer, quadrant), wanted)
    own = torch.rand(20) if weighted else torch.ones(20)
    torch.testing.assert_close(loss(answer, quadrant, own), QuadrantLoss()(answer, quadrant, own * of_building))
    torch.testing.assert_close(loss.counts(quadrant, own), own * of_building * (quadrant >= 0))


def test_focal_loss_is_its_formula_and_cross_entropy_without_gamma():
    answer, quadrant = raw([[2.0, 0, 0, 0], [0, 0, 3.0, 0]], [[0.0] * 3] * 2), torch.tensor([0, 1])
    right = np.array([np.exp(2) / (np.exp(2) + 3), 1 / (np.exp(3) + 3)])
    wanted = ((1 - right) ** 1.5 * -np.log(right)).mean()
    assert QuadrantLoss("focal", 1.5)(answer, quadrant).item() == pytest.approx(wanted, rel=1e-5)
    torch.testing.assert_close(QuadrantLoss("focal", 0.0)(answer, quadrant), QuadrantLoss()(answer, quadrant))


@pytest.mark.parametrize("kind", list(QUADRANT_LOSS))
@pytest.mark.parametrize("gamma", [0.0, 0.3, 2.0])
def test_certain_and_undefined_quadrants_have_finite_gradients(kind, gamma):
    logits = torch.tensor([[200.0, 0, 0, 0], [200.0, 0, 0, 0], [1.0, 0, 0, 0]], requires_grad=True)
    loss = QuadrantLoss(kind, gamma)(RawAnswer(logits, torch.zeros(3, 3)), torch.tensor([0, 1, -1]))
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(logits.grad).all()
    assert logits.grad[1].any()
    assert not logits.grad[2].any()


FORMULAS = {
    "pinball": np.abs,
    "mse": np.square,
    "huber": lambda error: np.where(np.abs(error) < 1, error**2 / 2, np.abs(error) - 0.5),
    "charbonnier": lambda error: np.sqrt(error**2 + CHARBONNIER_WIDTH**2) - CHARBONNIER_WIDTH,
}


@pytest.mark.parametrize("kind", list(FORMULAS))
@pytest.mark.parametrize("error", [-3.0, -0.4, 0.0, 2e-3, 0.9, 5.0])
def test_the_middle_has_the_loss_of_its_name_and_the_ends_keep_theirs(kind, error):
    severity = torch.tensor([[-1.0, 0.5, 2.0]], requires_grad=True)
    truth = 0.5 + error
    loss = SeverityLoss(kind)(RawAnswer(torch.zeros(1, 4), severity), torch.tensor([truth]))
    ends = [max(q * (truth - end), (q - 1) * (truth - end)) for q, end in ((LOW, -1.0), (HIGH, 2.0))]
    assert loss.item() == pytest.approx(float(FORMULAS[kind](error)) + sum(ends), rel=1e-5, abs=1e-6)
    loss.backward()
    assert torch.isfinite(severity.grad).all()
    below, above = (-q if truth > end else 1 - q for q, end in ((LOW, -1.0), (HIGH, 2.0)))
    np.testing.assert_allclose(severity.grad[0, [0, 2]], [below, above], rtol=1e-5)


@pytest.mark.parametrize("kind", list(SEVERITY_LOSS))
def test_every_severity_loss_grows_with_the_error_and_has_finite_gradients(kind):
    severity = torch.zeros(6, 3, requires_grad=True)
    truth, losses = torch.tensor([0.0, 1e-4, 0.3, -0.3, 4.0, -40.0]), []
    for one in range(6):
        losses.append(SeverityLoss(kind)(RawAnswer(torch.zeros(1, 4), severity[one : one + 1]), truth[one : one + 1]))
    sum(losses).backward()
    assert torch.isfinite(severity.grad).all()
    assert losses[0] <= losses[1] < losses[2] < losses[4] < losses[5]
    assert losses[0] < losses[3] < losses[5]


@pytest.mark.parametrize("kind", list(SEVERITY_LOSS))
def test_a_building_of_weight_two_counts_as_two(kind):
    torch.manual_seed(0)
    severity, truth, weight = torch.randn(6, 3), torch.randn(6), torch.tensor([1, 2, 1, 3, 1, 1])
    twice = torch.repeat_interleave(torch.arange(6), weight)
    found = SeverityLoss(kind)(RawAnswer(torch.zeros(6, 4), severity), truth, weight.float())
    torch.testing.assert_close(found, SeverityLoss(kind)(RawAnswer(torch.zeros(9, 4), severity[twice]), truth[twice]))


def test_the_losses_of_a_run_are_those_its_params_name():
    common = {"epochs": 1, "patience": 1, "learning_rate": 0.1}
    assert build_losses(Train(**common)) == (QuadrantLoss(), SeverityLoss())
    weights = (1.0, 2.0, 3.0, 4.0)
    named = {"quadrant_loss": "focal", "focal_gamma": 1.0, "class_weights": weights, "severity_loss": "huber"}
    assert build_losses(Train(**common, **named)) == (QuadrantLoss("focal", 1.0, weights), SeverityLoss("huber"))
