"""Write the network as ONNX, in float32 and fp16.

Torch itself makes the mixed graph, so that each cast stands where it is meant to, and
TensorRT, which takes its precision from the graph, follows.
`onnxruntime.transformers.float16` converts a finished file instead: of ours it makes one
with two nodes of one name, which ONNX Runtime refuses.
"""

from __future__ import annotations

import copy
import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, cast

import onnx
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.onnx.errors import OnnxExporterError

from plumbline.core.errors import InputError, PlumblineError
from plumbline.core.files import atomic_file
from plumbline.export.interface import NAMES, properties
from plumbline.model.diagnosis import Answer, Diagnosis
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE

INPUTS = NAMES
OUTPUTS = Answer._fields
LIMIT_BATCH = 1 << 16


def export_onnx(model: Diagnosis, path: Path, opset: int) -> None:
    """Write `model` as an ONNX file with dynamic batch and length; see `finish` for its content.

    Length may be anything up to the model's `max_length`, which the file tells.

    Raises:
        InputError: a plug-in of the network does what a graph cannot.
    """
    model = model.eval()
    # Nobody asks for a gradient, and tracing what one would need takes longer; the file is
    # the same.
    with atomic_file(path) as temporary, quiet(), torch.no_grad():
        try:
            program = torch.onnx.export(
                model,
                example(),
                dynamo=True,
                opset_version=opset,
                input_names=list(INPUTS),
                output_names=list(OUTPUTS),
                dynamic_shapes=dynamic_shapes(model),
                verbose=False,
            )
        except OnnxExporterError as error:
            raise InputError(_refused(model, path, error), key="onnx.not_exportable") from error
        onnx.save(softmax_in_float(apart(model_of(program))), temporary)
        share = [round(float(value), 6) for value in model.get_buffer("category_share")]
        finish(temporary, properties(model.network.spec.max_length, model.preparation, share))


def model_of(program: torch.onnx.ONNXProgram | None) -> onnx.ModelProto:
    """Return the graph that `torch.onnx.export` made.

    Raises:
        PlumblineError: it made none.
    """
    if program is None:
        raise PlumblineError("torch.onnx.export returned no program.", key="onnx.no_program")
    return cast(onnx.ModelProto, program.model_proto)


def _refused(model: Diagnosis, path: Path, error: Exception) -> str:
    """Explain in a line why the exporter failed, with the plug-ins that may be the cause."""
    spec = model.network.spec
    kinds = ", ".join(
        f"{kind} {getattr(spec, kind)}"
        for kind in ("attention", "position", "pooling", "convolution")
    )
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    why = next(iter(str(cause).strip().splitlines()), "no reason given")
    return (
        f"{path.name}: a network with {kinds} cannot be exported ({type(cause).__name__}: "
        f"{why}). Use another of them "
        "in section model, or write it without what depends on values (CONTRIBUTING, A plug-in)."
    )


def example() -> tuple[torch.Tensor, ...]:
    """Return inputs to trace a model with. They are longer than 1, because torch takes a
    length of 1 for a constant."""
    size = (3, 5)
    return (
        torch.randn(*size, len(DISTANCE)),
        torch.randn(*size, len(SLOPE)),
        torch.randn(size[0], len(GEOMETRY)),
        torch.ones(size, dtype=torch.bool),
    )


def dynamic_shapes(model: Diagnosis) -> dict[str, dict[int, Dim]]:
    """Return the dimensions of the inputs that are free, with their upper limits."""
    batch, length = Dim("batch", max=LIMIT_BATCH), Dim("length", max=model.network.spec.max_length)
    return {
        "distance": {0: batch, 1: length},
        "slope": {0: batch, 1: length},
        "geometry": {0: batch},
        "mask": {0: batch, 1: length},
    }


def apart(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return `model` with each sum in front of a normalisation written as `Sum`, which is
    equivalent.

    ONNX Runtime fuses an `Add` and the normalisation after it into one operator that takes
    four times as long.
    """
    read = {
        name
        for node in model.graph.node
        if node.op_type == "LayerNormalization"
        for name in node.input[:1]
    }
    for node in model.graph.node:
        if node.op_type == "Add" and node.output[0] in read:
            node.op_type = "Sum"
    return model


def softmax_in_float(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return `model` with each softmax in fp16 between casts to float: ONNX Runtime 1.16
    has none in fp16 on a CPU."""
    half, full = onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT
    in_half = {
        value.name for value in model.graph.value_info if value.type.tensor_type.elem_type == half
    }
    nodes = []
    for node in model.graph.node:
        if node.op_type != "Softmax" or node.output[0] not in in_half:
            nodes.append(node)
            continue
        before, after = node.input[0], node.output[0]
        node.input[0], node.output[0] = f"{after}_of", f"{after}_float"
        nodes += [
            onnx.helper.make_node(
                "Cast", [before], [node.input[0]], f"{node.name}_to_float", to=full
            ),
            node,
            onnx.helper.make_node(
                "Cast", [node.output[0]], [after], f"{node.name}_to_half", to=half
            ),
        ]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def finish(path: Path, metadata: dict[str, str]) -> None:
    """Clean an ONNX file in place, add its metadata, and check it by `onnx.checker`.

    Out go the exporter's notes: half the file, and the paths of this machine's sources are
    among them; without them the same network gives the same bytes in any folder. Out go
    operator sets that no node uses: ONNX Runtime's tools list their own, which another
    runtime need not know. In comes `metadata`, in the order of its keys.
    """
    model = onnx.load(path)
    graph = model.graph
    for part in (
        model,
        graph,
        *graph.node,
        *graph.input,
        *graph.output,
        *graph.value_info,
        *graph.initializer,
    ):
        del part.metadata_props[:]
    used = {node.domain for node in graph.node} | {""}
    opsets = [(opset.domain, opset.version) for opset in model.opset_import if opset.domain in used]
    del model.opset_import[:]
    model.opset_import.extend(onnx.helper.make_opsetid(*opset) for opset in sorted(opsets))
    model.ir_version = onnx.helper.find_min_ir_version_for(model.opset_import, ignore_unknown=True)
    for key in sorted(metadata):
        model.metadata_props.add(key=key, value=metadata[key])
    onnx.save(model, path)
    onnx.checker.check_model(str(path), full_check=True)


def read_metadata(path: Path) -> dict[str, str]:
    """Return the metadata of an ONNX file."""
    return {entry.key: entry.value for entry in onnx.load(path).metadata_props}


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the exporter's progress prints and deprecation notes, written for its own
    developers, off the user's log."""
    with redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        yield


class InPrecision(nn.Module):
    """A part of a network that computes in another precision than the parts around it."""

    def __init__(self, part: nn.Module, inside: torch.dtype, outside: torch.dtype) -> None:
        super().__init__()
        self.part = part.to(inside)
        self.inside = inside
        self.outside = outside

    def forward(self, *inputs: Tensor) -> Any:
        """Return the part's answer; masks are passed on unchanged."""
        answer = self.part(*(_to(value, self.inside) for value in inputs))
        return (
            [_to(value, self.outside) for value in answer]
            if isinstance(answer, list)
            else _to(answer, self.outside)
        )


def in_half(model: Diagnosis) -> Diagnosis:
    """Return a copy with encoder, attention and joining layers in fp16; `model` is unchanged.

    In float stay: standardisation, novelty, the interval and the exponentials, since they
    are no part of the network; positions, whose angles fp16 rounds by up to 1/32 at the
    64th place and by more beyond; the pooling, a sum over all scatterers; normalisations;
    and the last two layers, as in int8: a step before the severity's exponential is a step
    of that share of the severity.

    Raises:
        PlumblineError: a weight is larger than fp16 can hold.
    """
    half, full = torch.float16, torch.float32
    model = copy.deepcopy(model).eval()
    network = cast(Any, model.network)  # wrapped parts are no longer of the classes that it names
    if (position := network.neck.position) is not None:
        network.neck.position = None
    network.encoder, network.neck = (
        InPrecision(network.encoder, half, half),
        InPrecision(network.neck, half, half),
    )
    if position is not None:
        network.neck.part.position = InPrecision(position, full, half)
    network.pool = InPrecision(network.pool, full, full)
    network.geometry = InPrecision(network.geometry, half, half)
    heads = network.heads
    heads.join_pooled = nn.ModuleList(InPrecision(join, half, full) for join in heads.join_pooled)
    heads.join_geometry = InPrecision(heads.join_geometry, half, full)
    _keep_norms_in_float(network)
    for name, parameter in model.named_parameters():
        # NaN passes: a network that diverged is for the gates to refuse, with evidence.
        if parameter.dtype == half and parameter.isinf().any():
            raise PlumblineError(
                f"fp16: a weight of {name} is larger than fp16 can hold.",
                key="fp16.weight_too_large",
            )
    return model


def _keep_norms_in_float(network: nn.Module) -> None:
    """Compute each normalisation of a part in fp16 in float: ONNX Runtime 1.16 has none in
    fp16 on a CPU."""
    for part in list(network.modules()):
        for name, layer in list(part.named_children()):
            if isinstance(layer, nn.LayerNorm) and layer.weight.dtype == torch.float16:
                setattr(part, name, InPrecision(layer, torch.float32, torch.float16))


def _to(value: Tensor, precision: torch.dtype) -> Tensor:
    return value.to(precision) if value.is_floating_point() else value
