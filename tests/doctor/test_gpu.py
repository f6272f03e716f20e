"""What driver and builds mean for one another; and this machine as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from plumbline.doctor.installation import Driver, Torch, check_gpu, judge, read_driver
from tests.doctor.conftest import faults

PAGE = """
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.65.06              Driver Version: 580.65.06      CUDA Version: 13.0     |
|-----------------------------------------+------------------------+----------------------+
"""
CARD = ["NVIDIA H200, 143771 MiB"]
CPU = Torch("2.13.0+cpu", None, False)


def cuda(version: str = "13.0", available: bool = True) -> Torch:
    return Torch("2.13.0", version, available)


@pytest.mark.parametrize(
    ("driver", "torch", "extra", "expected"),
    [
        (None, CPU, False, "not applicable"),
        (None, CPU, True, "fault"),
        (None, None, False, "not applicable"),
        (None, None, True, "fault"),
        (Driver("580.65.06", "13.0", CARD), None, True, "ok"),
        (None, cuda(available=False), False, "warning"),
        ("it cannot talk to the driver", CPU, False, "fault"),
        (Driver("580.65.06", "13.0", CARD), CPU, True, "warning"),
        (Driver("580.65.06", "13.0", CARD), cuda(), True, "ok"),
        (Driver("580.65.06", "13.0", CARD), cuda("13.2"), True, "ok"),
        (Driver("550.54", "12.4", CARD), cuda("13.0", available=False), True, "fault"),
        (Driver("580.65.06", "13.0", CARD), cuda(available=False), True, "fault"),
        (Driver("580.65.06", "13.0", CARD), "ImportError: libcudart.so.13", True, "fault"),
    ],
)
def test_what_follows(driver, torch, extra: bool, expected: str) -> None:
    (finding,) = judge(driver, torch, extra)
    assert finding.state == expected
    assert bool(finding.mend) == (expected in ("warning", "fault"))


def test_a_gpu_beside_the_runtime_for_the_cpu() -> None:
    assert [item.state for item in judge(Driver("580.65.06", "13.0", CARD), cuda(), False)] == ["ok", "warning"]


def test_the_page_of_nvidia_smi() -> None:
    assert read_driver(PAGE, "NVIDIA H200, 143771 MiB\n") == Driver("580.65.06", "13.0", CARD)
    assert isinstance(read_driver("nothing", ""), str)


def test_a_driver_that_is_broken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """nvidia-smi as it fails after an update of the driver."""
    program = folder / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'Failed to initialize NVML: Driver/library version mismatch'\nexit 18\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    assert "Driver/library version mismatch" in faults(check_gpu)


def test_a_runtime_for_a_gpu_that_cannot_use_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one installed here is the CPU's, as one for GPUs is whose CUDA libraries do not load."""
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n[ $# = 0 ] && echo '{PAGE.splitlines()[2]}' || echo '{CARD[0]}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.setattr("plumbline.doctor.installation.installed_runtimes", lambda: {"onnxruntime-gpu": "1.31.0"})
    said = faults(check_gpu)
    assert "onnxruntime-gpu does not run on CUDA" in said
    assert "CUDAExecutionProvider did not start" in said


def test_a_torch_that_crashes_is_a_fault_of_this_check_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "torch.py").write_text("import os; os.abort()")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    assert "PyTorch cannot be used" in faults(check_gpu)
