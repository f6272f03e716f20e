import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from plumbline.train.fit import batch_size as auto_batch_size
from plumbline.train.fit.batch_size import LARGEST, SMALLEST, batch_size, building_bytes, fitting
from tests.refusals import warned
from tests.train.fit.test_trainer import Killed, run
from tests.train.made import make_model, make_params, make_sequences


@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_the_size_is_a_power_of_two_within_all_bounds(memory, data):
    found = fitting(memory, data)
    assert found & (found - 1) == 0
    assert SMALLEST <= found <= LARGEST
    if found > SMALLEST:
        assert found <= min(memory, data)
    if found < LARGEST:
        assert 2 * found > min(memory, data)


def test_wider_networks_and_longer_buildings_need_more():
    params = make_params()
    small = building_bytes(make_model(), make_sequences(20), params.train)
    wide = building_bytes(make_model(channels=32), make_sequences(20), params.train)
    long = building_bytes(make_model(), make_sequences(20, shortest=48, longest=48), params.train)
    assert wide > 2 * small
    assert long > 1.5 * small


@pytest.mark.parametrize("key", [{"checkpoint_activations": True}, {"dropout": 0.3}])
def test_a_model_that_was_loaded_needs_what_it_will_need_in_training(key):
    params = make_params(key)
    model, train = make_model(**key), make_sequences(20)
    needed = building_bytes(model, train, params.train)
    assert model.training
    assert building_bytes(model.eval(), train, params.train) == needed
    assert not model.training


def test_counting_on_the_cpu_takes_no_memory_of_any_gpu(monkeypatch):
    """torch would otherwise keep the random numbers of each, and begin to use it."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: pytest.fail("a GPU was asked"))
    params = make_params()
    assert building_bytes(make_model(), make_sequences(20), params.train) > 0


def test_little_memory_makes_small_batches(monkeypatch, caplog):
    params = make_params(batch_size="auto", accelerator="cpu")
    train, model = make_sequences(4000), make_model()
    each = building_bytes(model, train, params.train)
    sizes = []
    for buildings in (1, 100, 10**6):
        monkeypatch.setattr(auto_batch_size, "free_bytes", lambda gpu, buildings=buildings: 2 * each * buildings)
        sizes.append(batch_size(model, train, params.train, params.train))
    assert sizes == [16, 64, 256]  # the last by eight steps an epoch
    assert len(warned(caplog, "batch_size.little_memory", " 1 ", " 16", "train.batch_size")) == 1
    assert batch_size(model, train, make_params(batch_size=7).train, params.train) == 7


def test_a_resumed_run_keeps_the_size_that_was_found(work, monkeypatch):
    with pytest.raises(Killed):
        run(dies_before=1, batch_size="auto")
    (last,) = Path(".plumbline/checkpoints").glob("*/last.ckpt")
    found = torch.load(last, weights_only=True)["batch_size"]
    monkeypatch.setattr(auto_batch_size, "SMALLEST", 4 * found)
    run(batch_size="auto")
    assert json.loads(Path("out/record.json").read_text())["batch_size"] == found
