"""The losses, each against its formula, and what they are least at."""

import numpy as np
import pytest
import torch

from plumbline.core.strain import LEVEL_EDGES_PERMILLE
from plumbline.model.losses import (
    ACCEPTED_WEIGHT,
    CHARBONNIER_WIDTH,
    FOCAL_GAMMA,
    HIGH,
    LEVEL_WEIGHT,
    LOW,
    MECHANISM_WEIGHT,
    QuadrantLoss,
    SeverityLoss,
    accepted_loss,
    build_losses,
    level_loss,
    mechanism_loss,
)
from plumbline.params import Train
from plumbline.params.plugins import QUADRANT_LOSS, SEVERITY_LOSS
from tests.model.made import WIDTHS, raw_answer
from tests.train.made import make_batch


def where(logits):
    return raw_answer(logits_B4=torch.as_tensor(logits))


def how_much(severity):
    return raw_answer(severity_B3=torch.as_tensor(severity))


def alone(loss, answer, quadrant, *weight):
    """The loss where one quadrant of each building is right."""
    return loss(answer, quadrant, quadrant[:, None] == torch.arange(4), *weight)


def test_quadrant_loss_is_the_mean_over_defined_quadrants():
    logits = [[2.0, 0, 0, 0], [0, 0, 3.0, 0], [9.0, 0, 0, 0]]
    wanted = np.mean([np.log(np.exp(2) + 3) - 2, np.log(np.exp(3) + 3)])
    assert alone(QuadrantLoss(), where(logits), torch.tensor([0, 1, -1])).item() == pytest.approx(wanted, rel=1e-6)


def test_quadrant_loss_is_zero_with_gradients_where_none_is_defined():
    logits = torch.randn(3, 4, requires_grad=True)
    loss = alone(QuadrantLoss(), where(logits), torch.full((3,), -1))
    loss.backward()
    assert loss.item() == 0
    assert not logits.grad.any()


def test_focal_loss_is_its_formula():
    answer, quadrant = where([[2.0, 0, 0, 0], [0, 0, 3.0, 0]]), torch.tensor([0, 1])
    right = np.array([np.exp(2) / (np.exp(2) + 3), 1 / (np.exp(3) + 3)])
    wanted = ((1 - right) ** FOCAL_GAMMA * -np.log(right)).mean()
    assert alone(QuadrantLoss("focal"), answer, quadrant).item() == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("kind", list(QUADRANT_LOSS))
def test_certain_and_undefined_quadrants_have_finite_gradients(kind):
    logits = torch.tensor([[200.0, 0, 0, 0], [200.0, 0, 0, 0], [1.0, 0, 0, 0]], requires_grad=True)
    loss = alone(QuadrantLoss(kind), where(logits), torch.tensor([0, 1, -1]))
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
    loss = SeverityLoss(kind)(how_much(severity), torch.tensor([truth]))
    ends = [max(q * (truth - end), (q - 1) * (truth - end)) for q, end in ((LOW, -1.0), (HIGH, 2.0))]
    assert loss.item() == pytest.approx(float(FORMULAS[kind](error)) + sum(ends), rel=1e-5, abs=1e-6)
    loss.backward()
    assert torch.isfinite(severity.grad).all()
    below, above = (-q if truth > end else 1 - q for q, end in ((LOW, -1.0), (HIGH, 2.0)))
    np.testing.assert_allclose(severity.grad[0, [0, 2]], [below, above], rtol=1e-5)


@pytest.mark.parametrize("kind", list(SEVERITY_LOSS))
def test_a_building_of_weight_two_counts_as_two(kind):
    torch.manual_seed(0)
    severity, truth, weight = torch.randn(6, 3), torch.randn(6), torch.tensor([1, 2, 1, 3, 1, 1])
    twice = torch.repeat_interleave(torch.arange(6), weight)
    found = SeverityLoss(kind)(how_much(severity), truth, weight.float())
    torch.testing.assert_close(found, SeverityLoss(kind)(how_much(severity[twice]), truth[twice]))


def test_what_is_aimed_at_is_spread_over_all_right_answers():
    """Least where the quadrants of a failing end have half of the probability each, and then log 2."""
    accepted, end = torch.tensor([[True, False, False, True]]), torch.tensor([3])
    both = QuadrantLoss()(where([[9.0, -9.0, -9.0, 9.0]]), end, accepted)
    assert both.item() == pytest.approx(np.log(2), abs=1e-6)
    for logits in ([0.0, -9.0, -9.0, 9.0], [9.0, -9.0, -9.0, 0.0], [0.0, 0.0, 0.0, 0.0]):
        assert QuadrantLoss()(where([logits]), end, accepted) > both + 0.3
    logits = torch.tensor([[0.7, -0.2, 0.1, 1.0]])
    wanted = -logits.log_softmax(1)[0, [0, 3]].mean()
    torch.testing.assert_close(QuadrantLoss()(where(logits), end, accepted), wanted)


def test_the_loss_of_right_answers_is_their_binary_cross_entropy_over_those_that_count():
    logits = torch.tensor([[2.0, -1.0, 0.0, 0.5], [9.0, 9.0, 9.0, 9.0], [-1.0, 3.0, 0.2, 0.0]])
    accepted = torch.tensor([[True, False, False, True], [False] * 4, [False, True, True, False]])
    p = 1 / (1 + np.exp(-logits.double().numpy()))
    each = -np.log(np.where(accepted, p, 1 - p)).mean(1)
    found = accepted_loss(raw_answer(accepted_B4=logits), accepted, torch.tensor([1.0, 0.0, 3.0]))
    assert found.item() == pytest.approx((each[0] + 3 * each[2]) / 4, rel=1e-5)


def test_the_loss_of_a_mechanism_is_nothing_where_it_is_not_known():
    logits = torch.randn(4, 6, generator=torch.Generator().manual_seed(0), requires_grad=True)
    mechanism = torch.tensor([5, -1, 0, 2], dtype=torch.int8)
    found = mechanism_loss(raw_answer(mechanism_BM=logits), mechanism, torch.tensor([1.0, 1.0, 2.0, 0.0]))
    own = -logits.detach().log_softmax(1)
    torch.testing.assert_close(found.detach(), (own[0, 5] + 2 * own[2, 0]) / 4)
    found.backward()
    assert not logits.grad[[1, 3]].any()
    assert torch.isfinite(logits.grad).all()
    unknown = mechanism_loss(raw_answer(mechanism_BM=logits), torch.full((4,), -1), torch.zeros(4))
    assert unknown.item() == 0


def test_the_loss_of_levels_is_cross_entropy_of_the_level_that_begins_at_its_edge():
    edges = torch.tensor(LEVEL_EDGES_PERMILLE)
    severity = torch.cat([torch.zeros(1), edges, edges - 1e-4])
    level = [*range(len(edges) + 1), *range(len(edges))]
    logits = torch.randn(len(level), len(edges) + 1, generator=torch.Generator().manual_seed(1))
    answer = raw_answer(levels_BK=logits)
    own = -logits.log_softmax(1)[torch.arange(len(level)), torch.tensor(level)]
    torch.testing.assert_close(level_loss(answer, severity), own.mean())
    weight = torch.rand(len(level), generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(level_loss(answer, severity, weight), (own * weight).sum() / weight.sum())


COMMON = {"epochs": 1, "patience": 1, "learning_rate": 0.1}


def test_each_loss_counts_by_its_weight():
    torch.manual_seed(0)
    answer = raw_answer(**{name: torch.randn(30, width) for name, width in WIDTHS.items()})
    labels, standard = make_batch(30), torch.randn(30)

    def losses(quadrant, severity):
        own = build_losses(Train(**COMMON, quadrant_weight=quadrant, severity_weight=severity))
        return [own.over_damaged(answer, labels).item(), own.over_all(answer, labels, standard).item()]

    quadrant = QuadrantLoss()
    counts = quadrant.counts(labels.quadrant_B)
    own = (quadrant(answer, labels.quadrant_B, labels.accepted_B4), SeverityLoss()(answer, standard))
    others = (
        ACCEPTED_WEIGHT * accepted_loss(answer, labels.accepted_B4, counts)
        + MECHANISM_WEIGHT * mechanism_loss(answer, labels.mechanism_B, counts),
        LEVEL_WEIGHT * level_loss(answer, labels.severity_B),
    )
    wanted = [weight * mean.item() + rest.item() for weight, mean, rest in zip((0.5, 1.5), own, others, strict=True)]
    np.testing.assert_allclose(losses(0.5, 1.5), wanted, rtol=1e-5)
