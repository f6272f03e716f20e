"""The stage `export`: the trained and the pruned network as ONNX files, and the pruned one in int8."""

from __future__ import annotations

import shutil
from pathlib import Path

from plumbline.compress.keep import quantize
from plumbline.compress.table import write_table
from plumbline.console import log
from plumbline.export.onnx import export_onnx
from plumbline.files import atomic_folder
from plumbline.model.diagnosis import load_diagnosis
from plumbline.params import Export
from plumbline.prepare.shards import load_shards

ARTIFACTS = ("float32", "pruned", "int8")
"""`float32` is what training made and what the others are measured against; `pruned` and `int8` are released."""


def export(prepared: Path, trained: Path, compressed: Path, params: Export, out: Path) -> None:
    """Write `float32.onnx`, `pruned.onnx`, `int8.onnx`, the pruned weights and `quantisation.csv` into `out`.

    Raises:
        InputError: an input folder is missing or damaged.
    """
    data = load_shards(prepared / "train")
    with atomic_folder(out) as folder:
        for name, source in (("float32", trained), ("pruned", compressed)):
            export_onnx(load_diagnosis(source), folder / f"{name}.onnx", params.opset)
        write_table(quantize(folder / "pruned.onnx", folder / "int8.onnx", data, params), folder / "quantisation.csv")
        shutil.copyfile(compressed / "model.safetensors", folder / "weights.safetensors")
        shutil.copyfile(compressed / "model.json", folder / "network.json")
        for name in ARTIFACTS:
            log.info("%s.onnx: %d bytes", name, (folder / f"{name}.onnx").stat().st_size)
