"""Explanations add up, are of the building alone, and say what is so where it is known."""

import math

import pytest
import torch

from plumbline.model.explain import NEGLIGIBLE, attention_share, explain, integrated_gradients
from tests.model.made import PLUGINS, inputs, rows, small_model, widen

LENGTHS = [3, 12, 1, 20]


@pytest.mark.parametrize("kind", PLUGINS[::3], ids=lambda kind: "-".join(map(str, kind.values())))
def test_attributions_add_up_to_what_is_explained(kind):
    model, batch = small_model(**kind), inputs(LENGTHS)
    outside = ~batch[3]
    with torch.inference_mode():
        found = explain(model, *inputs(LENGTHS))
        whole = model.raw(*batch)
        average = model.network(*(torch.zeros_like(part) for part in batch[:3]), batch[3])
    decided = whole.logits_B4.argmax(1, keepdim=True)
    margins = [(answer.logits_B4.gather(1, decided)[:, 0] - answer.logits_B4.mean(1)) for answer in (whole, average)]
    torch.testing.assert_close(found.quadrant.difference_B, margins[0] - margins[1], atol=1e-4, rtol=1e-4)
    middles = (whole.severity_B3[:, 1] - average.severity_B3[:, 1]) * model.get_buffer("severity_sd")
    torch.testing.assert_close(found.severity.difference_B, middles, atol=1e-4, rtol=1e-4)
    for part in (found.quadrant, found.severity):
        gap = (part.scatterer_BL.sum(1) + part.geometry_BF.sum(1) - part.difference_B).abs()
        assert (gap <= 0.01 * part.difference_B.abs().clamp(min=NEGLIGIBLE)).all()
        assert not part.scatterer_BL[outside].any()
    torch.testing.assert_close(found.attention_BL.sum(1), torch.ones(len(LENGTHS)))
    assert not found.attention_BL[outside].any()
    assert (found.attention_BL >= 0).all()


def values(explanation):
    """All but the differences."""
    return [explanation.attention_BL, *explanation.quadrant[:2], *explanation.severity[:2]]


def test_a_building_is_explained_alike_alone_and_in_any_company():
    model, batch = small_model(max_attention_length=8, pooling="attention"), inputs(LENGTHS)
    wide = explain(model, *widen(batch, 25, math.nan))
    for i, length in enumerate(LENGTHS):
        alone = explain(model, *rows(batch, [i]))
        for left, right in zip(values(wide), values(alone), strict=True):
            torch.testing.assert_close(left[i, : right.shape[1]], right[0], atol=1e-4, rtol=1e-4)
            assert left.shape[1] != 25 or not left[i, length:].any()


def test_what_is_average_or_unread_moves_nothing():
    model, batch = small_model(), inputs([6, 4])
    for name, values in zip(("distance", "slope"), batch[:2], strict=True):
        values[0, 2] = model.get_buffer(f"{name}_mean")
    with torch.no_grad():
        model.network.geometry[0].weight[:, 5] = 0
    found = integrated_gradients(model, "quadrant", batch)
    assert found.scatterer_BL[0, 2] == 0
    assert found.scatterer_BL[0, [0, 1, 3, 4, 5]].all()
    assert not found.geometry_BF[:, 5].any()
    assert found.geometry_BF[:, 6].all()


def test_without_attention_the_share_is_that_of_the_pooling():
    batch = inputs([4, 2])
    share = attention_share(small_model(attention="none", pooling="mean"), *batch)
    torch.testing.assert_close(share, torch.tensor([[0.25] * 4, [0.5, 0.5, 0, 0]]))


def test_long_buildings_have_the_share_of_the_pooling_and_short_ones_that_of_attention():
    limited, whole = (small_model(pooling="mean", max_attention_length=most) for most in (5, 1024))
    batch = inputs([5, 9])
    short, long = attention_share(limited, *batch)
    torch.testing.assert_close(short, attention_share(whole, *batch)[0])
    assert (short[:5] - 0.2).abs().max() > 1e-3
    torch.testing.assert_close(long, torch.full((9,), 1 / 9))


def test_a_scatterer_that_all_look_at_has_the_largest_share():
    """One layer and the mean: half of the share stays where it is, half goes where attention looks."""
    model, batch = small_model(attention_layers=1, pooling="mean", position="none"), inputs([5], seed=7)
    attention = model.network.neck.layers[0].attention
    seen = []
    hook = attention.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
    model(*batch)
    hook.remove()
    with torch.no_grad():
        # Every query is the same, and along what sets the third scatterer apart.
        attention.query.weight.zero_()
        attention.query.bias.copy_(50 * attention.key(seen[0][0, 2] - seen[0][0].mean(0)) - 50 * attention.key.bias)
        weights = attention.weights(seen[0], batch[3]).mean(1)[0]
    wanted = 0.1 + weights.mean(0) / 2
    torch.testing.assert_close(attention_share(model, *batch)[0], wanted)
    assert wanted.argmax() == 2
