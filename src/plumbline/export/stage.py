"""Run the stage `export`: the trained and the pruned network as ONNX files, and the pruned
one in fp16 and int8."""

from __future__ import annotations

import shutil
from pathlib import Path

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder, report_write_errors, write_csv
from plumbline.export.mixed_precision import quantize
from plumbline.export.onnx import export_onnx, finish, in_half, read_metadata
from plumbline.export.tensorrt.build import build
from plumbline.export.tensorrt.device import this_device
from plumbline.model.diagnosis import load_diagnosis
from plumbline.params import Export
from plumbline.prepare.features.shards import load_shards

ARTIFACTS = ("float32", "pruned", "fp16", "int8")
"""Names of the models: `float32` is that of training; the others are compared to it and
released."""

ONE = ("float32.onnx", "fp16.onnx")
"""Files of one model that need no data."""


def export(prepared: Path, trained: Path, compressed: Path, params: Export, out: Path) -> None:
    """Write the models of `ARTIFACTS`, the pruned weights and `quantisation.csv` into `out`.

    Below `engines`, the TensorRT engines that `params.engines` names; nothing where it names none.

    Raises:
        InputError: an input folder is missing or damaged, or engines are asked for where
            none can be built.
    """
    # Else the work before it would be for nothing.
    device = this_device() if params.engines else None
    data = load_shards(prepared / "train")
    with atomic_folder(out) as folder:
        for name, source in (("float32", trained), ("pruned", compressed)):
            export_onnx(load_diagnosis(source), folder / f"{name}.onnx", params.opset)
        export_onnx(in_half(load_diagnosis(compressed)), folder / "fp16.onnx", params.opset)
        write_csv(
            quantize(folder / "pruned.onnx", folder / "int8.onnx", data, params),
            folder / "quantisation.csv",
        )
        finish(folder / "int8.onnx", read_metadata(folder / "pruned.onnx"))
        shutil.copyfile(compressed / "model.safetensors", folder / "weights.safetensors")
        shutil.copyfile(compressed / "model.json", folder / "network.json")
        if device is not None:
            weights = (folder / "weights.safetensors", folder / "network.json")
            for name in params.engines:
                build(
                    folder / f"{name}.onnx",
                    weights,
                    folder / "engines",
                    artifact=name,
                    device=device,
                    through="onnx",
                )
        for name in ARTIFACTS:
            log.info("%s.onnx: %d bytes", name, (folder / f"{name}.onnx").stat().st_size)


def export_model(source: Path, params: Export, out: Path) -> None:
    """Write one model, from any folder that `load_diagnosis` reads, into `out` as `ONE`.

    Raises:
        InputError: the model is missing or damaged, or `out` holds anything else.
    """
    unknown = (
        sorted(path.name for path in out.iterdir() if path.name not in ONE) if out.is_dir() else []
    )
    if unknown:
        raise InputError(
            f"{out}: holds {', '.join(unknown[:5])}, which this command did not write. Give "
            "another.",
            key="output.foreign_files",
        )
    model = load_diagnosis(source)
    with report_write_errors(out), atomic_folder(out) as folder:
        for name, written in zip(ONE, (model, in_half(model)), strict=True):
            export_onnx(written, folder / name, params.opset)
    for name in ONE:
        log.info("%s: %d bytes", out / name, (out / name).stat().st_size)
