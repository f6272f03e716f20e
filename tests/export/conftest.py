"""The pruned network of the shared run, and what it is asked about."""

import pytest

from plumbline.export.runtime import OnnxModel
from plumbline.prepare.features.shards import load_shards


@pytest.fixture(scope="module")
def model(tiny):
    return OnnxModel(tiny.data("export") / "pruned.onnx")


@pytest.fixture(scope="module")
def data(tiny):
    return load_shards(tiny.data("prepare") / "test")
