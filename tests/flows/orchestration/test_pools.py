from pathlib import Path

import pytest

from flows.orchestration.pools import gpus_here

LISTED = """\
GPU 0: NVIDIA GeForce RTX 4090 Laptop GPU (UUID: GPU-1e0f6e5b-0000-0000-0000-000000000000)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-2e0f6e5b-0000-0000-0000-000000000000)
  MIG 1g.10gb     Device  0: (UUID: MIG-3e0f6e5b-0000-0000-0000-000000000000)
"""


@pytest.mark.parametrize(
    ("told", "found"), [(None, ["0", "1"]), ("", []), ("1", ["1"]), ("GPU-a, GPU-b", ["GPU-a", "GPU-b"])]
)
def test_gpus_are_counted_by_their_lines(told, found, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A laptop's one says GPU twice: a second worker would get one that is not there, and train on the CPU."""
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{LISTED}END\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if told is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", told)
    assert gpus_here() == found
