"""What driver and builds mean for one another; and a GPU that does not work."""

from __future__ import annotations

from pathlib import Path

import pytest

from plumbline.doctor.installation import Torch, check_gpu, judge
from tests.doctor.conftest import faults

CARD = "NVIDIA H200, 143771 MiB, 580.65.06"
CPU = Torch("2.13.0+cpu", None, False)
CUDA = Torch("2.13.0", "13.0", True)
BLIND = Torch("2.13.0", "13.0", False)


@pytest.mark.parametrize(
    ("gpus", "torch", "has_gpu_runtime", "state"),
    [
        ("", CPU, False, "not applicable"),
        ("", None, False, "not applicable"),
        ("", CPU, True, "fault"),
        ("", None, True, "fault"),
        ("", BLIND, False, "warning"),
        (CARD, None, True, "ok"),
        (CARD, CPU, True, "warning"),
        (CARD, CUDA, True, "ok"),
        (CARD, BLIND, True, "fault"),
    ],
)
def test_what_follows(gpus: str, torch: Torch | None, has_gpu_runtime: bool, state: str) -> None:
    finding = judge(gpus, torch, has_gpu_runtime)
    assert finding.state == state
    assert bool(finding.mend) == (state in ("warning", "fault"))


@pytest.fixture
def nvidia_smi(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """Write a program of that name, first on the path."""

    def write(script: str) -> None:
        program = folder / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder), prepend=":")

    return write


def test_a_driver_and_a_torch_that_are_broken(nvidia_smi, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """nvidia-smi as it fails after an update of the driver."""
    nvidia_smi("echo 'Failed to initialize NVML: Driver/library version mismatch'\nexit 18")
    assert "Driver/library version mismatch" in faults(check_gpu)
    nvidia_smi("true")
    (folder / "torch.py").write_text("import os; os.abort()")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    assert "PyTorch cannot be used" in faults(check_gpu)


def test_a_runtime_for_a_gpu_that_cannot_use_it(nvidia_smi, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one installed here is the CPU's, as one for GPUs is whose CUDA libraries do not load."""
    nvidia_smi(f"echo '{CARD}'")
    monkeypatch.setattr("plumbline.doctor.installation.list_runtimes", lambda: {"onnxruntime-gpu": "1.31.0"})
    message = faults(check_gpu)
    assert "onnxruntime-gpu does not run on CUDA" in message
    assert "CUDAExecutionProvider did not start" in message
