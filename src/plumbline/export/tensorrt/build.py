"""Build an engine from a package by TensorRT's own parser of the ONNX file, and keep its
timings for the next time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plumbline.core.console import log, warn
from plumbline.core.errors import InputError, PlumblineError
from plumbline.core.files import atomic_file, sha256_file
from plumbline.export.package import MODELS, verify_package
from plumbline.export.runtime import OnnxModel
from plumbline.export.tensorrt.device import Device, this_device
from plumbline.export.tensorrt.runtime import (
    Key,
    Profile,
    TensorRTModel,
    engine_folder,
    profile,
    write_engine,
)
from plumbline.export.weights import network_files
from plumbline.params.compress import EngineArtifact, Through


def build_from_package(
    package: Path, out: Path, artifact: EngineArtifact, through: Through = "onnx"
) -> Path:
    """Build the engine of one model of a package into a new folder below `out`; return that folder.

    Raises:
        InputError: this machine cannot build it, the package is damaged or has no such
            model, or `out` is inside it.
        PlumblineError: TensorRT refuses the network.
    """
    if package.resolve() in (out.resolve(), *out.resolve().parents):
        raise InputError(
            f"--output {out}: inside of the package, which must stay as it is. Give another "
            "folder.",
            key="output.in_package",
        )
    device = this_device()
    manifest = verify_package(package)
    files = {name: file for file, name in MODELS.items() if file in manifest.files}
    if artifact not in files:
        raise InputError(
            f"{package}: no model {artifact!r} in it; {', '.join(files)} are. Export it again.",
            key="package.no_such_model",
        )
    return build(
        package / files[artifact],
        network_files(package),
        out,
        artifact=artifact,
        device=device,
        through=through,
    )


def build(
    onnx: Path,
    weights: tuple[Path, Path],
    out: Path,
    *,
    artifact: EngineArtifact,
    device: Device,
    through: Through,
) -> Path:
    """Build the engine of an ONNX file, or (`torch`) of the same network from its `weights`
    and widths.

    An engine that is in `out` already stays, if TensorRT opens it here; one that it refuses
    is built anew.

    Raises:
        InputError: there is no such way for the artifact.
        PlumblineError: TensorRT refuses the network.
    """
    if through == "torch" and artifact == "int8":
        raise InputError(
            "int8 through torch: its roundings are in the ONNX file only. Build it through onnx.",
            key="engine.int8_through_torch",
        )
    model = OnnxModel(onnx)
    shapes = profile(model.about.max_length)
    key = Key(
        artifact=artifact,
        through=through,
        onnx_sha256=sha256_file(onnx),
        device=device,
        profile=shapes,
    )
    folder = engine_folder(out, key)
    if folder.is_dir():
        try:
            TensorRTModel(folder)
        except InputError as error:
            warn("%s Building it.", error, key=error.key)
        else:
            log.info("%s: TensorRT opens it; it stays", folder)
            return folder
    columns = dict(model.signature.columns)
    timings = out / f"timings-{key.device.short}.cache"
    if through == "onnx":
        plan = plan_from_onnx(onnx, shapes, columns, timings)
    else:
        from plumbline.export.tensorrt.from_torch import plan_from_torch

        plan = plan_from_torch(
            *weights, artifact=artifact, shapes=shapes, columns=columns, timings=timings
        )
    write_engine(folder, plan, {"key": key, "columns": columns, "said": model.about})
    log.info(
        "%s: %d bytes, for %s with TensorRT %s", folder, len(plan), device.gpu, device.tensorrt
    )
    return folder


def plan_from_onnx(onnx: Path, shapes: Profile, columns: dict[str, int], timings: Path) -> bytes:
    """Build TensorRT's plan for an ONNX file, with the file's own precisions.

    Args:
        onnx: file; its precision, QuantizeLinear and DequantizeLinear included, is the engine's.
        shapes: that the engine takes.
        columns: of the inputs.
        timings: file with what earlier builds on this device found to be fastest; written anew.

    Raises:
        PlumblineError: TensorRT cannot read the network, or makes no engine of it.
    """
    import tensorrt

    builder = tensorrt.Builder(logger := tensorrt.Logger(tensorrt.Logger.WARNING))
    network = builder.create_network()
    parser = tensorrt.OnnxParser(network, logger)
    if not parser.parse(onnx.read_bytes()):
        errors = "; ".join(str(parser.get_error(i)) for i in range(parser.num_errors))
        raise PlumblineError(
            f"{onnx}: TensorRT cannot read it ({errors}).", key="engine.onnx_refused"
        )
    config = builder_config(
        tensorrt, builder, shapes, columns, timings.read_bytes() if timings.is_file() else b""
    )
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise PlumblineError(
            f"{onnx}: TensorRT made no engine of it; see its messages above.",
            key="engine.not_built",
        )
    with atomic_file(timings) as temporary:
        temporary.write_bytes(bytes(config.get_timing_cache().serialize()))
    return bytes(plan)


def builder_config(
    tensorrt: Any, builder: Any, shapes: Profile, columns: dict[str, int], timings: bytes
) -> Any:
    """Return the builder's configuration: the shapes, the timings of earlier builds, and
    float32 without TF32."""
    config = builder.create_builder_config()
    # TF32 would multiply float32 with 10 bits of mantissa, as many as fp16 has: who wants
    # that takes fp16.
    config.clear_flag(tensorrt.BuilderFlag.TF32)
    for content in (timings, b""):
        cache = config.create_timing_cache(content)
        if cache is not None and config.set_timing_cache(cache, False):
            break
        warn(
            "TensorRT: timings of earlier builds are of another device or version; they are made "
            "anew.",
            key="engine.other_timings",
        )
    tuned = builder.create_optimization_profile()
    for name, (least, best, most) in shapes.shapes(columns).items():
        tuned.set_shape(name, least, best, most)
    config.add_optimization_profile(tuned)
    return config
