"""The released form of a model: an ONNX file with raw features in and physical units out."""

from __future__ import annotations

import io
import logging
import warnings
from contextlib import redirect_stdout
from pathlib import Path

import onnx
import torch
from torch.export import Dim

from plumbline.errors import PlumblineError
from plumbline.files import atomic_file
from plumbline.model.diagnosis import Answer, Diagnosis
from plumbline.prepare.features import DISTANCE, GEOMETRY, SLOPE

INPUTS = ("distance", "slope", "geometry", "mask")
OUTPUTS = Answer._fields
LIMIT_BATCH = 1 << 16


def export_onnx(model: Diagnosis, path: Path, opset: int) -> None:
    """Write `model` as a float32 ONNX file with dynamic batch and length, checked by `onnx.checker`.

    Length may be anything up to the model's `max_length`. The example is longer than 1, because the exporter takes a
    length of 1 for a constant.
    """
    model = model.eval()
    batch, length = Dim("batch", max=LIMIT_BATCH), Dim("length", max=model.network.spec.max_length)
    size = (3, 5)
    example = (
        torch.randn(*size, len(DISTANCE)),
        torch.randn(*size, len(SLOPE)),
        torch.randn(size[0], len(GEOMETRY)),
        torch.ones(size, dtype=torch.bool),
    )
    dynamic = {
        "distance": {0: batch, 1: length},
        "slope": {0: batch, 1: length},
        "geometry": {0: batch},
        "mask": {0: batch, 1: length},
    }
    with atomic_file(path) as temporary, _quiet():
        program = torch.onnx.export(
            model, example, dynamo=True, opset_version=opset, input_names=list(INPUTS), output_names=list(OUTPUTS),
            dynamic_shapes=dynamic, verbose=False,
        )  # fmt: skip
        if program is None:
            raise PlumblineError("torch.onnx.export returned no program.")
        onnx.save(_without_notes(program.model_proto), temporary)
        onnx.checker.check_model(str(temporary), full_check=True)


def _without_notes(model: onnx.ModelProto) -> onnx.ModelProto:
    """Without the exporter's notes: half the file, and the paths of this machine's sources are among them.

    Without them the same network gives the same bytes in any folder.
    """
    graph = model.graph
    for part in (model, graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
        del part.metadata_props[:]
    return model


class _quiet:  # noqa: N801  (reads as a word where it is used)
    """Keep the exporter's progress prints and deprecation notes, written for its own developers, off the user's log."""

    def __enter__(self) -> None:
        self._stdout = redirect_stdout(io.StringIO())
        self._stdout.__enter__()
        self._warnings = warnings.catch_warnings()
        self._warnings.__enter__()
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)

    def __exit__(self, *exception: object) -> None:
        self._warnings.__exit__(None, None, None)
        self._stdout.__exit__(None, None, None)
