from contextlib import nullcontext

import numpy as np
import pytest
import torch

from plumbline.train.data.splits import fit_statistics
from plumbline.train.fit.module import Optimisation
from plumbline.train.fit.short_run import quick_fit
from tests.refusals import refuses
from tests.train.made import make_model, make_params, make_sequences

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize("broken", [False, True])
def test_the_process_has_its_threads_again_whatever_comes_of_the_run(monkeypatch, broken):
    data, params = make_sequences(60), make_params(epochs=1)
    model = make_model()
    fit_statistics(model, data)
    if broken:
        next(model.network.heads.parameters()).data.fill_(np.nan)
    monkeypatch.setattr("plumbline.train.fit.short_run.threads", lambda _: 2)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with refuses("training.diverged", "nan") if broken else nullcontext():
            quick_fit(model, data, params.train)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_late_modules_move_from_their_epoch_on_and_not_before(monkeypatch):
    data, params = make_sequences(60), make_params(epochs=4)
    model = make_model()
    fit_statistics(model, data)
    late = {f"network.heads.{name}" for name, _ in model.network.heads.named_parameters()}
    moved, before = [], {}

    def look(self):
        now = {name: value.detach().clone() for name, value in model.named_parameters()}
        if before:
            names = {name for name, value in now.items() if not torch.equal(value, before[name])}
            moved.append((bool(names & late), bool(names - late)))
        before.update(now)

    monkeypatch.setattr(Optimisation, "on_train_start", look)
    monkeypatch.setattr(Optimisation, "on_train_epoch_end", look)
    quick_fit(model, data, params.train, late=[model.network.heads], late_epoch=2)
    assert moved == [(False, True), (False, True), (True, True), (True, True)]
