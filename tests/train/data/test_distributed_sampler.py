import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from plumbline.model.losses import build_losses
from plumbline.train.data.batches import BuildingSet, SimilarLengths
from plumbline.train.data.datamodule import Data, first_epochs
from plumbline.train.data.sampler import Examples, ShareSampler, turn
from plumbline.train.fit.module import distillation_loss, objective
from tests.refusals import refuses
from tests.train.fit.test_trainer import history, run, weights
from tests.train.made import make_model, make_params, make_sequences

lengths = st.lists(st.integers(1, 200), min_size=1, max_size=200).map(np.array)


@given(lengths, st.integers(1, 20), st.integers(1, 3), st.integers(1, 4), st.integers(0, 9))
def test_the_processes_share_each_step_without_overlap(length, batch_size, accumulate, processes, epoch):
    """Every building once, every process as often, the same shares as with all of them in one process."""
    shares = accumulate * processes
    dealt = []
    for rank in range(processes):
        steps = SimilarLengths(length, batch_size, 1, shares=shares)
        deal = ShareSampler(steps, accumulate, rank, processes)
        deal.set_epoch(epoch)
        own = list(deal)
        assert len(own) == len(deal)
        dealt.append([(share.step, share.number, share.index_S[share.number :: shares]) for share in own])
    assert len({len(own) for own in dealt}) == 1
    everything = [part for own in dealt for part in own]
    assert sorted(np.concatenate([index for *_, index in everything]).tolist()) == list(range(len(length)))
    assert len({(step, number) for step, number, _ in everything}) == len(everything)
    for *_, index in everything:
        assert len(index) <= batch_size


def seeded():
    torch.manual_seed(0)
    return make_model().eval()


@pytest.mark.parametrize("shares", [2, 3, 7])
@pytest.mark.parametrize("changed", [{"quadrant_loss": "focal"}, {"balance": "weights"}])
def test_the_mean_of_the_shares_losses_is_the_loss_of_the_step(shares, changed):
    """So is the gradient, which is linear; quadrants of both steps are undefined in part, and one share is empty."""
    params = make_params(**changed)
    model, teacher = seeded(), seeded()
    with torch.no_grad():
        teacher.network.get_parameter("heads.quadrant_head.bias").add_(1)
    sequences = make_sequences(23)
    for size in (23, 5):
        totals = []
        for number_of_shares in (1, shares):
            steps = SimilarLengths(sequences.length[:size], 40, 3, shares=number_of_shares)
            table = BuildingSet(sequences, params.train)
            examples = Examples(table, steps, augment=True, quadrant=build_losses(params.train).quadrant)
            total = 0.0
            for share in ShareSampler(steps, number_of_shares):
                example = examples[share]
                batch = turn(example.batch, example.symmetry_B)
                answer = model.raw(*batch[:4])
                own = objective(model, answer, batch, params.train, example.scale)
                total += (own + distillation_loss(answer, teacher, batch, example.scale)).item() / number_of_shares
            totals.append(total)
        assert totals[1] == pytest.approx(totals[0], rel=1e-5)


@pytest.mark.parametrize("augment", [True, False])
def test_a_building_counts_as_much_in_small_steps_as_in_large_ones(augment):
    """The mean over steps of one building is the step of all: a weight over the step's own would be 1 in each."""
    params = make_params(balance="weights")
    model, made = seeded(), make_sequences(24)
    sequences = made.take(np.flatnonzero(made.quadrant >= 0))
    means = []
    for batch_size in (1, len(sequences)):
        steps = SimilarLengths(sequences.length, batch_size, 3)
        table = BuildingSet(sequences, params.train)
        examples = Examples(table, steps, augment, build_losses(params.train).quadrant)
        totals = []
        for epoch in range(10 if augment else 1):  # frames are drawn anew, and quadrants are turned with them
            steps.set_epoch(epoch)
            for share in ShareSampler(steps):
                batch, symmetry_B, scale = examples[share]
                turned = turn(batch, symmetry_B)
                answer = model.raw(*batch[:4])  # of the frame that it came in, so that only what counts is drawn
                totals.append(objective(model, answer, turned, params.train, scale).item())
        means.append(np.mean(totals))
        if batch_size == 1:
            assert np.std([float(examples[share].scale.quadrant) for share in ShareSampler(steps)]) > 0.1
    assert means[0] == pytest.approx(means[1], rel=0.04 if augment else 1e-5)


def test_accumulated_batches_are_one_batch(work):
    changed = {"epochs": 1, "learning_rate": 0.01, "balance": "weights", "model": {"dropout": 0.0}}
    run("one", batch_size=24, **changed)
    run("three", batch_size=8, accumulate=3, **changed)
    assert apart("one", "three") < 1e-5
    one, three = (history(name)[0]["train_loss"] for name in ("one", "three"))
    assert one == pytest.approx(three, rel=1e-5)
    assert weights("one") != weights("three")  # sums in another order: the two were really different runs


def apart(one: str, other: str) -> float:
    left, right = (load_file(Path(name) / "model.safetensors") for name in (one, other))
    return max(float((left[name] - right[name]).abs().max()) for name in left if name.startswith("network."))


def test_the_curriculum_says_which_buildings_are_drawn():
    sequences = make_sequences(80)
    difficulty = (np.arange(80) % 4 - 1).astype(np.int8)
    train = make_params(epochs=5, curriculum={"easy": 1, "medium": 2, "hard": 4}).train
    first = first_epochs(replace(sequences, difficulty=difficulty), train)
    for epoch, allowed in enumerate([(-1, 0), (-1, 0, 1), (-1, 0, 1), (-1, 0, 1, 2), (-1, 0, 1, 2)]):
        for weight in (None, np.ones(80, np.float32)):
            steps = SimilarLengths(sequences.length, 8, 0, weight, first_epoch=first)
            steps.set_epoch(epoch)
            batches = list(steps)
            drawn = np.concatenate(batches)
            assert len(batches) == len(steps)
            assert sorted(drawn.tolist()) == np.flatnonzero(np.isin(difficulty, allowed)).tolist()


def test_a_curriculum_with_nothing_to_begin_with_is_refused():
    sequences = replace(make_sequences(8), difficulty=np.full(8, 2, np.int8))
    assert first_epochs(sequences, make_params().train) is None
    with refuses("curriculum.empty_first_epoch", "train.curriculum: ", "'hard': 8"):
        first_epochs(sequences, make_params(curriculum={"hard": 2}).train)
    losses = make_params(curriculum={"hard": 2}).train
    with refuses("curriculum.empty_first_epoch", "compress.curriculum: "):
        Data(sequences, sequences, losses, losses, seed=0, batch_size=8, section="compress")


def test_processes_that_would_begin_at_different_epochs_are_stopped(monkeypatch):
    """On machines that share no disk, one has the checkpoint and the other does not: they would wait for ever."""
    monkeypatch.setattr("plumbline.train.data.datamodule.gather", lambda value: [value, False])
    losses, train = make_params(epochs=1).train, make_sequences(20)
    data = Data(train, train, losses, losses, seed=0, batch_size=8, resumed=True)
    data.trainer = SimpleNamespace(strategy=SimpleNamespace(root_device=torch.device("cpu")), is_global_zero=True)
    with refuses("checkpoint.not_shared", ".plumbline"):
        data.setup("fit")


@pytest.mark.parametrize(("device", "ahead"), [("cuda", 2), ("cpu", 0)])
def test_batches_made_ahead_for_a_gpu_are_the_same_ones(device, ahead, monkeypatch):
    """With everything that is drawn for a batch; also in a process that has run a flow, whose end no worker's is."""
    monkeypatch.setattr(threading, "_threading_atexits", [pytest.fail])
    losses = make_params(padding="last", batch_size=8, seed=3).train
    train, tune = make_sequences(50, 1), make_sequences(20, 2)
    data = Data(train, tune, losses, losses, seed=3, batch_size=8)
    progress = SimpleNamespace(current=SimpleNamespace(processed=1))
    data.trainer = SimpleNamespace(
        strategy=SimpleNamespace(root_device=torch.device(device)),
        is_global_zero=True,
        world_size=1,
        global_rank=0,
        fit_loop=SimpleNamespace(epoch_progress=progress),
    )
    data.setup("fit")
    for loader in (data.train_dataloader(), data.val_dataloader()):
        assert (loader.num_workers, loader.pin_memory) == (ahead, ahead > 0)
        loader.pin_memory = False  # needs a GPU
        made = list(loader)
        plain = [loader.dataset[share] for share in loader.sampler]
        assert len(made) == len(plain) == (7 if loader.dataset.augment else 1)
        for one, other in zip(made, plain, strict=True):
            for part in (lambda example: example.batch, lambda example: example.scale):
                torch.testing.assert_close(tuple(part(one)), tuple(part(other)), rtol=0, atol=0)
            assert torch.equal(one.symmetry_B, other.symmetry_B)
