"""What `benchmarks/train.py` makes of a case that ends badly."""

import math
import subprocess

import pytest

from benchmarks import train


@pytest.mark.parametrize(
    ("said", "ends"), [("torch.OutOfMemoryError: CUDA out of memory.", False), ("KeyError: 'case'", True)]
)
def test_a_case_that_memory_does_not_hold_leaves_the_others_measured(tmp_path, monkeypatch, said, ends):
    monkeypatch.setattr(train.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 1, "", said))
    if ends:
        with pytest.raises(SystemExit, match="KeyError"):
            train.compare({"one": {"case": "attention"}}, tmp_path, 1)
        return
    (figures,) = train.compare({"one": {"case": "attention"}}, tmp_path, 2).values()
    assert all(math.isnan(figures[name]) for name in ("ms", "memory", "rate", "between"))
