"""Write a model repository for the Triton Inference Server from a model package.

Fields of `config.pbtxt` are those of `ModelConfig` in Triton's model_config.proto.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import onnx
from onnx import TensorProto

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder, check_place, read_json, sha256_file, write_json
from plumbline.export.package import Manifest, verify_package

MARK = "plumbline.json"
"""File that marks a repository of this module; Triton reads only the folders beside it."""
CONFIG, MODEL, VERSION = "config.pbtxt", "model.onnx", "1"
TYPES = {
    TensorProto.FLOAT: "TYPE_FP32",
    TensorProto.FLOAT16: "TYPE_FP16",
    TensorProto.BOOL: "TYPE_BOOL",
    TensorProto.INT64: "TYPE_INT64",
    TensorProto.INT32: "TYPE_INT32",
}


@dataclass(frozen=True)
class TritonSettings:
    """Settings of the server for the models."""

    max_batch_size: int = 64
    """Largest number of buildings of a batch, from 1 to 65536, the limit of the models."""
    max_queue_delay_us: int = 500
    """Longest time that a request may wait for others of its batch, microseconds."""
    gpu: bool = False
    tensorrt: bool = False
    """True to run by TensorRT, on a GPU, what it can."""
    instances: int = 1
    """Number of copies of each model; on GPUs, on each of them."""
    threads: int = 0
    """Number of threads of a copy on the CPU; 0: one a core."""

    @property
    def preferred_batch_sizes(self) -> list[int]:
        """Return the batch sizes to run at once: a quarter and all of the largest."""
        return sorted({max(1, self.max_batch_size // 4), self.max_batch_size})


class TensorConfig(NamedTuple):
    """An input or output of an ONNX file."""

    name: str
    type: str
    dims: list[int]
    """Sizes without the batch; -1 where any size will do."""


def write_repository(package: Path, out: Path, settings: TritonSettings) -> list[str]:
    """Write one model for each ONNX file of a package; return their names.

    The folder appears whole; one that this function wrote before is replaced.

    Raises:
        InputError: the package is damaged, a model does not have the batch first in every
            tensor, or `out` is something else than a repository of ours.
    """
    manifest = verify_package(package)
    if package.resolve() in (out.resolve(), *out.resolve().parents):
        raise InputError(
            f"{out}: is inside the model package, which must stay as it is. Give another folder.",
            key="output.in_package",
        )
    if out.resolve() in package.resolve().parents:
        raise InputError(
            f"{out}: the model package is inside of it. Give another folder.",
            key="output.around_package",
        )
    _check_replaced(out)
    names = model_names(manifest)
    with atomic_folder(out) as folder:
        for file, name in names.items():
            (folder / name / VERSION).mkdir(parents=True)
            shutil.copyfile(package / file, folder / name / VERSION / MODEL)
            text = config_text(name, file, package / file, manifest, settings)
            (folder / name / CONFIG).write_text(text, encoding="utf-8")
        files = {path.relative_to(folder).as_posix(): sha256_file(path) for path in _files(folder)}
        write_json(folder / MARK, {"format": 1, "package": manifest.version, "files": files})
    log.info("%s: %s of package %s", out, ", ".join(names.values()), manifest.version)
    return list(names.values())


def model_names(manifest: Manifest) -> dict[str, str]:
    """Return file -> model name: that of the package, and the part of the name of the file
    other than `model`.

    Raises:
        InputError: the package's name cannot be that of a folder.
    """
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", manifest.name):
        raise InputError(
            f"manifest.json: name: {manifest.name!r} cannot be the name of a model on a server.",
            key="package.unfit_name",
        )
    return {
        file: "_".join(
            [manifest.name, *(part for part in Path(file).stem.split(".") if part != "model")]
        )
        for file in sorted(manifest.files)
        if file.endswith(".onnx")
    }


def onnx_tensors(path: Path) -> tuple[list[TensorConfig], list[TensorConfig]]:
    """Return inputs and outputs that an ONNX file declares.

    Raises:
        InputError: a tensor's first dimension is not a free one named `batch`, or its type
            is none of `TYPES`.
    """
    graph = onnx.load(path).graph
    return [_tensor(value, path) for value in graph.input], [
        _tensor(value, path) for value in graph.output
    ]


def config_text(
    name: str, file: str, path: Path, manifest: Manifest, settings: TritonSettings
) -> str:
    """Return the text of a model's `config.pbtxt` (protobuf text format).

    Args:
        name: of the model. file: its name in the package. path: where it is. manifest: of
            the package.
        settings: how to run it.
    """
    inputs, outputs = onnx_tensors(path)
    sizes = ", ".join(map(str, settings.preferred_batch_sizes))
    about = {
        "plumbline_package": manifest.name,
        "plumbline_version": manifest.version,
        "plumbline_artifact": file,
        "plumbline_sha256": manifest.files[file].sha256,
    }
    if not settings.gpu:
        about["intra_op_thread_count"] = str(settings.threads)
    return "\n".join(
        [
            f"name: {json.dumps(name)}",
            'backend: "onnxruntime"',
            f"default_model_filename: {json.dumps(MODEL)}",
            f"max_batch_size: {settings.max_batch_size}",
            *_tensors("input", inputs),
            *_tensors("output", outputs),
            f"version_policy {{ specific {{ versions: [ {VERSION} ] }} }}",
            f"instance_group [ {{ count: {settings.instances} kind: "
            f"{'KIND_GPU' if settings.gpu else 'KIND_CPU'} }} ]",
            f"dynamic_batching {{ preferred_batch_size: [ {sizes} ] "
            f"max_queue_delay_microseconds: {settings.max_queue_delay_us} }}",
            *_optimization(settings),
            *(
                f"parameters {{ key: {json.dumps(key)} value {{ string_value: "
                f"{json.dumps(value)} }} }}"
                for key, value in about.items()
            ),
            "",
        ]
    )


def _optimization(settings: TritonSettings) -> Iterable[str]:
    """Return the optimisation lines: all of ONNX Runtime's own (level 0 in Triton), and
    TensorRT where wanted."""
    accelerator = 'name: "tensorrt" parameters { key: "precision_mode" value: "FP32" }'
    inner = f" execution_accelerators {{ gpu_execution_accelerator [ {{ {accelerator} }} ] }}"
    used = inner if settings.gpu and settings.tensorrt else ""
    yield f"optimization {{ graph {{ level: 0 }}{used} }}"


def _tensors(kind: str, tensors: Iterable[TensorConfig]) -> Iterable[str]:
    for tensor in tensors:
        # Triton asks for a dimension; a value a building is one of size 1 there, and none for
        # the model.
        dims, reshape = (tensor.dims, "") if tensor.dims else ([1], " reshape { shape: [ ] }")
        sizes = ", ".join(map(str, dims))
        yield (
            f"{kind} [ {{ name: {json.dumps(tensor.name)} data_type: {tensor.type} dims: [ {sizes} "
            f"]{reshape} }} ]"
        )


def _tensor(value: Any, path: Path) -> TensorConfig:
    kind = value.type.tensor_type
    if kind.elem_type not in TYPES:
        raise InputError(
            f"{path}: {value.name}: type {kind.elem_type} of ONNX, which this cannot describe to "
            "Triton.",
            key="onnx.unknown_type",
        )
    batch, *sizes = kind.shape.dim or [None]
    if batch is None or batch.dim_param != "batch":
        raise InputError(
            f"{path}: {value.name}: its first dimension is not `batch`, so that Triton cannot "
            "batch it.",
            key="onnx.batch_not_first",
        )
    return TensorConfig(
        value.name, TYPES[kind.elem_type], [-1 if dim.dim_param else dim.dim_value for dim in sizes]
    )


def _check_replaced(out: Path) -> None:
    """Refuse to replace files that this module did not write, or that were changed since.

    Raises:
        InputError: `out` is such a thing.
    """
    check_place(out)
    content = read_json(out / MARK) if (out / MARK).is_file() else {}
    written = content.get("files", {}) if isinstance(content, dict) else None
    if not isinstance(written, dict):
        raise InputError(
            f"{out / MARK}: not the list of files that this command writes. Give another folder, "
            "or remove this one.",
            key="output.foreign_list",
        )
    for path in _files(out):
        name = path.relative_to(out).as_posix()
        if name != MARK and written.get(name) != sha256_file(path):
            raise InputError(
                f"{path}: not written by this command, or changed since, and would be lost. Give "
                "another folder, or "
                "remove this one.",
                key="output.foreign_files",
            )


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if not path.is_dir())
