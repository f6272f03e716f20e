"""Compare the GPU driver with what PyTorch and ONNX Runtime were built for."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field

from plumbline.core.extras import install, is_installed
from plumbline.doctor.finding import Finding, Place, fault, nothing, ok, warning
from plumbline.doctor.probes import python, run
from plumbline.doctor.versions import CPU, GPU, installed_runtimes, only

ASK_TORCH = """
import json, torch
known = {"version": torch.__version__, "cuda": torch.version.cuda, "available": torch.cuda.is_available()}
if known["available"]:
    known["kinds"] = torch.cuda.get_arch_list()
    known["capability"] = [torch.cuda.get_device_capability(i) for i in range(torch.cuda.device_count())]
    torch.zeros(1, device="cuda").add_(1).item()  # that it is there is not yet that it computes
print(json.dumps(known))
"""
ASK_CUDA = """
from plumbline import pretrained
from plumbline.export.runtime import OnnxModel
OnnxModel(pretrained.PACKAGE / "model.onnx", "CUDAExecutionProvider")
"""
"""A session is opened: what onnxruntime lists is what it was built with, not what loads."""


@dataclass(frozen=True)
class Driver:
    """Driver and GPUs that nvidia-smi lists."""

    version: str
    cuda: str
    """Newest CUDA that this driver runs, MAJOR.MINOR."""
    gpus: list[str]


@dataclass(frozen=True)
class Torch:
    """CUDA support of the installed PyTorch; `cuda` is None in its CPU build."""

    version: str
    cuda: str | None
    available: bool
    kinds: list[str] = field(default_factory=list)
    capability: list[tuple[int, int]] = field(default_factory=list)


def check_gpu(place: Place) -> Iterator[Finding]:
    """Check the GPU driver, PyTorch and ONNX Runtime. A missing GPU is a fault only where GPU builds are installed."""
    extra = GPU in installed_runtimes()
    driver: Driver | str | None = None
    if shutil.which("nvidia-smi"):
        ended = run("nvidia-smi", seconds=place.seconds)
        listed = run("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader", seconds=place.seconds)
        driver = ended.last if ended.code or listed.code else read_driver(ended.out, listed.out)
    torch: Torch | str | None = None
    if is_installed("torch"):
        ended = python(ASK_TORCH, place.seconds)
        try:
            torch = Torch(**json.loads(ended.out.splitlines()[-1])) if not ended.code else ended.last
        except (ValueError, TypeError, IndexError):
            torch = ended.last
    yield from judge(driver, torch, extra)
    if extra and isinstance(driver, Driver):
        ended = python(ASK_CUDA, place.seconds)
        if ended.code:
            yield fault(
                f"onnxruntime-gpu does not run on CUDA ({ended.last})",
                "Its CUDA libraries are missing or too old: see docs/runtimes.md.",
            )


def read_driver(said: str, listed: str) -> Driver | str:
    """Read the driver from nvidia-smi's page and list of GPUs; return a message where they lack it."""
    version = re.search(r"Driver Version: *([\d.]+)", said)
    cuda = re.search(r"CUDA (?:UMD )?Version: *([\d.]+)", said)
    gpus = [line.strip() for line in listed.splitlines() if line.strip()]
    if not version or not cuda or not gpus:
        return "nvidia-smi names no driver, no CUDA version or no GPU"
    return Driver(version[1], cuda[1], gpus)


def judge(driver: Driver | str | None, torch: Torch | str | None, extra: bool) -> Iterator[Finding]:
    """Report the mismatches between driver and PyTorch.

    Args:
        driver: None where there is no nvidia-smi, text where it failed.
        torch: None where it is not installed, text where it cannot be imported.
        extra: the package of the extra `gpu` is installed.
    """
    if isinstance(torch, str):
        yield fault(f"PyTorch cannot be used: {torch}", "`make run` installs it again; see CONTRIBUTING.md.")
        return
    if isinstance(driver, str):
        yield fault(
            f"nvidia-smi is there and fails: {driver}",
            "Install the driver again, and restart: after an update the old one is still loaded.",
        )
    elif driver is None:
        yield from _without(torch, extra)
    else:
        yield from _with(driver, torch, extra)


def _without(torch: Torch | None, extra: bool) -> Iterator[Finding]:
    if extra:
        yield fault(
            "the extra `gpu` is installed and no NVIDIA driver is found",
            "Install the driver (in a container: start it with the GPU passed on), or the runtime for the CPU: "
            f"`pip uninstall {GPU}`, then {only(CPU)}.",
        )
    elif torch and torch.cuda:
        yield warning(
            f"PyTorch {torch.version} is a CUDA build and no NVIDIA driver is found: it runs on the CPU",
            "Nothing, or its CPU build, which is smaller: see CONTRIBUTING.md.",
        )
    else:
        yield nothing("no GPU, and nothing installed that wants one")


def _with(driver: Driver, torch: Torch | None, extra: bool) -> Iterator[Finding]:
    told = f"{', '.join(driver.gpus)}; driver {driver.version} for CUDA {driver.cuda}"
    if torch is None:
        yield ok(f"{told}; PyTorch is not installed, nothing trains here ({install('torch')})")
    elif torch.cuda is None:
        yield warning(
            f"{told}; PyTorch {torch.version} is the CPU build: training does not use the GPU",
            "Install its CUDA build, see docs/runtimes.md; or nothing, if this machine shall not train.",
        )
    elif _major(torch.cuda) > _major(driver.cuda):
        # Within one major version newer minor ones run on an older driver (CUDA Compatibility, NVIDIA).
        yield fault(
            f"{told}; PyTorch {torch.version} is built for CUDA {torch.cuda}, which this driver cannot run",
            f"Install a driver for CUDA {_major(torch.cuda)} or newer, or PyTorch's build for an older CUDA.",
        )
    elif not torch.available:
        yield fault(
            f"{told}; PyTorch {torch.version} sees no GPU",
            "See whether CUDA_VISIBLE_DEVICES hides it, and whether this user may open /dev/nvidia*.",
        )
    elif old := [f"{a}.{b}" for a, b in torch.capability if not _runs(torch.kinds, a, b)]:
        yield fault(
            f"{told}; PyTorch {torch.version} has no code for compute capability {', '.join(old)}",
            "Install a PyTorch that is built for this GPU.",
        )
    else:
        yield ok(f"{told}; PyTorch {torch.version} computes on it")
    if not extra:
        yield warning(
            "onnxruntime is the CPU one: released models run on the CPU",
            f"If they shall use the GPU: `pip uninstall {CPU}`, then {only(GPU)}. See docs/runtimes.md.",
        )


def _major(version: str) -> int:
    return int(version.split(".")[0])


def _runs(kinds: list[str], major: int, minor: int) -> bool:
    """Check whether a GPU of this capability can run code compiled for `kinds`: same major, or PTX (`compute_`)."""
    for kind in kinds:
        name, _, digits = kind.partition("_")
        number = re.match(r"\d+", digits)
        if number is None:
            continue
        a, b = divmod(int(number[0]), 10)
        if (name == "sm" and a == major and b <= minor) or (name == "compute" and (a, b) <= (major, minor)):
            return True
    return False
