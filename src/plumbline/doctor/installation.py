"""Check Python, the extras, ONNX Runtime and the GPU."""

from __future__ import annotations

import json
import platform
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from plumbline.core.extras import DISTRIBUTION, install, is_installed
from plumbline.doctor.probes import Finding, Place, fault, nothing, ok, python, run, warning

CPU, GPU = "onnxruntime", "onnxruntime-gpu"
"""The first comes with Plumbline, the second with its extra `gpu`. Both write into one folder, and pip says nothing."""
AGAIN = "Install it: its wheel, or in a clone `make install` or `pip install -e .`."
ALWAYS = "predict, inspect, restore, score, bench, triton and doctor"
"""Commands that every installation has."""
GIVES = {
    "torch": "explain, adapt, adapters and --adapter",
    "pipeline": "training to release, --model champion and the challenger",
    "sign": "--sign-key and --verify-key",
    "serve": "serve",
}
"""What the extras are for that a user may miss."""


def check_python(_: Place) -> Iterator[Finding]:
    """Check that this Python version is supported."""
    found = platform.python_version()
    needed = _metadata()["Requires-Python"] or ""
    if found not in SpecifierSet(needed, prereleases=True):
        yield fault(f"Python {found}; {needed} is needed", "Make the environment anew with Python 3.11 to 3.14.")
    else:
        yield ok(f"Python {found} in {sys.prefix}")


def check_extras(_: Place) -> Iterator[Finding]:
    """Report what this installation can do. A missing extra is not a fault."""
    there = _extras_there()
    missing = [f"{told} ({extra})" for extra, told in GIVES.items() if extra not in there]
    yield ok(
        "; ".join(
            [
                f"{ALWAYS} work; added by extras: {', '.join(there) or 'none'}",
                *(["not here: " + ", ".join(missing), f"to add one, {install('EXTRA')}"] if missing else []),
            ]
        )
    )


def _extras_there() -> list[str]:
    """Return the extras of which more than half of the packages are installed."""
    packages: dict[str, list[str]] = {extra: [] for extra in _metadata().get_all("Provides-Extra") or []}
    for one in map(Requirement, metadata.requires(DISTRIBUTION) or []):
        if one.marker is not None and not one.marker.evaluate({"extra": ""}):
            for extra in packages:
                if one.marker.evaluate({"extra": extra}):
                    packages[extra].append(one.name)
    return sorted(extra for extra, names in packages.items() if len(_installed(names)) > len(names) / 2)


def _installed(names: Iterable[str]) -> dict[str, str]:
    """Return the version of each package that is installed, without loading it: it may be broken."""
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _metadata() -> metadata.PackageMetadata:
    try:
        return metadata.metadata(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        raise OSError(f"no package named {DISTRIBUTION} is installed in {sys.prefix}. {AGAIN}") from None


ASK = "import onnxruntime; onnxruntime.InferenceSession; print(*onnxruntime.get_available_providers())"


def check_onnxruntime(place: Place) -> Iterator[Finding]:
    """Check that exactly one ONNX Runtime package is installed, and that it works."""
    installed = installed_runtimes()
    told = " and ".join(f"{name} {version}" for name, version in installed.items())
    if len(installed) > 1:
        yield fault(
            f"{told} are both installed, over one another",
            f"`pip uninstall {CPU} {GPU}`, then install one of them: {only(CPU)}, or {only(GPU)} on a "
            "machine with a GPU.",
        )
        return
    if not installed:
        yield fault(
            "neither onnxruntime nor onnxruntime-gpu is installed",
            f"{only(CPU)}, or {only(GPU)} on a machine with a GPU.",
        )
        return
    ended = python(ASK, place.seconds)
    (name,) = installed
    if ended.code:
        yield fault(
            f"{told} cannot be imported: {ended.last}",
            f"`pip install --force-reinstall --no-deps {name}=={installed[name]}`: the other one may have "
            "taken its files along when it was uninstalled.",
        )
        return
    yield ok(f"{told}, with {', '.join(ended.out.splitlines()[-1].split())}")


def only(package: str) -> str:
    """Return the command that installs one of the two packages, in the version that Plumbline needs."""
    asked = [Requirement(text) for text in metadata.requires(DISTRIBUTION) or []]
    return next((f"`pip install '{one.name}{one.specifier}'`" for one in asked if one.name == package), package)


def installed_runtimes() -> dict[str, str]:
    """Return the version of each installed runtime."""
    return _installed((CPU, GPU))


ASK_TORCH = """
import json, torch
known = {"version": torch.__version__, "cuda": torch.version.cuda, "available": torch.cuda.is_available()}
if known["available"]:
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
    elif driver is not None:
        yield from _with(driver, torch, extra)
    elif extra:
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
    else:
        yield ok(f"{told}; PyTorch {torch.version} computes on it")
    if not extra:
        yield warning(
            "onnxruntime is the CPU one: released models run on the CPU",
            f"If they shall use the GPU: `pip uninstall {CPU}`, then {only(GPU)}. See docs/runtimes.md.",
        )


def _major(version: str) -> int:
    return int(version.split(".")[0])
