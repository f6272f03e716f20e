"""List the extras of an installation with their libraries, and word the message when one is
missing."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from importlib import metadata, util
from pathlib import Path

from plumbline.core.errors import InputError
from plumbline.core.source_code import nearest_checkout

DISTRIBUTION = "plumbline-insar"
"""Name of the package for pip."""
RUNTIMES = ("onnxruntime", "onnxruntime-gpu")
"""Packages of ONNX Runtime: of Plumbline, and of its extra `gpu`. Both write into one
folder, and pip does not warn."""
LIBRARIES = {
    "torch": ("torch", "lightning", "onnxscript"),
    "pipeline": (
        "torch",
        "lightning",
        "onnxscript",
        "torch_pruning",
        "tensorboard",
        "prefect",
        "prefect_dask",
        "fastapi",
        "sqlalchemy",
        "dvc",
        "mlflow",
        "alembic",
    ),
    "restore": ("diffusers", "peft"),
    "picture": ("matplotlib",),
    "report": ("typst",),
    "serve": ("fastapi", "uvicorn", "prometheus_client", "python_multipart"),
    "sign": ("model_signing", "OpenSSL"),
}
"""Extra -> the modules that it brings and the package imports, the smallest extra first."""
FOREIGN = {
    "PYTHONPATH": ("numpy/__init__.py", "pandas/__init__.py", "pyproj/__init__.py"),
    "LD_LIBRARY_PATH": ("libstdc++.so.6", "libsqlite3.so.0", "libproj.so*", "libgdal.so*"),
}
"""Variable with folders -> files in them that take the place of those of this installation."""
SYSTEM_FOLDERS = re.compile(
    r"(/usr)?/lib(32|64)?(/[^/]*-linux-gnu[^/]*)?/?$|/usr/local/cuda|.*/gcc"
)
"""Pattern of folders of the system's loader, of CUDA and of compilers: no installation's own."""


class ExtraMissing(InputError):
    """A library that is not installed is needed; the message names the extra that brings it."""

    def __init__(self, asked: str, library: str, extra: str, instead: str = "") -> None:
        told = (
            f"{asked}: {library} is not installed. It comes with the extra `{extra}`: "
            f"{install(extra)}."
        )
        super().__init__(f"{told} {instead}".rstrip(), key="extra.missing")


def find_foreign_libraries() -> list[tuple[str, str]]:
    """Return the variables that bring libraries of another installation, each with its first
    file."""
    files = [
        (name, str(file))
        for name, patterns in FOREIGN.items()
        for folder in os.environ.get(name, "").split(os.pathsep)
        if folder and not (SYSTEM_FOLDERS.match(folder) or Path(folder).is_relative_to(sys.prefix))
        for pattern in patterns
        for file in Path(folder).glob(pattern)
    ]
    return list(dict(reversed(files)).items())[::-1]


def install(extra: str, option: str = "") -> str:
    """Return the command that adds an extra. It names no index, because Plumbline need not
    be on one.

    In a checkout that is `make install`, which keeps the checkout's own source code the one
    that runs.

    Args:
        extra: its name.
        option: of pip, if the extra needs one.
    """
    if root := nearest_checkout():
        arguments = option and f' PIP_ARGS="{option}"'
        return f"`make install EXTRAS={extra}{arguments}` in {root}"
    return f'`pip install "./WHEEL[{extra}]"{option and f" {option}"}` with the name of your wheel'


def is_installed(library: str) -> bool:
    """Return whether a module can be found, without loading it."""
    try:
        return util.find_spec(library) is not None
    except (ImportError, ValueError):
        return False


def list_runtimes() -> dict[str, str]:
    """Return the version of each installed runtime, without loading it: it may be broken."""
    versions = {}
    for name in RUNTIMES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def need(extra: str, feature: str, instead: str = "") -> None:
    """Refuse what cannot be done without an extra.

    Args:
        extra: a key of `LIBRARIES`.
        feature: the command or option.
        instead: what can be done without.

    Raises:
        ExtraMissing: a library of the extra is not installed.
    """
    missing = next((library for library in LIBRARIES[extra] if not is_installed(library)), None)
    if missing:
        raise ExtraMissing(feature, missing, extra, instead)


def missing_extra(error: ImportError, feature: str) -> ExtraMissing | None:
    """Return the error for a library imported without `need`; None if it is installed or
    belongs to no extra."""
    library = (error.name or "").partition(".")[0]
    if is_installed(library):
        return None
    extra = next((extra for extra, libraries in LIBRARIES.items() if library in libraries), None)
    return ExtraMissing(feature, library, extra) if extra else None
