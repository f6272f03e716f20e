"""The run on a GPU, as far as a CPU can show it: what is kept, what is run again, and what ends in what way."""

import json
import os
import subprocess
import sys

import pytest
import torch

from benchmarks.common import ROOT
from benchmarks.gpu.bars import BARS
from benchmarks.gpu.marked import APART, marked_files
from benchmarks.gpu.page import page
from benchmarks.gpu.parts import PARTS
from benchmarks.gpu.results import DONE, Result
from tests.locks import module
from tests.waiting import until, until_gone

installation = module("gpu")
ENVIRONMENT = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT}/src", "OMP_NUM_THREADS": "1"}
COMMAND = [sys.executable, "-m", "benchmarks.gpu", "--dry", "--catalogue", "tests.benchmarks.gpu_parts"]


def run(folder, *words):
    command = [*COMMAND, "--output", str(folder), *words]
    return subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was(tmp_path):
    names = ("ragged", "waits", "tensorrt-fp16")
    with subprocess.Popen([*COMMAND, "--output", str(tmp_path), "--parts", *names], cwd=ROOT, env=ENVIRONMENT) as first:
        begun = tmp_path / "dry" / "work" / "begun"
        until(lambda: begun.exists() and begun.read_text(), "the part that waits", needs=first)
        first.kill()
    until_gone(int(begun.read_text()))
    kept = (tmp_path / "dry" / "ragged.json").read_text()
    assert json.loads(kept)["state"] == DONE
    done = run(tmp_path, "--parts", *names)
    assert done.returncode == 0, done.stderr
    assert "ragged: done already" in done.stdout
    assert (tmp_path / "dry" / "ragged.json").read_text() == kept
    (written,) = tmp_path.glob("*-gpu-dry.md")
    said = written.read_text()
    assert "toy figures of a CPU" in said
    for needed in ("| 4,096 | ragged |", "| at least 2 times |", "toy, not judged", "it went on", "TensorRT needs a"):
        assert needed in said


# The time of the part that hangs is over once the process is there that it waits for.
LIMITED = """
import subprocess, sys
from pathlib import Path
from benchmarks.gpu.__main__ import main
from tests.waiting import until

wait, child = subprocess.Popen.wait, Path(sys.argv[1]) / "dry" / "work" / "child"

def over(process, timeout=None):
    if timeout is None or "hangs" not in process.args:
        return wait(process, timeout)
    until(lambda: child.exists() and child.read_text(), "a process of the part", needs=process)
    return wait(process, 0.1)

subprocess.Popen.wait = over
sys.exit(main(sys.argv[2:]))
"""


def test_a_part_that_fails_or_hangs_leaves_the_others(tmp_path):
    words = [*COMMAND[3:], "--output", str(tmp_path), "--parts", "raises", "hangs", "--seconds", "600"]
    command = [sys.executable, "-c", LIMITED, str(tmp_path), *words]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    until_gone(int((tmp_path / "dry" / "work" / "child").read_text()))
    (written,) = tmp_path.glob("*-gpu-dry.md")
    said = written.read_text()
    assert "`raises`, failed: ValueError: no kernel image is available" in said
    assert "`hangs`, over its time: ended after 600 s" in said


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_what_to_do(tmp_path):
    from benchmarks.gpu.__main__ import main

    assert main(["--output", str(tmp_path)]) == 2
    assert not list(tmp_path.iterdir())


def test_a_page_says_what_is_met_and_what_is_missed():
    key = {"commit": "1", "torch": "2", "cuda": "13", "gpu": "H100", "size": "full"}
    figures = {"training.float32.rate": 100.0, "training.bf16-compiled.rate": 520.0}
    figures["training.bf16-compiled.between"] = 0.07
    said = page([Result("training", key, DONE, figures=figures)], key, {}, "2026-01-01")
    assert "| at least 5 times | 5.20 times | met |" in said
    assert "| at most 5% | 7.0% | **missed** |" in said
    assert said.count("| not measured | not measured |") == len(BARS) - 2


def test_every_test_of_a_gpu_has_its_part():
    assert set(APART) < set(PARTS)
    assert set(APART.values()) < set(marked_files())


@pytest.mark.parametrize("wheels", [None, "wheels"])
def test_the_installation_keeps_to_the_lock_file(tmp_path, wheels):
    found = installation.commands("install", tmp_path / "pins.txt", wheels, [])
    assert list(found) == ["lock", "replaced", "gpu", "tensorrt", "own"]
    assert any(word.startswith("onnxruntime-gpu==") for word in found["gpu"])
    assert any(word.startswith("torch-tensorrt==") for word in found["tensorrt"])
    assert all(("--no-index" in found[name]) == bool(wheels) for name in ("lock", "gpu", "tensorrt"))
    assert not {"torch", "onnxruntime"} & {pin.split("==")[0] for pin in installation.pins()}


def test_a_cpu_build_of_pytorch_among_the_wheels_is_found(tmp_path):
    for name in ("torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl", "torch_geometric-2.7.0+cpu-py3-none-any.whl"):
        (tmp_path / name).touch()
    assert installation.cpu_wheel(tmp_path) is None
    found = tmp_path / "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"
    found.touch()
    assert installation.cpu_wheel(tmp_path) == found
