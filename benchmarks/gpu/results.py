"""What a part of the run found: tables and figures, kept as JSON, so that a second run goes on from there."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import subprocess
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT, commit, cores
from plumbline.core.files import write_json

DONE, FAILED, NOT_MEASURED, OVER, NOT_BEGUN = "done", "failed", "not measured", "over its time", "not begun"
LIBRARIES = (
    "torch",
    "triton",
    "lightning",
    "onnxruntime",
    "onnxruntime-gpu",
    "tensorrt",
    "torch-tensorrt",
    "diffusers",
)
Key = dict[str, str]
"""What a result depends on: commit, versions of torch and CUDA, GPU, size."""


class NotMeasured(Exception):
    """A part that this machine cannot run, for want of a library or of a GPU; says which."""


@dataclass
class Table:
    """Rows of a page. Tables of several parts with one title become one."""

    title: str
    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)


@dataclass
class Found:
    """What the function of a part returns."""

    tables: list[Table] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)
    """What bars are held against, see `bars`."""
    failed: str = ""
    """Why the part failed, where it has tables all the same."""


@dataclass
class Work:
    """What the function of a part is given."""

    dry: bool
    folder: Path
    """For its own files; kept between runs."""

    @property
    def device(self) -> str:
        """Name the device to compute on."""
        return "cpu" if self.dry else "cuda"


@dataclass
class Result:
    """A part as it is kept."""

    part: str
    key: Key
    state: str
    reason: str = ""
    at: str = ""
    """Date and time of its end."""
    seconds: float = 0.0
    peak_mb: float = 0.0
    """Of the GPU's tensors; dry, of the process."""
    tables: list[Table] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write it whole or not at all."""
        write_json(path, dataclasses.asdict(self))


def read(path: Path, key: Key) -> Result | None:
    """Read what was kept under the same key; None where there is nothing, or it is of another."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        found = Result(**{**content, "tables": [Table(**table) for table in content["tables"]]})
    except (OSError, ValueError, TypeError, KeyError):  # missing, or of another version of this file
        return None
    return found if found.key == key else None


def this_key(dry: bool) -> tuple[Key, dict[str, str]]:
    """Return the key of a run on this machine, and what else its page says of the machine."""
    key = {"commit": _commit(), "torch": _versions().get("torch", "none"), "cuda": "none", "gpu": "none"}
    machine = {"cores": str(cores())}
    if not dry:
        import torch  # takes seconds

        size = torch.cuda.get_device_properties(0).total_memory / 2**30
        major, minor = torch.cuda.get_device_capability(0)
        key |= {"cuda": str(torch.version.cuda), "gpu": torch.cuda.get_device_name(0)}
        machine |= {"GPU memory": f"{size:.0f} GiB", "compute capability": f"{major}.{minor}", "driver": _driver()}
    versions = {name: version for name, version in _versions().items() if name != "torch"}
    return {**key, "size": "toy" if dry else "full"}, machine | versions


def _versions() -> dict[str, str]:
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _commit() -> str:
    """Name the commit, and what is changed since by its hash."""
    done = subprocess.run(["git", "diff", "HEAD"], cwd=ROOT, capture_output=True, check=False)
    return commit() + (f" changed {hashlib.sha256(done.stdout).hexdigest()[:7]}" if done.stdout else "")


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return said.splitlines()[0].strip() if said.strip() else "unknown"
