"""Tensors in, answers out, by the Open Inference Protocol."""

import gzip
import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.export.package import open_package
from plumbline.prepare.buildings import prepare_buildings
from plumbline.service.inference import JSON_LENGTH
from plumbline.service.settings import ServiceLimits
from plumbline.sources.city.in_memory import read_tracks
from plumbline.sources.footprints.buildings import read_buildings
from tests.service.served import files, is_problem, process, service

pytest.importorskip("fastapi")


@pytest.fixture(scope="module")
def served(package, fields_package, tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    with service(folder, package, fields_package, ServiceLimits(infer_mb=1)) as client:
        yield client


@pytest.fixture(scope="module")
def batch(city, package):
    """Five prepared buildings, and what the model says of them."""
    manifest, model = open_package(package)
    inputs = read_prepared(city, manifest).sequences.pad(np.arange(5))
    return manifest, inputs, model.run(inputs)._asdict()


def read_prepared(city, manifest):
    tracks = read_tracks(city.products())
    return prepare_buildings(tracks, read_buildings(city.footprints, tracks[0].crs), manifest.prepare)


def as_json(inputs, **more):
    kinds = {"float32": "FP32", "bool": "BOOL"}
    tensors = [
        {"name": name, "shape": list(v.shape), "datatype": kinds[str(v.dtype)], "data": v.ravel().tolist()}
        for name, v in inputs.items()
    ]
    return {"inputs": tensors, **more}


def as_binary(inputs, **more):
    asked, parts = as_json(inputs, **more), []
    for tensor, values in zip(asked["inputs"], inputs.values(), strict=True):
        del tensor["data"]
        parts.append(np.ascontiguousarray(values).tobytes())
        tensor["parameters"] = {"binary_data_size": len(parts[-1])}
    head = json.dumps(asked).encode()
    return head + b"".join(parts), {JSON_LENGTH: str(len(head))}


def test_json_and_binary_tensors_have_the_models_answers(served, batch):
    manifest, inputs, expected = batch
    where = f"/v2/models/{manifest.name}/infer"
    told = served.post(where, json=as_json(inputs, id="a7"))
    assert told.status_code == 200, told.text
    content = told.json()
    assert (content["id"], content["model_version"]) == ("a7", manifest.version)
    assert [one["name"] for one in content["outputs"]] == list(expected)
    for one in content["outputs"]:
        found = np.array(one["data"], np.float32).reshape(one["shape"])
        np.testing.assert_allclose(found, expected[one["name"]], rtol=1e-6)
    packed = gzip.compress(json.dumps(as_json(inputs, id="a7")).encode())
    headers = {"content-encoding": "gzip", "content-type": "application/json"}
    assert served.post(where, content=packed, headers=headers).json()["outputs"] == content["outputs"]
    body, headers = as_binary(inputs, parameters={"binary_data_output": True})
    told = served.post(f"/v2/models/{manifest.name}/versions/{manifest.version}/infer", content=body, headers=headers)
    size = int(told.headers[JSON_LENGTH])
    rest = memoryview(told.content)[size:]
    for one in json.loads(told.content[:size])["outputs"]:
        length = one["parameters"]["binary_data_size"]
        found, rest = np.frombuffer(rest[:length], "<f4").reshape(one["shape"]), rest[length:]
        np.testing.assert_array_equal(found, expected[one["name"]])
    assert not len(rest)


def test_the_model_says_what_it_takes(served, batch):
    manifest, inputs, expected = batch
    where = f"/v2/models/{manifest.name}"
    about = served.get(where).json()
    assert about["versions"] == [manifest.version]
    assert {tensor["name"]: tensor["datatype"] for tensor in about["inputs"]}["mask"] == "BOOL"
    assert [tensor["name"] for tensor in about["outputs"]] == list(expected)
    assert served.get("/v2").json()["extensions"] == ["binary_tensor_data"]
    assert served.get(f"{where}/ready").json()["ready"] is True
    for other in ("/v2/models/other", f"{where}/versions/9"):
        assert is_problem(served.get(other), 404, "model.unknown")
    answer = served.post(f"{where}/infer", json=as_json(inputs, outputs=[{"name": "severity_permille"}])).json()
    assert [tensor["name"] for tensor in answer["outputs"]] == ["severity_permille"]


def test_what_is_not_of_the_protocol_is_refused(served, batch):
    manifest, inputs, _ = batch
    where = f"/v2/models/{manifest.name}/infer"
    good = as_json(inputs)

    def changed(**change):
        tensors = [dict(one) for one in good["inputs"]]
        tensors[0].update(change)
        return {"inputs": tensors}

    def answered(**parameters):
        return {**good, "outputs": [{"name": "severity_permille", "parameters": parameters}]}

    for content, key, place in (
        ({}, "request.invalid", "inputs"),
        ({"inputs": [3]}, "request.invalid", "inputs.0"),
        (changed(name="other"), None, "missing"),
        (changed(datatype="FP64"), "request.invalid", "datatype"),
        (changed(shape=[-1, 2]), "request.invalid", "shape"),
        (changed(shape=[5, 5]), "tensor.wrong_data", ""),
        (changed(data=["a"]), "tensor.wrong_data", ""),
        (changed(data=None), "request.invalid", "data"),
        (changed(parameters={"binary_data_size": 1 << 40}), "tensor.wrong_data", ""),
        ({**good, "outputs": [{"name": "no"}]}, "tensor.unknown_output", "'no'"),
        (answered(classification=3), "request.invalid", "classification"),
        (answered(class_count=3), "request.invalid", "class_count"),
        ({"inputs": good["inputs"][1:]}, None, "missing"),
    ):
        assert is_problem(served.post(where, json=content), 400, key, place)
    assert is_problem(served.post(where, content=b"{"), 400, "request.invalid", "JSON")
    assert is_problem(served.post(where, content=b"{}", headers={JSON_LENGTH: "9"}), 400, "tensor.json_length")
    body, headers = as_binary(inputs)
    assert is_problem(served.post(where, content=body + b"x", headers=headers), 400, "tensor.surplus_bytes", "1 bytes")
    assert is_problem(served.post(where, content=body[:-1], headers=headers), 400, "tensor.wrong_data")
    assert is_problem(served.post(where, content=b" " * 1_000_001), 413, "request.too_large", "1 MB")
    empty, headers = as_binary({name: value[:0] for name, value in inputs.items()})
    assert served.post(where, content=empty, headers=headers).json()["outputs"][1]["shape"] == [0]


def test_tensors_of_files_have_the_answers_that_predict_has(served, city, package):
    """The answer is a request for inference as it stands; no list shows the job behind it, and it leaves nothing."""
    manifest, model = open_package(package)
    told = served.post("/v1/tensors", files=files(city.products(), city.footprints))
    assert told.status_code == 200, told.text
    prepared = read_prepared(city, manifest)
    content = told.json()
    assert content["building_id"] == prepared.sequences.building_id.tolist()
    assert content["hides_damage"] == prepared.whole.hides_damage[prepared.footprint].tolist()
    known = read_buildings(city.footprints, read_tracks(city.products())[0].crs)["building_id"]
    assert set(content["left_out"]) == set(known) - set(content["building_id"])
    assert content["columns"] == {one["name"]: one["columns"] for one in manifest.inputs if "columns" in one}
    where = f"/v2/models/{content['model_name']}/versions/{content['model_version']}/infer"
    answered = served.post(where, content=told.content, headers={"content-type": "application/json"})
    assert answered.status_code == 200, answered.text
    for name, values in model.answer(prepared.sequences)._asdict().items():
        found = next(one for one in answered.json()["outputs"] if one["name"] == name)
        np.testing.assert_allclose(np.reshape(found["data"], found["shape"]), values, rtol=1e-4, atol=1e-5)
    assert served.get("/v1/jobs").json() == []


def test_tensors_of_too_many_buildings_or_of_odd_files_are_refused(city, package, fields_package, tmp_path):
    sent = files(city.products(), city.footprints)
    with service(tmp_path, package, fields_package, ServiceLimits(tensor_buildings=3)) as client:
        assert is_problem(client.post("/v1/tensors", files=sent), 422, "tensors.too_many_buildings")
        assert is_problem(client.post("/v1/tensors", files=sent[:-1]), 422, "request.invalid", "buildings")
        told = client.post("/v1/tensors", files=sent, data={"damage_rate": "0.1"})
        assert is_problem(told, 422, "request.invalid", "damage_rate")
        odd = [*sent[:-1], ("buildings", ("odd.geojson", b"{}"))]
        told = client.post("/v1/tensors", files=odd)
        assert (told.status_code, "odd.geojson: " in told.json()["detail"]) == (422, True), told.text
    assert not list((tmp_path / "jobs").iterdir())


@given(st.binary(max_size=200), st.integers(0, 200))
def test_any_bytes_are_answered(served, batch, body, length):
    answer = served.post(
        f"/v2/models/{batch[0].name}/infer",
        content=struct.pack("<i", len(body)) + body,
        headers={JSON_LENGTH: str(length)},
    )
    assert answer.status_code == 400


@pytest.mark.heavy
def test_a_public_client_is_understood(package, batch, tmp_path):
    client = pytest.importorskip("tritonclient.http")
    manifest, inputs, expected = batch
    kinds = {"float32": "FP32", "bool": "BOOL"}
    with process(tmp_path / "service", package) as (_, address):
        asking = client.InferenceServerClient(address.removeprefix("http://"))
        assert asking.is_server_live()
        assert asking.is_server_ready()
        assert asking.is_model_ready(manifest.name)
        assert asking.get_model_metadata(manifest.name)["name"] == manifest.name
        for binary in (True, False):
            given_ = []
            for name, values in inputs.items():
                one = client.InferInput(name, list(values.shape), kinds[str(values.dtype)])
                one.set_data_from_numpy(values, binary_data=binary)
                given_.append(one)
            wanted = [client.InferRequestedOutput(name, binary_data=binary) for name in expected]
            packing = "gzip" if binary else "deflate"
            found = asking.infer(
                manifest.name, given_, outputs=wanted, request_id="7", request_compression_algorithm=packing
            )
            assert found.get_response()["id"] == "7"
            for name, values in expected.items():
                np.testing.assert_allclose(found.as_numpy(name), values, rtol=1e-6)
        with pytest.raises(client.InferenceServerException, match="no such model"):
            asking.get_model_metadata("other")
        asking.close()
