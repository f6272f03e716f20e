"""Check Python, the extras, ONNX Runtime, the GPU and the environment's variables."""

from __future__ import annotations

import json
import math
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from plumbline.core.extras import (
    DISTRIBUTION,
    LIBRARIES,
    RUNTIMES,
    find_foreign_libraries,
    install,
    is_installed,
    list_runtimes,
)
from plumbline.doctor.findings import Finding, fault, nothing, ok, python, run, warning

CPU, GPU = RUNTIMES
ALWAYS = "predict, inspect, restore, score, triton and doctor"
"""Commands that every installation has."""
GIVES = {
    "torch": "explain, adapt, adapters and --adapter",
    "pipeline": "training to release, --model champion and the challenger",
    "sign": "--sign-key and --verify-key",
    "serve": "serve",
}
"""Commands and options that need an extra, by extra."""


def check_python() -> Iterator[Finding]:
    """Check that this Python version is supported."""
    version = platform.python_version()
    needed = metadata.metadata(DISTRIBUTION)["Requires-Python"] or ""
    if version not in SpecifierSet(needed, prereleases=True):
        yield fault(
            f"Python {version}; {needed} is needed",
            "Make the environment anew with Python 3.11 to 3.14.",
        )
    else:
        yield ok(f"Python {version} in {sys.prefix}")


def check_extras() -> Iterator[Finding]:
    """Report the commands that this installation has. A missing extra is not a fault."""
    extras = sorted(
        extra for extra, libraries in LIBRARIES.items() if all(map(is_installed, libraries))
    )
    missing = [f"{commands} ({extra})" for extra, commands in GIVES.items() if extra not in extras]
    message = f"{ALWAYS} work; added by extras: {', '.join(extras) or 'none'}"
    if missing:
        message += f"; not here: {', '.join(missing)}; to add one, {install('EXTRA')}"
    yield ok(message)


RUNTIME_CODE = (
    "import onnxruntime; onnxruntime.InferenceSession; "
    "print(*onnxruntime.get_available_providers())"
)


def check_onnxruntime() -> Iterator[Finding]:
    """Check that exactly one ONNX Runtime package is installed, and that it works."""
    runtimes = list_runtimes()
    message = " and ".join(f"{name} {version}" for name, version in runtimes.items())
    choice = f"{install_command(CPU)}, or {install_command(GPU)} on a machine with a GPU."
    if len(runtimes) > 1:
        yield fault(
            f"{message} are both installed, over one another",
            f"`pip uninstall {CPU} {GPU}`, then install one of them: {choice}",
        )
        return
    if not runtimes:
        yield fault("neither onnxruntime nor onnxruntime-gpu is installed", choice)
        return
    output = python(RUNTIME_CODE)
    (name,) = runtimes
    if output.code:
        yield fault(
            f"{message} cannot be imported: {output.last}",
            f"`pip install --force-reinstall --no-deps {name}=={runtimes[name]}`: the other one "
            "may have taken its files along when it was uninstalled.",
        )
    else:
        yield ok(f"{message}, with {', '.join(output.out.splitlines()[-1].split())}")


def install_command(package: str) -> str:
    """Return the command that installs one of the two packages, in the version that
    Plumbline needs."""
    requirements = map(Requirement, metadata.requires(DISTRIBUTION) or [])
    return next(
        (f"`pip install '{r.name}{r.specifier}'`" for r in requirements if r.name == package),
        package,
    )


TORCH_CODE = """
import json, torch
state = {"version": torch.__version__, "cuda": torch.version.cuda, "available": torch.cuda.is_available()}
if state["available"]:
    torch.zeros(1, device="cuda").add_(1).item()  # a GPU that is listed may still not compute
print(json.dumps(state))
"""
CUDA_CODE = """
from plumbline import pretrained
from plumbline.export.runtime import OnnxModel
OnnxModel(pretrained.PACKAGE / "model.onnx", "CUDAExecutionProvider")
"""
"""Code that opens a session: a provider that onnxruntime lists may still not load."""


@dataclass(frozen=True)
class Torch:
    """CUDA support of the installed PyTorch; `cuda` is None in its CPU build."""

    version: str
    cuda: str | None
    available: bool


def check_gpu() -> Iterator[Finding]:
    """Check the GPU driver, PyTorch and ONNX Runtime. A missing GPU is a fault only where
    GPU builds are installed."""
    gpus = ""
    if shutil.which("nvidia-smi"):
        output = run(
            "nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"
        )
        if output.code:
            yield fault(
                f"nvidia-smi is there and fails: {output.last}",
                "Install the driver again, and restart: after an update the old one is still "
                "loaded.",
            )
            return
        gpus = "; ".join(output.out.splitlines())
    torch = None
    if is_installed("torch"):
        output = python(TORCH_CODE)
        if output.code:
            yield fault(
                f"PyTorch cannot be used: {output.last}",
                "`make run` installs it again; see CONTRIBUTING.md.",
            )
            return
        torch = Torch(**json.loads(output.out.splitlines()[-1]))
    has_gpu_runtime = GPU in list_runtimes()
    yield judge(gpus, torch, has_gpu_runtime)
    if gpus and not has_gpu_runtime:
        yield warning(
            "onnxruntime is the CPU one: released models run on the CPU",
            f"If they shall use the GPU: `pip uninstall {CPU}`, then {install_command(GPU)}. See "
            "docs/runtimes.md.",
        )
    elif gpus and (output := python(CUDA_CODE)).code:
        yield fault(
            f"onnxruntime-gpu does not run on CUDA ({output.last})",
            "Its CUDA libraries are missing or too old: see docs/runtimes.md.",
        )


def judge(gpus: str, torch: Torch | None, has_gpu_runtime: bool) -> Finding:
    """Return the finding on how GPUs, driver and PyTorch fit together.

    Args:
        gpus: names, memory and driver of the GPUs; empty without any. torch: None where it
            is not installed.
        has_gpu_runtime: onnxruntime-gpu, the package of the extra `gpu`, is installed.
    """
    if not gpus and has_gpu_runtime:
        return fault(
            "the extra `gpu` is installed and no NVIDIA driver is found",
            "Install the driver (in a container: start it with the GPU passed on), or the "
            "runtime for the CPU: "
            f"`pip uninstall {GPU}`, then {install_command(CPU)}.",
        )
    if not gpus and torch and torch.cuda:
        return warning(
            f"PyTorch {torch.version} is a CUDA build and no NVIDIA driver is found: it runs on "
            "the CPU",
            "Nothing, or its CPU build, which is smaller: see CONTRIBUTING.md.",
        )
    if not gpus:
        return nothing("no GPU, and nothing installed that wants one")
    if torch is None:
        return ok(f"{gpus}; PyTorch is not installed, nothing trains here ({install('torch')})")
    if torch.cuda is None:
        return warning(
            f"{gpus}; PyTorch {torch.version} is the CPU build: training does not use the GPU",
            "Install its CUDA build, see docs/runtimes.md; or nothing, if this machine shall not "
            "train.",
        )
    if not torch.available:
        return fault(
            f"{gpus}; PyTorch {torch.version} sees no GPU",
            f"Check that the driver is for CUDA {torch.cuda.split('.')[0]} or newer, that "
            "CUDA_VISIBLE_DEVICES does not hide the GPU, and that this user may open /dev/nvidia*.",
        )
    return ok(f"{gpus}; PyTorch {torch.version} computes on it")


PROJ_CODE = """
import plumbline
from pyproj import CRS
import rasterio.crs
CRS.from_epsg(3035), rasterio.crs.CRS.from_epsg(3035)
"""


def check_environment() -> Iterator[Finding]:
    """Check that PROJ finds its database, and that no variable brings other libraries.

    Proxies, and PROJ's and GDAL's variables of another installation, count for no command.
    """
    for variable, file in find_foreign_libraries():
        yield warning(
            f"{variable} brings {file} of another installation", f"Unset {variable} here."
        )
    output = python(PROJ_CODE)
    if output.code:
        yield fault(
            f"PROJ does not know EPSG:3035 ({output.last})",
            "Install Plumbline again, or unset what another installation set.",
        )
    else:
        yield ok("PROJ finds its database")


NATIONAL_GRIDS = {
    "British": ("EPSG:27700", (400_000.0, 300_000.0)),
    "Dutch": ("EPSG:28992", (155_000.0, 463_000.0)),
    "German": ("EPSG:31467", (3_500_000.0, 5_650_000.0)),
    "French": ("EPSG:27572", (600_000.0, 2_400_000.0)),
    "Italian": ("EPSG:3003", (1_500_000.0, 5_000_000.0)),
    "American": ("EPSG:4267", (-100.0, 40.0)),
}
"""Country -> CRS of its older maps, and a place in it, for which the missing grids are listed."""


def check_grids() -> Iterator[Finding]:
    """List the grids that PROJ lacks for older national CRSs. A missing one is not a fault:
    readers warn of files that need it."""
    # Not before: PROJ may fail to load, which the check of the environment reports.
    from pyproj import CRS

    from plumbline.sources.datum_errors import find_missing_grids

    grids = {
        country: find_missing_grids(CRS(crs), CRS("EPSG:4326"), place, math.inf)[0]
        for country, (crs, place) in NATIONAL_GRIDS.items()
    }
    missing = [f"{country} ({', '.join(names)})" for country, names in grids.items() if names]
    yield ok(
        f"PROJ's grids of older national CRSs; not here: {'; '.join(missing) or 'none'}; to add "
        "one, `pyproj sync --file NAME`"
    )
