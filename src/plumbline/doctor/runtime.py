"""ONNX Runtime: one of its two packages, and one that can be imported."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata

from plumbline.doctor.command import python
from plumbline.doctor.finding import Finding, Place, fault, ok

PACKAGES = {"onnxruntime": "cpu", "onnxruntime-gpu": "gpu"}
"""Package -> the extra of Plumbline that installs it. Both write into one folder, and pip says nothing."""
ASK = "import onnxruntime; onnxruntime.InferenceSession; print(*onnxruntime.get_available_providers())"


def check_onnxruntime(place: Place) -> Iterator[Finding]:
    """Exactly one of both is installed, and it works."""
    installed = installed_runtimes()
    told = " and ".join(f"{name} {version}" for name, version in installed.items())
    if len(installed) > 1:
        yield fault(f"{told} are both installed, over one another",
                    "`pip uninstall onnxruntime onnxruntime-gpu`, then install one of them: "
                    "in a clone, `pip install -e '.[cpu]'` or `'.[gpu]'`.")  # fmt: skip
        return
    if not installed:
        yield fault("neither onnxruntime nor onnxruntime-gpu is installed",
                    "In a clone, `pip install -e '.[cpu]'`, or `'.[gpu]'` on a machine with a GPU.")  # fmt: skip
        return
    ended = python(ASK, place.seconds)
    (name,) = installed
    if ended.code:
        yield fault(f"{told} cannot be imported: {ended.last}",
                    f"`pip install --force-reinstall --no-deps {name}=={installed[name]}`: the other one may have "
                    "taken its files along when it was uninstalled.")  # fmt: skip
        return
    yield ok(f"{told}, with {', '.join(providers(ended.out))}")


def installed_runtimes() -> dict[str, str]:
    """Package -> version of those that are installed; asked here, since `export.runtime` loads what may be broken."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def providers(out: str) -> list[str]:
    """Execution providers in what `ASK` printed."""
    return out.split("\n")[-2].split() if "\n" in out else out.split()
