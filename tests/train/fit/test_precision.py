"""Training in half precision on the CPU, by torch's autocast; fp16 needs a GPU."""

import pytest
import torch

from plumbline.model.attention import Attention
from tests.train.fit.test_trainer import history, run


@pytest.mark.parametrize("attention", ["sdpa", pytest.param("ragged", marks=pytest.mark.slow)])
def test_half_precision_trains_as_float32_does(work, monkeypatch, attention):
    types, split = set(), Attention._split

    def noted(self, x_BLD):
        if self.training:
            types.add(x_BLD.dtype)
        return split(self, x_BLD)

    monkeypatch.setattr(Attention, "_split", noted)
    options = {"epochs": 2, "model": {"dropout": 0.0, "attention": attention}}
    run("half", precision="bf16", **options)
    assert types == {torch.bfloat16}
    run("whole", **options)
    for half, whole in zip(history("half"), history("whole"), strict=True):
        assert half["train_loss"] == pytest.approx(whole["train_loss"], rel=0.05)
