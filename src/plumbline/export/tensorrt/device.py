"""Check what TensorRT needs on this machine: a GPU with its driver, and the libraries of
the extra `trt`."""

from __future__ import annotations

import hashlib
import json
from importlib import util

from pydantic import BaseModel, ConfigDict

from plumbline.core.errors import InputError
from plumbline.core.extras import install

MAJOR = "11"
"""TensorRT's, whose networks are strongly typed: precision comes from the ONNX file and
from nowhere else."""


class Hashed(BaseModel):
    """Record with a name of its content."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @property
    def short(self) -> str:
        """Return the first 12 hex digits of its SHA-256."""
        digest = hashlib.sha256(json.dumps(self.model_dump(), sort_keys=True).encode())
        return digest.hexdigest()[:12]


class Device(Hashed):
    """GPU and software that an engine depends on: on others it runs badly, wrongly or not at all.

    The driver is no part of it: whether an engine runs under another one is checked by
    TensorRT, which loads it.
    """

    gpu: str
    compute_capability: str
    tensorrt: str


def this_device() -> Device:
    """Return the first GPU and its software.

    Raises:
        InputError: something is missing; the message names all of it.
    """
    if missing := [problem for problem in (_without_tensorrt(), _without_gpu()) if problem]:
        raise InputError(
            "TensorRT needs a machine with an NVIDIA GPU and the extra `trt`; here "
            f"{'; and '.join(missing)}. To add the "
            f"extra, {install('trt', '--extra-index-url NVIDIAS_INDEX')}.",
            key="tensorrt.missing",
        )
    import torch

    major, minor = torch.cuda.get_device_capability(0)
    return Device(
        gpu=torch.cuda.get_device_name(0),
        compute_capability=f"{major}.{minor}",
        tensorrt=_tensorrt_version(),
    )


def _without_tensorrt() -> str:
    if absent := [name for name in ("tensorrt", "torch_tensorrt") if util.find_spec(name) is None]:
        return f"{' and '.join(absent)} {'is' if len(absent) == 1 else 'are'} not installed"
    found = _tensorrt_version()
    return (
        "" if found.split(".")[0] == MAJOR else f"TensorRT {found} is installed, {MAJOR} is needed"
    )


def _without_gpu() -> str:
    try:
        import torch
    except ModuleNotFoundError:
        return ""  # it comes with what is missing already

    if torch.version.cuda is None:
        return (
            f"torch {torch.__version__} is built without CUDA (install into an environment "
            "without it)"
        )
    return (
        ""
        if torch.cuda.is_available()
        else "torch sees no GPU (`nvidia-smi` shows whether the driver does)"
    )


def _tensorrt_version() -> str:
    import tensorrt

    return str(tensorrt.__version__)
