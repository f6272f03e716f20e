"""ONNX files that do nothing but carry words, so that a test knows a package by them."""

from pathlib import Path

import onnx
from onnx import TensorProto, helper


def write_words(path: Path, words: str) -> None:
    """Write a valid model that returns its input, with `words` as its description."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch"]) for name in ("given", "same")]
    graph = helper.make_graph([helper.make_node("Identity", ["given"], ["same"])], "words", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, doc_string=words, opset_imports=[helper.make_opsetid("", 20)]), path)


def read_words(package: Path) -> str:
    """Read the words of a package's model."""
    return str(onnx.load(package / "model.onnx").doc_string)
