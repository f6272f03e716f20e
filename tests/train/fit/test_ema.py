from pathlib import Path
from types import SimpleNamespace

import torch
from lightning import Callback, LightningModule
from safetensors.torch import load_file

from plumbline.train.fit import trainer as fit_module
from plumbline.train.fit.ema import Ema
from tests.train.fit.test_trainer import run


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
