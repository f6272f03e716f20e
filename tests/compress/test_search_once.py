"""Pruned once on each machine, whoever asks."""

import multiprocessing
import time

import pytest
import torch

from plumbline.compress.search import made_once
from tests.model.made import small_model


def ask(folder, rank, said):
    """What a process of a machine does."""

    def make():
        time.sleep(2)
        with (folder / "made").open("a") as made:
            made.write("once ")
        return small_model().eval(), None

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCAL_RANK", rank)
        model, _ = made_once(make, folder / "pruned")
    said.put(float(sum(value.sum() for value in model.state_dict().values() if value.isfinite().all())))


def never():
    pytest.fail("made again")


@pytest.mark.parametrize("rows", [None, [{"ratio": 0.5, "within": True}]])
def test_after_a_kill_it_is_taken_from_where_it_was_left(tmp_path, rows):
    model = small_model().eval()
    assert made_once(lambda: (model, rows), tmp_path / "pruned") == (model, rows)
    again, found = made_once(never, tmp_path / "pruned")
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in model.state_dict().items())
    assert found == rows


def test_of_the_processes_of_a_machine_the_first_makes_it_and_the_others_wait(tmp_path):
    fork = multiprocessing.get_context("fork")  # what torch and Lightning take seconds to load is there
    said = fork.Queue()
    processes = [fork.Process(target=ask, args=(tmp_path, rank, said)) for rank in ("1", "0")]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0]
    assert (tmp_path / "made").read_text() == "once "
    assert said.get(timeout=10) == said.get(timeout=10)
