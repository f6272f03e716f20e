"""A repository that Triton would read: as protobuf reads it, and as the model's own signature has it."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

from plumbline.core.errors import InputError
from plumbline.core.files import sha256_file
from plumbline.export.package import verify_package
from plumbline.export.runtime import OnnxModel
from plumbline.export.triton import MARK, TritonSettings, model_names, onnx_tensors, write_repository
from plumbline.prepare.features.shards import load_shards
from tests.export.model_config import ENUMS, parse
from tests.tiny import run_cli

NETWORKS = {"plumbline": "model.onnx", "plumbline_fp16": "model.fp16.onnx", "plumbline_int8": "model.int8.onnx"}
MODELS = {**NETWORKS, "plumbline_predictions": "predictions.onnx"}
OF_ORT = {"tensor(float)": "TYPE_FP32", "tensor(bool)": "TYPE_BOOL", "tensor(int32)": "TYPE_INT32"}


@pytest.fixture(scope="module")
def repository(tiny, tmp_path_factory):
    out = tmp_path_factory.mktemp("triton") / "models"
    assert write_repository(tiny.data("package"), out, TritonSettings()) == [
        "plumbline_fp16",
        "plumbline_int8",
        "plumbline",
        "plumbline_predictions",
    ]
    return out


def read(folder, name="plumbline"):
    return parse((folder / name / "config.pbtxt").read_text())


@pytest.mark.parametrize("name", MODELS)
def test_the_config_is_the_signature_that_onnx_runtime_sees(tiny, repository, name):
    message = read(repository, name)
    session = onnxruntime.InferenceSession(repository / name / "1" / "model.onnx", providers=["CPUExecutionProvider"])
    assert (message.name, message.backend) == (name, "onnxruntime")
    for said, found in ((message.input, session.get_inputs()), (message.output, session.get_outputs())):
        assert [one.name for one in said] == [one.name for one in found]
        for ours, theirs in zip(said, found, strict=True):
            assert ours.data_type == ENUMS["DataType"][OF_ORT[theirs.type]]
            assert theirs.shape[0] == "batch"
            dims = [-1 if isinstance(size, str) else size for size in theirs.shape[1:]]
            assert list(ours.dims) == (dims or [1])
            assert ours.HasField("reshape") == (not dims)
            assert list(ours.reshape.shape) == []
    kinds = {one.name: (one.data_type, list(one.dims)) for one in message.input}
    assert kinds["mask"] == (ENUMS["DataType"]["TYPE_BOOL"], [-1])
    assert kinds["slope"][1][0] == -1


def test_a_request_as_the_config_describes_it_gets_the_answers_of_the_package(tiny, repository):
    """What Triton does between request and model: the batch goes before the dims, and a reshape takes its place."""
    message = read(repository)
    inputs = load_shards(tiny.data("prepare") / "test").pad(np.arange(3))
    session = onnxruntime.InferenceSession(repository / "plumbline/1/model.onnx", providers=["CPUExecutionProvider"])
    for one in message.input:
        sent = inputs[one.name]
        assert sent.ndim == 1 + len(one.dims)
        assert all(want in (-1, got) for want, got in zip(one.dims, sent.shape[1:], strict=True))
    answers = session.run([one.name for one in message.output], inputs)
    expected = OnnxModel(tiny.data("package") / "model.onnx").run(inputs)
    for one, value, own in zip(message.output, answers, expected, strict=True):
        given = list(one.reshape.shape) if one.HasField("reshape") else list(one.dims)
        assert list(value.shape) == [3, *given]
        np.testing.assert_array_equal(value.reshape(3, *one.dims).ravel(), own.ravel())


def test_files_are_those_of_the_package_and_their_version_is_told(tiny, repository):
    manifest = verify_package(tiny.data("package"))
    assert sorted(path.name for path in repository.iterdir()) == sorted([*MODELS, MARK])
    for name, file in MODELS.items():
        assert [path.name for path in (repository / name).iterdir() if path.is_dir()] == ["1"]
        message = read(repository, name)
        about = {entry.key: entry.value.string_value for entry in message.parameters}
        assert about["plumbline_version"] == manifest.version
        assert about["plumbline_artifact"] == file
        assert about["plumbline_sha256"] == sha256_file(repository / name / "1" / "model.onnx")
        assert about["plumbline_sha256"] == manifest.files[file].sha256
        assert list(message.version_policy.specific.versions) == [1]
        assert message.default_model_filename == "model.onnx"


def test_settings_are_written_as_they_were_given(tiny, tmp_path):
    out = tmp_path / "models"
    words = ("--max-batch-size", 6, "--max-queue-delay-us", 70, "--instances", 3, "--threads", 2)
    ended = run_cli("triton", tiny.data("package"), "--output", out, *words, cwd=tmp_path)
    assert ended.code == 0, ended.err
    message = read(out)
    assert message.max_batch_size == 6
    assert list(message.dynamic_batching.preferred_batch_size) == [1, 6]
    assert message.dynamic_batching.max_queue_delay_microseconds == 70
    (group,) = message.instance_group
    assert (group.count, group.kind) == (3, ENUMS["Kind"]["KIND_CPU"])
    about = {entry.key: entry.value.string_value for entry in message.parameters}
    assert about["intra_op_thread_count"] == "2"
    assert not message.optimization.HasField("execution_accelerators")


def test_on_a_gpu_tensorrt_is_taken_only_where_asked_for(tiny, tmp_path):
    for words, wanted in (((), []), (("--tensorrt",), ["tensorrt"])):
        out = tmp_path / "models"
        assert run_cli("triton", tiny.data("package"), "--output", out, "--gpu", *words, cwd=tmp_path).code == 0
        message = read(out)
        assert message.instance_group[0].kind == ENUMS["Kind"]["KIND_GPU"]
        used = message.optimization.execution_accelerators.gpu_execution_accelerator
        assert [one.name for one in used] == wanted
        assert "intra_op_thread_count" not in {entry.key for entry in message.parameters}


@pytest.mark.parametrize(("words", "said"), [(("--tensorrt",), "--tensorrt"), (("--gpu", "--threads", 2), "--threads")])
def test_settings_that_contradict_each_other_are_refused(tiny, tmp_path, words, said):
    ended = run_cli("triton", tiny.data("package"), "--output", "models", *words, cwd=tmp_path)
    assert ended.code == 2
    assert said in ended.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../elsewhere", "", ".hidden", "a/b", "a b"])
def test_a_name_that_is_no_folder_is_refused(tiny, name):
    manifest = verify_package(tiny.data("package")).model_copy(update={"name": name})
    with pytest.raises(InputError, match="cannot be the name"):
        model_names(manifest)


def test_our_own_repository_is_replaced_and_nothing_else(tiny, tmp_path):
    package, out = tiny.data("package"), tmp_path / "models"
    out.mkdir()
    write_repository(package, out, TritonSettings())  # an empty folder may be filled
    write_repository(package, out, TritonSettings(max_batch_size=8))
    assert read(out).max_batch_size == 8
    for name in ("mine/config.pbtxt", "plumbline/config.pbtxt", MARK):
        (out / name).parent.mkdir(exist_ok=True)
        before = (out / name).read_bytes() if (out / name).exists() else None
        (out / name).write_text("{}")
        with pytest.raises(InputError, match="not written by this command, or changed since"):
            write_repository(package, out, TritonSettings())
        (out / name).write_bytes(before) if before else (out / name).unlink()
    written = (out / MARK).read_bytes()
    for content in ("[]", '"x"', '{"files": []}'):
        (out / MARK).write_text(content)
        with pytest.raises(InputError, match=rf"{MARK}: not the list of files that this command writes"):
            write_repository(package, out, TritonSettings())
    (out / MARK).write_bytes(written)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file"):
        write_repository(package, tmp_path / "file", TritonSettings())


def test_a_model_without_a_free_batch_is_refused(tiny, tmp_path):
    model = onnx.load(tiny.data("package") / "model.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 3
    onnx.save(model, tmp_path / "fixed.onnx")
    with pytest.raises(InputError, match=r"fixed\.onnx: distance: its first dimension is not `batch`"):
        onnx_tensors(tmp_path / "fixed.onnx")
