"""What `benchmarks/train.py` makes of a case that ends badly."""

import subprocess

import pytest

from benchmarks import train


def test_a_case_that_fails_ends_the_benchmark(tmp_path, monkeypatch):
    failed = subprocess.CompletedProcess([], 1, "", "KeyError: 'threads'")
    monkeypatch.setattr(train.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(SystemExit, match="KeyError"):
        train.run({}, tmp_path)
