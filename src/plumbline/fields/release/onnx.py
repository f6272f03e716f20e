"""Run the stages `compress` and `export` of fields: fewer steps, ONNX in three precisions.

Fewer steps make restoring cheaper: each step runs the network once for every sample.
"""

from __future__ import annotations

import json
import logging
import shutil
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from safetensors.numpy import load_file, save_file

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder, write_csv, write_json
from plumbline.fields.model.adapter_files import ADAPTERS
from plumbline.fields.model.denoiser import (
    PACKED_SPEC,
    PACKED_WEIGHTS,
    SPEC,
    WEIGHTS,
    FieldDenoiser,
    load_denoiser,
)
from plumbline.fields.model.scores import ScoreSettings, restore_scenes
from plumbline.fields.model.spread import SPREAD, read_spread
from plumbline.fields.prepare.conditions import SceneSet, describe, load_scenes
from plumbline.fields.train.calibrate import TorchDenoiser
from plumbline.params.fields import RestorationParams

INPUTS, OUTPUT = ("noisy", "step", "conditions"), "clean"
MIN_HALVED = 64
"""Smallest number of values of a tensor that is stored in 16 bits."""


def export_denoiser(model: FieldDenoiser, path: Path, opset: int) -> None:
    """Write the network with its spec. Weights keep the names of the module, so that
    adapters find them.

    Args:
        model: in evaluation mode. path: file to write. opset: of ONNX.
    """
    multiple = 2 ** (len(model.spec.channels) - 1)
    shape = (2, 4 * multiple, 6 * multiple)
    example = (
        torch.randn(shape[0], 2, *shape[1:]),
        torch.tensor([3, 7]),
        torch.randn(shape[0], len(model.spec.conditions), *shape[1:]),
    )
    batch = torch.export.Dim("batch", min=1, max=4096)
    rows, columns = (
        torch.export.Dim(name, min=2, max=128) * multiple for name in ("rows", "columns")
    )
    sizes = {0: batch, 2: rows, 3: columns}
    # Not by `export.onnx`: a stage of fields depends on no code of the diagnosis, so that an
    # edit there repeats none.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")
        program: Any = torch.onnx.export(
            model,
            example,
            dynamo=True,
            opset_version=opset,
            input_names=list(INPUTS),
            output_names=[OUTPUT],
            dynamic_shapes=(sizes, {0: batch}, sizes),
            verbose=False,
        )
    written = program.model_proto
    graph = written.graph
    # The exporter's notes hold paths of this machine, and the members of sets in any order.
    for part in (
        graph,
        *graph.node,
        *graph.input,
        *graph.output,
        *graph.value_info,
        *graph.initializer,
    ):
        del part.metadata_props[:]
    about = json.dumps(model.spec.model_dump(mode="json"))
    helper.set_model_props(written, {"name": "plumbline-restoration", "spec": about})
    # Older runtimes refuse a higher one.
    written.ir_version = helper.find_min_ir_version_for(written.opset_import)
    onnx.save(written, path)


def halve_weights(source: Path, out: Path) -> None:
    """Store the weights in 16 bits and compute in 32: half the bytes, at any device's usual
    speed."""
    model = onnx.load(source)
    del model.graph.value_info[:]
    casts = []
    for tensor in list(model.graph.initializer):
        values = numpy_helper.to_array(tensor)
        if values.dtype != np.float32 or values.size < MIN_HALVED:
            continue
        name = f"{tensor.name}.half"
        half = numpy_helper.from_array(values.astype(np.float16), name)
        model.graph.initializer.remove(tensor)
        model.graph.initializer.append(half)
        casts.append(helper.make_node("Cast", [name], [tensor.name], to=TensorProto.FLOAT))
    for number, node in enumerate(casts):
        model.graph.node.insert(number, node)
    onnx.save(model, out)


class _CalibrationBatches(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, batches: Sequence[dict[str, NDArray[Any]]]) -> None:
        self._batches: Iterator[dict[str, NDArray[Any]]] = iter(batches)

    def get_next(self) -> dict[str, NDArray[Any]] | None:
        return next(self._batches, None)


def quantize_weights(source: Path, out: Path, batches: Sequence[dict[str, NDArray[Any]]]) -> None:
    """Quantise convolutions and products to 8 bits, with ranges from `batches`; first and
    last layer stay in float.

    Static, symmetric, ranges for each channel of the weights; `reduce_range` for processors
    without VNNI.
    """
    model = onnx.load(source)
    del model.graph.value_info[:]
    cleaned = out.with_suffix(".clean.onnx")
    onnx.save(model, cleaned)
    convolutions = [node.name for node in model.graph.node if node.op_type == "Conv"]
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)  # ONNX Runtime logs each layer to the root logger
    try:
        quantize_static(
            cleaned,
            out,
            _CalibrationBatches(batches),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=["Conv", "Gemm", "MatMul"],
            nodes_to_exclude=[convolutions[0], convolutions[-1]],
            per_channel=True,
            reduce_range=True,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
            extra_options={"ActivationSymmetric": True, "WeightSymmetric": True},
        )
    finally:
        root.setLevel(level)
        cleaned.unlink(missing_ok=True)
    written = onnx.load(out)
    del written.metadata_props[:]
    written.metadata_props.extend(model.metadata_props)
    onnx.save(written, out)


ARTIFACTS = ("float32", "fp16", "int8")
"""Precisions that are exported; `float32` is what training made and the reference of the others."""
BATCH = 8


def export(prepared: Path, trained: Path, params: RestorationParams, out: Path) -> None:
    """Write the models of `ARTIFACTS`, the weights in 16 bits, the spread and the adapters
    into `out`.

    Raises:
        InputError: an input folder is missing or damaged.
    """
    model = load_denoiser(trained)
    scenes = load_scenes(prepared / "train")
    with atomic_folder(out) as folder:
        export_denoiser(model, folder / "float32.onnx", params.export.opset)
        halve_weights(folder / "float32.onnx", folder / "fp16.onnx")
        batches = _make_batches(model, scenes, params)
        quantize_weights(folder / "float32.onnx", folder / "int8.onnx", batches)
        weights = {
            name: values.astype(np.float16) for name, values in load_file(trained / WEIGHTS).items()
        }
        save_file(weights, folder / PACKED_WEIGHTS)
        shutil.copyfile(trained / SPEC, folder / PACKED_SPEC)
        shutil.copyfile(trained / SPREAD, folder / SPREAD)
        shutil.copytree(trained / ADAPTERS, folder / ADAPTERS)
        for name in ARTIFACTS:
            log.info("%s.onnx: %d bytes", name, (folder / f"{name}.onnx").stat().st_size)


def _make_batches(
    model: FieldDenoiser, scenes: SceneSet, params: RestorationParams
) -> list[dict[str, NDArray[Any]]]:
    """Return inputs as in restoration, at steps from the first to the last, from random scenes."""
    rng = np.random.default_rng(params.train.seed)
    alphas = model.alphas.double().numpy()
    crop, count = params.train.crop, params.export.calibration_batches
    batches = []
    for step in np.linspace(len(alphas) - 1, 0, count).round().astype(int):
        noisy, conditions = [], []
        for scene in rng.integers(0, len(scenes), BATCH):
            cut = (slice(None), slice(0, crop), slice(0, crop))
            scaled = describe(np.asarray(scenes.maps[scene])[cut])
            clean = (np.asarray(scenes.truth[scene])[cut] - scaled.mean) / scaled.scale[
                :, None, None
            ]
            noise = rng.standard_normal(clean.shape)
            # The forward diffusion in one step (Ho et al. 2020, equation 4).
            noisy.append(np.sqrt(alphas[step]) * clean + np.sqrt(1 - alphas[step]) * noise)
            conditions.append(scaled.channels)
        batch: dict[str, NDArray[Any]] = {
            "noisy": np.stack(noisy).astype(np.float32),
            "step": np.full(BATCH, step, np.int64),
            "conditions": np.stack(conditions),
        }
        batches.append(batch)
    return batches


SCENES = 8
"""Largest number of scenes of the tune split that are restored with each number of steps."""
SAMPLES = 8
"""Samples of each of these scenes."""


def compress(prepared: Path, trained: Path, params: RestorationParams, out: Path) -> None:
    """Write `steps.csv` (error by number of steps) and `metrics.json` (the fewest
    sufficient steps) into `out`.

    Raises:
        InputError: an input folder is missing or damaged, or there is no scene to try on.
    """
    scenes = load_scenes(prepared / "tune").of_domain("plain")
    if not len(scenes):
        raise InputError(
            f"{prepared / 'tune'}: no plain scene to try numbers of steps on. Simulate more.",
            key="split.no_plain_scene",
        )
    scenes = scenes.take(range(min(SCENES, len(scenes))))
    model, spread = TorchDenoiser(load_denoiser(trained)), read_spread(trained / SPREAD)
    rows = []
    for steps in sorted(set(params.compress.tried_steps)):
        settings = ScoreSettings(
            steps,
            SAMPLES,
            params.restore.eta,
            params.train.seed,
            params.simulate.cell_m,
            params.train.crop,
        )
        figures = restore_scenes(model, spread, scenes, settings, f"{steps} steps")
        restored = [row for row in figures if not np.isnan(row["rmse_mm"])]
        if not restored:
            raise InputError(
                f"{prepared / 'tune'}: no plain scene with a point near its middle. Simulate more.",
                key="scenes.no_near_point",
            )
        rows.append(
            {
                "steps": steps,
                **{name: float(np.mean([row[name] for row in restored])) for name in restored[0]},
            }
        )
    limit = (1 + params.compress.max_loss) * rows[-1]["rmse_mm"]
    fewest = next(row["steps"] for row in rows if row["rmse_mm"] <= limit)
    with atomic_folder(out) as folder:
        write_csv(rows, folder / "steps.csv")
        write_json(
            folder / "metrics.json", {"fewest_steps": fewest, "most_steps": rows[-1]["steps"]}
        )
    log.info(
        "%d steps restore as well as %d (%.0f %% allowed)",
        fewest,
        rows[-1]["steps"],
        100 * params.compress.max_loss,
    )
