"""The poolings, each against its formula."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from plumbline.model.pooling import Attended, Deviation, Max, Mean, PoolingLayer
from plumbline.params.plugins import POOLING


def buildings(lengths, seed=0):
    """Values of scatterers and their mask; the padding holds values too."""
    torch.manual_seed(seed)
    x = torch.randn(len(lengths), max(lengths) + 2, 3) - 5
    return x, torch.arange(x.shape[1]) < torch.tensor(lengths)[:, None]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_looks_are_over_the_mask_alone(lengths):
    x, mask = buildings(lengths)
    attended = Attended(3)
    torch.nn.init.normal_(attended.query)
    found = [look(x, mask[..., None]) for look in (Mean(3), Max(3), Deviation(3), attended)]
    for i, length in enumerate(lengths):
        own = x[i, :length]
        weights = (own @ attended.query).softmax(0)[:, None]
        wanted = [own.mean(0), own.amax(0), (own.var(0, correction=0) + 1e-5).sqrt(), (weights * own).sum(0)]
        for left, right in zip(found, wanted, strict=True):
            torch.testing.assert_close(left[i], right, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", list(POOLING))
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_shares_add_up_to_one_and_padding_has_none(kind, lengths):
    x, mask = buildings(lengths)
    share = PoolingLayer(kind, 3).share(x, mask)
    torch.testing.assert_close(share.sum(1), torch.ones(len(lengths)))
    assert (share >= 0).all()
    assert not share[~mask].any()


@pytest.mark.parametrize("kind", list(POOLING))
def test_the_gradients_of_a_lone_scatterer_are_finite(kind):
    x, mask = buildings([1, 4])
    x.requires_grad_()
    sum(look.sum() for look in PoolingLayer(kind, 3)(x, mask)).backward()
    assert torch.isfinite(x.grad).all()
    assert not x.grad[~mask].any()


def test_the_share_in_the_maximum_is_counted_by_channel():
    x = torch.tensor([[[9.0, 1, 1, 4], [2, 8, 1, 4], [9, 9, 9, 9]]])
    share = Max(4).share(x, torch.tensor([[[True], [True], [False]]]))
    torch.testing.assert_close(share, torch.tensor([[0.5, 0.5, 0.0]]))  # 1 + 0 + 1/2 + 1/2 and 0 + 1 + 1/2 + 1/2 of 4
