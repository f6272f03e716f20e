"""Pruned once on each machine, whoever asks."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch

from plumbline.compress import search
from plumbline.compress.search import made_once
from tests.model.made import small_model


def never():
    pytest.fail("made again")


@pytest.mark.parametrize("rows", [None, [{"ratio": 0.5, "within": True}]])
def test_after_a_kill_it_is_taken_from_where_it_was_left(tmp_path, rows):
    model = small_model().eval()
    assert made_once(lambda: (model, rows), tmp_path / "pruned") == (model, rows)
    again, found = made_once(never, tmp_path / "pruned")
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in model.state_dict().items())
    assert found == rows


def test_of_the_processes_of_a_machine_the_first_makes_it_and_the_others_wait(tmp_path, monkeypatch):
    # Threads stand for the processes: they meet in the folder alone, and a thread has its rank as a process has.
    here = threading.local()
    monkeypatch.setattr(search, "number_here", lambda: here.rank)
    monkeypatch.setattr(search, "LOOK_SECONDS", 0.01)
    made, others_wait, waiting = [], threading.Event(), set()

    def sleep(seconds):
        waiting.add(here.rank)
        if waiting == {1, 2}:
            others_wait.set()
        time.sleep(seconds)

    monkeypatch.setattr(search, "time", SimpleNamespace(sleep=sleep))

    def ask(rank):
        def make():
            others_wait.wait()
            made.append(rank)
            return small_model().eval(), None

        here.rank = rank
        return made_once(make, tmp_path / "pruned")[0].state_dict()

    with ThreadPoolExecutor(3) as processes:
        first, *others = processes.map(ask, (0, 1, 2))
    assert made == [0]
    assert all(torch.equal(value, first[name]) for other in others for name, value in other.items())
