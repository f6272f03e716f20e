"""Check Python, packages, ONNX Runtime and the GPU."""

from __future__ import annotations

import json
import platform
import re
import shutil
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from plumbline.core.extras import install, is_installed
from plumbline.doctor.probes import Finding, Place, fault, nothing, ok, python, run, warning

CPU, GPU = "onnxruntime", "onnxruntime-gpu"
PACKAGES = (CPU, GPU)
"""The first comes with Plumbline, the second with its extra `gpu`. Both write into one folder, and pip says nothing."""
NAME = "plumbline"
# Never by its name alone: on the public index "plumbline" is another project.
AGAIN = "Install it: its wheel, or in a clone `make install` or `pip install -e .`."
ALWAYS = "predict, inspect, restore, score, bench, triton and doctor"
"""Commands that every installation has."""
GIVES = {
    "torch": "explain, adapt, adapters and --adapter",
    "pipeline": "training to release, --model champion and the challenger",
    "sign": "--sign-key and --verify-key",
}
"""What the extras are for that a user may miss. Of the others each package counts by itself, where it is installed."""


def check_python(_: Place) -> Iterator[Finding]:
    """Check that this Python version is supported."""
    found = platform.python_version()
    needed = _metadata()["Requires-Python"] or ""
    if found not in SpecifierSet(needed, prereleases=True):
        yield fault(f"Python {found}; {needed} is needed", "Make the environment anew with Python 3.11 to 3.14.")
    else:
        yield ok(f"Python {found} in {sys.prefix}")


def check_versions(_: Place) -> Iterator[Finding]:
    """Check that the installed packages meet the requirements of Plumbline and of its dependencies.

    A package of an extra is asked for where it is there; of `torch` and `pipeline` also where most of the extra is.
    """
    own, own_names = 0, set()
    clashes = False
    installed = _Installed()
    for requirement in _asked_for(installed):
        own_names.add(canonicalize_name(requirement.name))
        version = installed.version(requirement.name)
        own += 1
        if version is None:
            clashes = True
            yield fault(f"{requirement.name} is not installed; {_plain(requirement)} is needed", _mend(requirement))
        elif not _fits(requirement, version):
            clashes = True
            yield fault(
                f"{requirement.name} {version} is installed; {_plain(requirement)} is needed", _mend(requirement)
            )
    seen, others = _closure(installed)
    for owner, requirement, version in others:
        if canonicalize_name(requirement.name) in own_names and version is None:
            continue  # told above
        clashes = True
        state = f"{version} is installed" if version else "is not installed"
        yield warning(f"{owner} needs {requirement}; {requirement.name} {state}", _mend(requirement))
    yield from _older_metadata()
    if not clashes:
        yield ok(f"{own} packages that Plumbline asks for fit, and so do {seen - own} that those ask for")


def check_extras(_: Place) -> Iterator[Finding]:
    """Report what this installation can do. A missing extra is not a fault."""
    there = _extras_there(_Installed())
    shown = GIVES | {"serve": "serve"}
    missing = [f"{told} ({extra})" for extra, told in shown.items() if extra not in there]
    yield ok(
        "; ".join(
            [
                f"{ALWAYS} work; added by extras: {', '.join(there) or 'none'}",
                *(["not here: " + ", ".join(missing), f"to add one, {install('EXTRA')}"] if missing else []),
            ]
        )
    )


def _own() -> dict[str, list[Requirement]]:
    """Return Plumbline's requirements by extra; the basic ones under an empty name."""
    found: dict[str, list[Requirement]] = {"": []} | {e: [] for e in _metadata().get_all("Provides-Extra") or []}
    for requirement in map(Requirement, metadata.requires(NAME) or []):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            found[""].append(requirement)
        else:
            for extra in found.keys() - {""}:
                if requirement.marker.evaluate({"extra": extra}):
                    found[extra].append(requirement)
    return found


def _extras_there(installed: _Installed) -> list[str]:
    """Return the extras of which more than half of the packages are installed."""
    counts = {
        extra: sum(installed.version(one.name) is not None for one in asked) / max(1, len(asked))
        for extra, asked in _own().items()
        if extra
    }
    return sorted(extra for extra, share in counts.items() if share > 0.5)


def _asked_for(installed: _Installed) -> list[Requirement]:
    """Return the requirements of this installation, each once even if several extras share it."""
    there = {"", *(GIVES.keys() & _extras_there(installed))}
    asked = {
        _plain(one): one
        for extra, requirements in _own().items()
        for one in requirements
        if extra in there or installed.version(one.name) is not None
    }
    # The runtime for GPUs takes the place of the other one.
    gpu = installed.version(GPU) is not None and installed.version(CPU) is None
    return [one for one in asked.values() if not (gpu and one.name == CPU)]


class _Installed:
    """Versions and requirements of installed packages, each package's metadata read once."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, list[Requirement]] | None] = {}

    def version(self, name: str) -> str | None:
        """Return the version of a package; None where it is not installed."""
        found = self._find(name)
        return found[0] if found else None

    def requires(self, name: str) -> list[Requirement]:
        """Return the requirements of an installed package, including those of its extras."""
        found = self._find(name)
        return found[1] if found else []

    def _find(self, name: str) -> tuple[str, list[Requirement]] | None:
        key = canonicalize_name(name)
        if key not in self._known:
            try:
                about = metadata.distribution(name)
                self._known[key] = about.version, [Requirement(text) for text in about.requires or []]
            except metadata.PackageNotFoundError:
                self._known[key] = None
        return self._known[key]


def _closure(installed: _Installed) -> tuple[int, list[tuple[str, Requirement, str | None]]]:
    """Count all direct and indirect dependencies, and list the unmet requirements between them."""
    waiting = [(requirement.name, frozenset(requirement.extras)) for requirement in _asked_for(installed)]
    asked: set[tuple[str, frozenset[str]]] = set()
    unmet: dict[str, tuple[str, Requirement, str | None]] = {}
    while waiting:
        name, extras = waiting.pop()
        key = (canonicalize_name(name), extras)
        if key in asked or installed.version(name) is None:
            continue
        asked.add(key)
        for requirement in installed.requires(name):
            if requirement.marker and not any(requirement.marker.evaluate({"extra": e}) for e in ("", *extras)):
                continue
            waiting.append((requirement.name, frozenset(requirement.extras)))
            version = installed.version(requirement.name)
            if version is None or not _fits(requirement, version):
                unmet[f"{name} {requirement}"] = (name, requirement, version)
    return len({name for name, _ in asked}), list(unmet.values())


def _older_metadata() -> Iterator[Finding]:
    """Warn if pyproject.toml lists other packages than at the time of installation."""
    path = Path("pyproject.toml")
    if not path.is_file():
        return
    project = tomllib.loads(path.read_text(encoding="utf-8")).get("project", {})
    if project.get("name") != NAME:
        return
    there = ["", *_extras_there(_Installed())]
    listed = _names({"": project.get("dependencies", []), **project.get("optional-dependencies", {})}, there)
    installed = _names({extra: map(str, asked) for extra, asked in _own().items()}, there)
    if listed != installed:
        changed = ", ".join(sorted(listed ^ installed))
        yield warning(
            f"{path} asks for other packages than when this was installed ({changed})",
            "Install again: `make run`, or `pip install --no-deps -e .`, and what is new.",
        )


def _names(texts: Mapping[str, Iterable[str]], extras: Iterable[str]) -> set[str]:
    """Return name and version range of the requirements of these extras."""
    asked = (Requirement(text) for extra in extras for text in texts.get(extra, ()))
    return {_plain(one) for one in asked}


def _plain(requirement: Requirement) -> str:
    return f"{requirement.name}{requirement.specifier}"


def _fits(requirement: Requirement, version: str) -> bool:
    # Prereleases: one that is installed was meant, as pip's own check has it.
    return requirement.specifier.contains(version, prereleases=True)


def _mend(requirement: Requirement) -> str:
    return f"`make run` installs the locked versions again; else `pip install '{_plain(requirement)}'`."


def _metadata() -> metadata.PackageMetadata:
    try:
        return metadata.metadata(NAME)
    except metadata.PackageNotFoundError:
        raise OSError(f"no package named {NAME} is installed in {sys.prefix}. {AGAIN}") from None


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
    yield ok(f"{told}, with {', '.join(providers(ended.out))}")


def only(package: str) -> str:
    """Return the command that installs one of the two packages, in the version that Plumbline needs."""
    asked = [Requirement(text) for text in metadata.requires("plumbline") or []]
    return next((f"`pip install '{one.name}{one.specifier}'`" for one in asked if one.name == package), package)


def installed_runtimes() -> dict[str, str]:
    """Return the version of each installed runtime, without loading it: it may be broken."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def providers(out: str) -> list[str]:
    """Return the execution providers in the output of `ASK`."""
    return out.split("\n")[-2].split() if "\n" in out else out.split()


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
