"""A registered version is an MLflow model: MLflow runs it, and the package in it stays as it was."""

from __future__ import annotations

from pathlib import Path

import mlflow.pyfunc
import numpy as np
import onnxruntime
import pytest

from plumbline.core.files import sha256_folder
from plumbline.pretrained import FIELDS, PACKAGE
from plumbline.release.names import verify_package
from plumbline.release.promotion import promote
from plumbline.release.registry import Registry

INPUTS = {
    "distance": ((-1, -1, 6), "float32"),
    "slope": ((-1, -1, 16), "float32"),
    "geometry": ((-1, 76), "float32"),
    "mask": ((-1, -1), "bool"),
}


@pytest.mark.parametrize("family", [PACKAGE, FIELDS], ids=["diagnosis", "restoration"])
def test_mlflow_loads_the_champion_and_gives_the_raw_outputs(
    family: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = Registry(verify_package(family).name)
    champion = promote(family, lambda *_: None, registry).champion
    monkeypatch.setenv("MLFLOW_TRACKING_URI", registry.server.uri)
    model = mlflow.pyfunc.load_model(f"models:/{registry.name}@champion")
    session = onnxruntime.InferenceSession(family / "model.onnx", providers=["CPUExecutionProvider"])
    random = np.random.default_rng(0)
    given = {
        name: random.normal(size=value.shape).astype(value.dtype) if value.dtype == np.float32 else value
        for name, value in model.input_example.items()
    }
    expected = dict(zip([out.name for out in session.get_outputs()], session.run(None, given), strict=True))
    answered = model.predict(given)
    assert list(answered) == [spec.name for spec in model.metadata.signature.outputs.inputs] == list(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(answered[name], values)
        assert np.isfinite(values).all()
    # What MLflow wrote while it loaded is beside the package, which is whole.
    assert sha256_folder(registry.folder(champion)) == sha256_folder(family)
    assert verify_package(registry.folder(champion)) == verify_package(family)
    if family == PACKAGE:
        assert {spec.name: (spec.shape, str(spec.type)) for spec in model.metadata.signature.inputs.inputs} == INPUTS
