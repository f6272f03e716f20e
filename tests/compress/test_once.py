"""Pruned once on each machine, whoever asks."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from plumbline.compress.once import made_once
from tests.model.made import small_model

ASK = """
import sys, time
from pathlib import Path
from plumbline.compress.once import made_once
from tests.model.made import small_model

def make():
    time.sleep(2)
    Path("made").open("a").write("once ")
    return small_model().eval(), None

model, _ = made_once(make, Path("pruned"))
print(float(sum(value.sum() for value in model.state_dict().values() if value.isfinite().all())))
"""


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
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    processes = []
    for number in ("1", "0"):
        monkeypatch.setenv("LOCAL_RANK", number)
        command = [sys.executable, "-c", ASK]
        processes.append(subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True))
    said = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert (tmp_path / "made").read_text() == "once "
    assert said[0] == said[1] != ""
