from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from lightning import Callback, LightningModule
from safetensors.torch import load_file

from plumbline.train.fit import trainer as fit_module
from plumbline.train.fit.ema import Ema
from tests.train.fit.test_trainer import run, work

__all__ = ["work"]


def test_the_saved_weights_are_the_mean_over_the_steps(work, monkeypatch):
    """By the recursion of the mean, from the weights after each step."""
    seen = []

    class Follow(Callback):
        def __init__(self, *_):
            super().__init__()

        def on_train_batch_end(self, trainer, pl_module, *_):
            seen.append(pl_module.model.network.heads.quadrant_head.weight.detach().clone())

    monkeypatch.setattr(fit_module, "Monitor", Follow)
    run(epochs=1, ema_decay=0.6)
    mean = seen[0]
    for step, weight in enumerate(seen[1:], start=1):
        decay = min(0.6, (1 + step) / (10 + step))
        mean = decay * mean + (1 - decay) * weight
    saved = load_file(Path("out") / "model.safetensors")
    torch.testing.assert_close(saved["network.heads.quadrant_head.weight"], mean, rtol=1e-5, atol=1e-7)
    assert not torch.equal(seen[-1], mean)


def test_the_mean_is_kept_where_the_weights_will_be():
    """They come there after the mean was made; each step would copy them all otherwise."""
    module, average = LightningModule(), Ema(0.9)
    module.layer = torch.nn.Linear(2, 2)
    average.setup(SimpleNamespace(strategy=SimpleNamespace(root_device=torch.device("meta"))), module, "fit")
    assert {value.device.type for value in average._average_model.module.parameters()} == {"meta"}
    assert module.layer.weight.device.type == "cpu"


def test_statistics_of_a_batch_are_those_of_the_last_step():
    """Buffers have no mean: infinite bounds would become no numbers."""
    module, average = LightningModule(), Ema(0.9)
    module.layer = torch.nn.BatchNorm1d(2)
    module.register_buffer("bound", torch.full((), torch.inf))
    trainer = SimpleNamespace(strategy=SimpleNamespace(root_device=torch.device("cpu")), global_step=0)
    average.setup(trainer, module, "fit")
    for _ in range(3):
        trainer.global_step += 1
        module.layer(torch.randn(8, 2) + 5)
        average.on_train_batch_end(trainer, module, None, None, 0)
    mean = average._average_model.module
    assert mean.layer.running_mean.min() > 0.5
    torch.testing.assert_close(mean.layer.running_mean, module.layer.running_mean, rtol=0, atol=0)
    assert mean.bound.isinf()
    assert average._average_model.n_averaged == 3


def test_a_batch_that_ends_no_step_does_not_move_the_mean():
    module, average = LightningModule(), Ema(0.9)
    module.layer = torch.nn.Linear(1, 1)
    trainer = SimpleNamespace(strategy=SimpleNamespace(root_device=torch.device("cpu")), global_step=1)
    average.setup(trainer, module, "fit")
    for step, value in ((1, 2.0), (1, 50.0), (2, 4.0)):
        trainer.global_step = step
        torch.nn.init.constant_(module.layer.weight, value)
        average.on_train_batch_end(trainer, module, None, None, 0)
    assert average._average_model.module.layer.weight.item() == pytest.approx(2 * 2 / 11 + 4 * 9 / 11)
