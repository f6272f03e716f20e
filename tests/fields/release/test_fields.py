"""One denoising step as ONNX: as torch answers, in three sizes, in a package whole or refused."""

import shutil

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

from plumbline.core.errors import InputError
from plumbline.core.files import read_json, write_json
from plumbline.fields.model.denoiser import load_denoiser
from plumbline.fields.release.package import FieldModel, open_fields, verify_fields
from plumbline.pretrained import PACKAGE
from tests.fields.model.made import alike, answer, change_module, make_inputs
from tests.refusals import refuses
from tests.tiny import run_cli

LAST = "unet.conv_out.weight"


@pytest.fixture(scope="module")
def lively():
    """Weights by which a network that is hardly trained answers with more than nothing."""
    return {LAST: np.random.default_rng(0).normal(0, 0.2, (2, 8, 3, 3)).astype(np.float32)}


@pytest.fixture(scope="module")
def sized(tiny_fields):
    return {size: tiny_fields.data("export") / f"{size}.onnx" for size in ("float32", "fp16", "int8")}


def with_weights(path, weights, out):
    """A copy of a model with these weights."""
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        values = weights.get(tensor.name.removesuffix(".half"))
        if values is not None:
            kind = numpy_helper.to_array(tensor).dtype
            tensor.CopyFrom(numpy_helper.from_array(values.astype(kind), tensor.name))
    onnx.save(model, out)
    return FieldModel(out)


def test_any_batch_and_extent_is_answered_as_by_torch(tiny_fields, sized, lively, tmp_path):
    network = load_denoiser(tiny_fields.data("train"))
    change_module(network, lively)
    exact, halved, small = (
        with_weights(sized["float32"], lively, tmp_path / "exact.onnx"),
        with_weights(sized["fp16"], lively, tmp_path / "halved.onnx"),
        FieldModel(sized["int8"]),
    )
    assert exact.multiple == 2
    np.testing.assert_allclose(exact.alphas, network.alphas, rtol=1e-5)
    for number, shape in enumerate([(1, 16, 16), (3, 32, 16), (5, 64, 64), (2, 10, 14)]):
        given = alike(make_inputs(network, *shape, seed=number))
        with torch.no_grad():
            expected = network(*given).numpy()
        assert expected.std() > 0.05
        np.testing.assert_allclose(answer(exact, given), expected, atol=2e-5)
        np.testing.assert_allclose(answer(halved, given), expected, atol=0.02)
        assert np.isfinite(answer(small, given)).all()
        assert answer(small, given).shape == expected.shape


def test_smaller_files_hold_smaller_weights(sized):
    halved, small = onnx.load(sized["fp16"]), onnx.load(sized["int8"])
    for tensor in halved.graph.initializer:
        values = numpy_helper.to_array(tensor)
        assert values.dtype != np.float32 or values.size < 64
    kinds = [numpy_helper.to_array(tensor).dtype for tensor in small.graph.initializer]
    assert kinds.count(np.dtype(np.int8)) > 10
    names = {tensor.name for tensor in onnx.load(sized["float32"]).graph.initializer}
    assert {LAST, "unet.conv_in.weight", "unet.mid_block.resnets.0.conv1.weight"} <= names


def test_what_is_no_denoiser_is_refused(sized, tmp_path):
    path = tmp_path / "other.onnx"
    with refuses("network.unreadable", path):
        FieldModel(path)
    path.write_bytes(b"no model")
    with refuses("network.unreadable", path):
        FieldModel(path)
    with refuses("network.unreadable", "model.onnx"):
        FieldModel(PACKAGE / "model.onnx")  # of the other family
    model = onnx.load(sized["float32"])
    (spec,) = [item for item in model.metadata_props if item.key == "spec"]
    spec.value = spec.value.replace('"residual_west"', '"residual_north"')
    onnx.save(model, path)
    with refuses("network.other_conditions", path):
        FieldModel(path)


def test_packages_that_are_not_whole_are_refused(tiny_fields, tmp_path):
    manifest = verify_fields(tiny_fields.package)
    assert manifest.family == "restoration"
    assert {"model.onnx", "model.int8.onnx", "spread.json", "adapters/noise/adapter_model.safetensors"} <= set(
        manifest.files
    )
    changed, other = (shutil.copytree(tiny_fields.package, tmp_path / name) for name in ("changed", "other"))
    with (changed / "adapters" / "noise" / "adapter_model.safetensors").open("ab") as stream:
        stream.write(b" ")
    with pytest.raises(InputError, match=r"adapter_model\.safetensors: changed"):
        open_fields(changed)
    content = read_json(other / "manifest.json")
    write_json(other / "manifest.json", {key: value for key, value in content.items() if key != "family"})
    with refuses("package.other_family", other, "diagnosis"):
        open_fields(other)


def test_commands_refuse_packages_of_the_other_family(tiny_fields, tmp_path):
    points = sorted((tiny_fields.data("simulate") / "showcase").glob("*.csv"))
    (tmp_path / "houses.geojson").write_text("{}")
    predict = ("predict", "--points", points[0], "--buildings", "houses.geojson", "--output", "a.csv")
    ended = run_cli(*predict, "--model", tiny_fields.package, cwd=tmp_path)
    assert ended.code == 2
    assert "restoration" in ended.err
    ended = run_cli("restore", "--points", points[0], "--model", PACKAGE, "--output", "a.tif", cwd=tmp_path)
    assert ended.code == 2
    assert "a package of diagnosis" in ended.err
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(".")) == ["houses.geojson"]
