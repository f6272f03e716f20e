"""ONNX files that do nothing but carry words, so that a test knows a package by them."""

from pathlib import Path

import onnx
from onnx import TensorProto, helper

from plumbline.export.package import write_package
from plumbline.params import Prepare

METRICS = {"int8": {"severity_mae": 0.25}, "pruned": {"severity_mae": 0.75, "quadrant_accuracy": 0.625}}


def make_package(folder: Path, words: str, verdict: str = "pass", **gate: int) -> Path:
    """Write a small package with real hashes whose model is a file with the given words."""
    model = folder / "model.onnx"
    write_words(model, words)
    about = {
        "name": "plumbline",
        "default_model": "model.onnx",
        "prepare": Prepare().model_dump(),
        "hashes": {"data": "d" * 64},
        "metrics": METRICS,
        "gate": {"verdict": verdict, **gate},
        "records": {"train": {"run_key": "c" * 64}, "validate": {"lock_md5": "e" * 32}},
    }
    write_package({"model.onnx": model}, about, "A card.", folder / f"package_{words}")
    return folder / f"package_{words}"


def write_words(path: Path, words: str) -> None:
    """Write a valid model that returns its input, with `words` as its description."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch"]) for name in ("given", "same")]
    graph = helper.make_graph([helper.make_node("Identity", ["given"], ["same"])], "words", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, doc_string=words, opset_imports=[helper.make_opsetid("", 20)]), path)


def read_words(package: Path) -> str:
    """Read the words of a package's model."""
    return str(onnx.load(package / "model.onnx").doc_string)
