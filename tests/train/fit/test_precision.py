"""Training in half precision on the CPU: torch's autocast and scaler are those of a GPU, and Lightning's too."""

import pytest
import torch
from lightning.pytorch.plugins.precision import MixedPrecision

from plumbline.model.attention import Attention
from plumbline.train.fit import trainer
from tests.train.fit.test_trainer import history, run, said, work

__all__ = ["said", "work"]

HALF = {"bf16": ("bf16-mixed", torch.bfloat16), "fp16": ("16-mixed", torch.float16)}
TOO_LARGE = 2.0**28
"""A scale of the loss with which gradients overflow."""


class Watched(MixedPrecision):
    """Notes each step: the scale before and after it, and whether it changed the weights."""

    def __init__(self, precision, scaler):
        super().__init__(precision, "cpu", scaler)
        self.steps = []

    def optimizer_step(self, optimizer, model, closure, **kwargs):
        before = self.scale, [parameter.detach().clone() for parameter in model.parameters()]
        result = super().optimizer_step(optimizer, model, closure, **kwargs)
        moved = any(not torch.equal(*pair) for pair in zip(before[1], model.parameters(), strict=True))
        self.steps.append((before[0], self.scale, moved))
        return result

    @property
    def scale(self):
        return self.scaler.get_scale() if self.scaler else 1.0


@pytest.fixture
def trained(work, monkeypatch):
    """Train in a precision, and return the steps; Lightning alone would take bf16 for fp16 on a CPU."""

    def do(name, precision, first_scale=2.0**10, **changed):
        scaler = torch.amp.GradScaler("cpu", init_scale=first_scale) if precision == "fp16" else None
        plugin, made = Watched(HALF[precision][0], scaler), trainer.Trainer
        seen, split = set(), Attention._split

        def noted(self, x_BLD):
            if self.training:
                seen.add(x_BLD.dtype)
            return split(self, x_BLD)

        def with_plugin(*, precision, **options):
            return made(plugins=[plugin], **options)

        with monkeypatch.context() as patch:
            patch.setattr(trainer, "Trainer", with_plugin)
            patch.setattr(Attention, "_split", noted)
            patch.setattr(trainer, "check_devices", lambda *_: None)
            run(name, precision=precision, **changed)
        assert seen == {HALF[precision][1]}
        return plugin.steps

    return do


# Training in fp16 needs a GPU.
@pytest.mark.parametrize(("precision", "close"), [("bf16", 0.05), pytest.param("fp16", 0.02, marks=pytest.mark.slow)])
@pytest.mark.parametrize("attention", ["sdpa", "ragged"])
def test_half_precision_trains_as_float32_does(trained, precision, close, attention):
    options = {"epochs": 3, "model": {"dropout": 0.0, "attention": attention}}
    steps = trained("half", precision, **options)
    run("whole", **options)
    assert all(moved for _, _, moved in steps)
    for one, other in zip(history("half"), history("whole"), strict=True):
        assert one["train_loss"] == pytest.approx(other["train_loss"], rel=close)


@pytest.mark.slow
def test_steps_whose_gradients_overflow_are_left_out_until_the_scale_fits(trained):
    steps = trained("scaled", "fp16", TOO_LARGE, epochs=12, learning_rate=0.01)
    left_out = [step for step in steps if not step[2]]
    assert 3 < len(left_out) < len(steps) / 2
    for before, after, moved in steps:
        assert after == (before if moved else before / 2)
    assert not any(moved for _, _, moved in steps[:3])
    rows = history("scaled")
    assert rows[-1]["train_loss"] < 0.8 * rows[0]["train_loss"]
