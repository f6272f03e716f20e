"""The run on a GPU, as far as a CPU can show it."""

import os
import subprocess
import sys

import pytest
import torch

from benchmarks.common import ROOT
from tests.locks import module

installation = module("gpu")


def run(folder, *words):
    command = [sys.executable, "-m", "benchmarks.gpu", "--dry", "--output", str(folder), *words]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT}/src", "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_part_that_fails_or_is_too_slow_leaves_the_others(tmp_path):
    (tmp_path / "dry").mkdir()
    (tmp_path / "dry" / "work").write_text("no folder")
    done = run(tmp_path, "--parts", "ragged")
    assert done.returncode == 1, done.stderr
    (tmp_path / "dry" / "work").unlink()
    done = run(tmp_path, "--parts", "ragged", "tensorrt-fp16")
    assert done.returncode == 0, done.stderr
    (written,) = (tmp_path / "dry").glob("*-gpu.md")
    said = written.read_text()
    for needed in ("toy figures of a CPU", "| 4,096 | ragged, padded |", "not measured: TensorRT needs a"):
        assert needed in said
    done = run(tmp_path, "--parts", "ragged", "--seconds", "0.1")
    assert (done.returncode, "ended after 0 s" in written.read_text()) == (1, True)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_what_to_do(tmp_path):
    from benchmarks.gpu.__main__ import main

    assert main(["--output", str(tmp_path)]) == 2
    assert not list(tmp_path.iterdir())


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
