"""A benchmark names what is there, measures what it names, and says which artifact to take."""

from __future__ import annotations

import json
import math

import numpy as np
import onnx
import pytest
from rich.console import Console

from plumbline.core.errors import InputError
from plumbline.core.files import read_json
from plumbline.export.package import MODELS, verify_package, write_package
from plumbline.export.runtime import OnnxModel
from plumbline.export.weights import load_network, read_trained
from plumbline.prepare.features.shards import load_shards
from plumbline.validate import bench as measured
from plumbline.validate.bench import (
    CPU,
    LENGTHS,
    Row,
    Runtime,
    advice,
    artifacts,
    bench,
    bench_document,
    bench_table,
    chosen,
    prepared_inputs,
    random_inputs,
    runtimes,
    thread_counts,
)
from plumbline.validate.metrics import accuracy_figures
from plumbline.validate.stage import as_judged
from tests.tiny import run_cli

ONE = Runtime("ONNX Runtime CPU, 1 thread", CPU, 1)
GPU = Runtime("ONNX Runtime CUDA", "CUDAExecutionProvider", 1)
QUICK = ("--rounds", 1, "--batch", 2, "--batch", 1)
MACHINE = {"processor": "a [bold]chip[/bold]", "cores": 2, "memory_bytes": 1, "gpus": []}


@pytest.fixture
def quick(monkeypatch):
    """Turns that are over at once, on a machine of one core."""
    monkeypatch.setattr("plumbline.validate.bench.cores", lambda: 1)
    monkeypatch.setattr(measured, "TURN_SECONDS", 0.002)
    monkeypatch.setattr(measured, "MIXED", 2)


@pytest.fixture(scope="module")
def reference(tiny):
    return load_network(tiny.data("package"))


def row(artifact, latency, rate, runtime="ONNX Runtime CPU, 1 thread", trouble=""):
    if trouble:
        return Row(artifact, runtime, trouble=trouble)
    return Row(artifact, runtime, {"latency_p50_ms": latency}, {1: rate / 2, 64: rate})


def test_every_artifact_meets_every_runtime_and_has_its_figures(tiny, quick, reference):
    package = tiny.data("package")
    manifest, inputs = verify_package(package), prepared_inputs(tiny.data("prepare"))
    rows = bench(package, manifest, reference, inputs, batches=(1, 4), rounds=1)
    files = ["weights.safetensors", *MODELS]
    assert list(dict.fromkeys(one.artifact for one in rows)) == files
    assert len(rows) == len(thread_counts()) + len(MODELS) * len(runtimes())
    test = load_shards(tiny.data("prepare") / "test")
    for one in rows:
        assert one.figures["size_bytes"] == (package / one.artifact).stat().st_size
        assert 0 < one.figures["weight_bytes"] < one.figures["size_bytes"]
        assert 0 < one.figures["latency_p50_ms"] <= one.figures["latency_p99_ms"]
        assert set(one.buildings_per_second) == {1, 4}
        assert min(one.buildings_per_second.values()) > 0
        if one.artifact.endswith(".onnx"):
            model = OnnxModel(package / one.artifact)
            answers = as_judged(model.answer(test), model.category_share, test)
            expected = accuracy_figures(answers, np.asarray(test.quadrant), np.asarray(test.severity))
            assert one.figures["severity_mae"] == pytest.approx(expected["severity_mae"], abs=1e-5)
    parity = {one.artifact: one.figures["parity_severity_permille"] for one in rows}
    assert rows[0].figures["parity_probability"] == 0
    assert parity["model.onnx"] < 1e-4 < parity["model.int8.onnx"]


def with_file(tiny, folder, name, path):
    """The tiny run's package with one more file."""
    source = tiny.data("package")
    manifest = read_json(source / "manifest.json")
    files = {file: source / file for file in manifest["files"] if file != "MODEL_CARD.md"}
    about = {key: manifest[key] for key in ("name", "default_model", "prepare", "hashes", "metrics", "gate", "records")}
    return write_package({**files, name: path}, about, "A card.", folder)


def test_an_artifact_that_was_added_appears_by_itself(tiny, tmp_path):
    added = with_file(tiny, tmp_path / "package", "model.fp16.onnx", tiny.data("package") / "model.onnx")
    assert artifacts(added) == ["model.onnx", "model.fp16.onnx", "model.int8.onnx"]


def test_an_artifact_that_opens_and_does_not_run_is_told_of(tiny, quick, reference, tmp_path):
    """One with half precision at its inputs, which are given in single."""
    model = onnx.load(tiny.data("package") / "model.onnx")
    (geometry,) = (value for value in model.graph.input if value.name == "geometry")
    geometry.name, geometry.type.tensor_type.elem_type = "half", onnx.TensorProto.FLOAT16
    model.graph.node.insert(0, onnx.helper.make_node("Cast", ["half"], ["geometry"], to=onnx.TensorProto.FLOAT))
    onnx.save(model, tmp_path / "half.onnx")
    manifest = with_file(tiny, tmp_path / "package", "model.fp16.onnx", tmp_path / "half.onnx")
    inputs = prepared_inputs(tiny.data("prepare"))
    rows = bench(tmp_path / "package", manifest, reference, inputs, batches=(1,), rounds=1)
    trouble = {one.artifact for one in rows if one.trouble}
    assert trouble == {"model.fp16.onnx"}
    assert all("latency_p50_ms" in one.figures for one in rows if not one.trouble)


def test_a_device_that_does_not_start_is_told_of_and_the_others_are_measured(tiny, quick, reference, monkeypatch):
    """ONNX Runtime takes the CPU without a word that a program could read."""
    took_cpu = pytest.raises(InputError, match="CUDAExecutionProvider did not start, and ONNX Runtime took CPU")
    with pytest.warns(UserWarning, match="CUDAExecutionProvider"), took_cpu:
        OnnxModel(tiny.data("package") / "model.onnx", GPU.provider)
    monkeypatch.setattr(measured, "runtimes", lambda: [ONE, GPU])
    monkeypatch.setattr("plumbline.validate.bench.RANDOM_BUILDINGS", 12)
    package = tiny.data("package")
    inputs = random_inputs(read_trained(package))
    with pytest.warns(UserWarning, match="CUDAExecutionProvider"):
        rows = bench(package, verify_package(package), reference, inputs, batches=(2,), rounds=1)
    assert [bool(one.trouble) for one in rows if one.artifact == "model.onnx"] == [False, True]
    assert not any(one.figures for one in rows if one.trouble)
    assert all("severity_mae" not in one.figures for one in rows)  # random inputs have no truth


@pytest.mark.parametrize(("cores", "counts"), [(1, [1]), (2, [1, 2]), (8, [1, 2, 8])])
def test_one_two_and_all_cores_are_measured(monkeypatch, cores, counts):
    monkeypatch.setattr("plumbline.validate.bench.cores", lambda: cores)
    assert thread_counts() == counts
    on_cpu = [one.threads for one in runtimes() if one.provider == CPU]
    assert on_cpu == counts


@pytest.mark.parametrize(
    ("latency", "rate", "said"),
    [
        (
            2.0,
            50,
            "model.int8.onnx is slower than model.onnx here (2 ms against 1 ms, 50 buildings/s against 100): "
            "prefer model.onnx on this machine.",
        ),
        (1.0, 50, "prefer model.onnx on this machine"),
        (0.5, 50, "slower than model.onnx here in batches only"),
        (2.0, 200, "slower than model.onnx here for one building only"),
        (0.5, 100, "model.int8.onnx is faster than model.onnx here"),
        (1.02, 99, "as fast as model.onnx here"),
    ],
)
def test_advice_compares_with_the_default(latency, rate, said):
    rows = [row("weights.safetensors", 0.01, 9999), row("model.onnx", 1.0, 100), row("model.int8.onnx", latency, rate)]
    assert said in advice(rows, "model.onnx")[-1]


def test_advice_names_the_best_of_all_runtimes_and_not_torch():
    rows = [
        row("weights.safetensors", 0.01, 9999),
        row("model.onnx", 3.0, 100, "slow"),
        row("model.onnx", 1.0, 70, "fast"),
        row("model.int8.onnx", 0, 0, trouble="no"),
    ]
    assert advice(rows, "model.onnx") == [
        "Fastest for one building: model.onnx under fast, 1 ms.",
        "Most buildings a second: model.onnx under slow, 100.",
    ]
    assert advice([row("model.onnx", 0, 0, trouble="no")], "model.onnx") == [
        "No artifact could be run on this machine."
    ]


def test_the_document_is_strict_json_and_the_table_has_every_row(tiny):
    rows = [row("model.onnx", 1.0, 100), row("model.int8.onnx", 0, 0, trouble="it is broken")]
    rows[0].figures["parity_probability"] = math.nan
    manifest, inputs = verify_package(tiny.data("package")), prepared_inputs(tiny.data("prepare"))
    content = bench_document(rows, manifest, inputs, MACHINE, ["one"])
    read = json.loads(json.dumps(content, allow_nan=False))
    assert read["package"]["version"] == manifest.version
    assert read["rows"][0]["buildings_per_second"] == {"1": 50.0, "64": 100.0}
    assert "parity_probability" not in read["rows"][0]["figures"]
    assert read["rows"][1]["trouble"] == "it is broken"
    assert {"python", "torch", "onnxruntime"} <= set(read["versions"])
    assert read["inputs"]["buildings"] == len(inputs.sequences)
    shown = Console(width=200)
    with shown.capture() as capture:
        shown.print(bench_table(rows, manifest, inputs, MACHINE))
    said = capture.get()
    assert "model.int8.onnx" in said
    assert "did not run" in said
    assert "a [bold]chip[/bold], 2 cores" in said


def test_random_inputs_are_those_of_the_seed_and_look_like_the_training_data(tiny, reference):
    trained = read_trained(tiny.data("package"))
    first, again = random_inputs(trained).sequences, random_inputs(trained).sequences
    np.testing.assert_array_equal(first.slope, again.slope)
    assert set(first.length.tolist()) == {min(n, reference.network.spec.max_length) for n in LENGTHS}
    mean, deviation = reference.slope_mean.numpy(), reference.slope_sd.numpy()
    wanted = 5 / np.sqrt(len(first.slope))
    assert (np.abs(first.slope.mean(0) - mean) / deviation < wanted).all()
    assert np.isfinite(first.geometry).all()
    assert not random_inputs(trained).labelled


def test_a_stage_folder_gives_its_test_split_and_a_split_itself(tiny):
    by_stage, by_split = (prepared_inputs(tiny.data("prepare") / part) for part in ("", "test"))
    assert by_stage == by_split or len(by_stage.sequences) == len(by_split.sequences)
    assert by_stage.labelled
    assert len(prepared_inputs(tiny.data("prepare") / "train").sequences) > len(by_stage.sequences)


def test_more_buildings_than_needed_are_drawn_from_and_none_is_refused(tiny, monkeypatch):
    shards = load_shards(tiny.data("prepare") / "train")
    monkeypatch.setattr("plumbline.validate.bench.BUILDINGS", 10)
    drawn = chosen(shards, "here")
    assert len(set(drawn.sequences.building_id)) == 10
    assert f"10 of {len(shards)} buildings" in drawn.source
    with pytest.raises(InputError, match="here: no building"):
        chosen(shards.take(np.zeros(0, dtype=int)), "here")


def test_the_command_prints_the_table_and_writes_the_document(tiny, quick, tmp_path):
    out = tmp_path / "bench.json"
    ended = run_cli("bench", "data/package", *QUICK, "--json", out, cwd=tiny.root)
    assert ended.code == 0, ended.err
    assert "model.int8.onnx" in ended.out
    assert "quadrant" in ended.out  # of data/prepare/test, which has labels
    content = read_json(out)
    assert content["inputs"]["labelled"]
    assert all(list(one["buildings_per_second"]) == ["1", "2"] for one in content["rows"])
    assert [said in ended.out for said in content["advice"]] == [True] * len(content["advice"])


def test_own_points_and_labels_are_measured_on(tiny, quick, tmp_path):
    given = [word for path in tiny.products() for word in ("--points", path)]
    labels = tiny.data("simulate") / "showcase" / "truth.csv"
    given += ["--buildings", tiny.footprints, "--labels", labels, *QUICK, "--json", tmp_path / "bench.json"]
    ended = run_cli("bench", tiny.data("package"), *given, cwd=tmp_path)
    assert ended.code == 0, ended.err
    content = read_json(tmp_path / "bench.json")
    assert content["inputs"]["labelled"]
    assert "severity_mae" in content["rows"][0]["figures"]
    assert f"{tiny.footprints} with {labels}" in content["inputs"]["source"]


def test_labels_of_buildings_that_are_not_there_are_refused_and_blanks_overlooked(tiny, quick, tmp_path):
    given = [word for path in tiny.products() for word in ("--points", path)]
    given += ["--buildings", tiny.footprints, *QUICK]
    lines = (tiny.data("simulate") / "showcase" / "truth.csv").read_text().splitlines()
    labels = tmp_path / "labels.csv"
    labels.write_text("\n".join([lines[0], *(f" {line}" for line in lines[1:])]) + "\n")
    ended = run_cli("bench", tiny.data("package"), *given, "--labels", labels, cwd=tmp_path)
    assert ended.code == 0, ended.err
    labels.write_text("\n".join([*lines, "nobody,1.2,NE,,,,"]) + "\n")
    ended = run_cli("bench", tiny.data("package"), *given, "--labels", labels, cwd=tmp_path)
    assert ended.code == 2
    assert f"{labels}: not in {tiny.footprints}: 1 of the labelled buildings ('nobody')" in ended.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--prepared", "none"], "--prepared none: no such folder"),
        (["--prepared", "data/package"], "no shard in it"),
        (["--points", "a.csv"], "--points was given and --buildings was not"),
        (["--buildings", "f.geojson"], "--buildings was given and --points was not"),
        (["--labels", "l.csv"], "--labels: they belong to --points"),
        (["--format", "egms"], "--format: it says how --points and --buildings are read"),
        (["--params", "params.yaml"], "--params: it says how --points and --buildings are read"),
        (["--prepared", "data/prepare", "--points", "a.csv"], "--prepared goes with neither"),
        (["--json", "data/package/bench.json"], "is inside the model package"),
        (["--json", "none/bench.json"], "must be a file in a folder that is there"),
        (["--json", "data"], "must be a file in a folder that is there"),
    ],
)
def test_what_cannot_be_measured_is_said_at_once(tiny, words, said):
    ended = run_cli("bench", "data/package", *words, cwd=tiny.root)
    assert ended.code == 2
    assert said in ended.err


def test_buildings_longer_than_the_package_takes_are_refused(tiny, reference):
    package = tiny.data("package")
    manifest = verify_package(package)
    short = manifest.model_copy(update={"prepare": manifest.prepare.model_copy(update={"max_points": 6})})
    with pytest.raises(InputError, match=r"scatterers, and the package takes 6 \(prepare\.max_points\)"):
        bench(package, short, reference, prepared_inputs(tiny.data("prepare")))


def test_a_building_without_numbers_is_left_out_and_told_of(tiny, caplog):
    shards = load_shards(tiny.data("prepare") / "test")
    sequences = shards.take(np.arange(len(shards)))
    whole = chosen(sequences, "a city")
    sequences.slope[sequences.offsets[3], 2] = np.nan
    sequences.geometry[5, 0] = np.inf
    found = chosen(sequences, "a city")
    assert len(found.sequences) == len(whole.sequences) - 2
    assert "2 buildings with features that are no numbers" in caplog.text
    sequences.geometry[:] = np.nan
    with pytest.raises(InputError, match="nothing can be measured"):
        chosen(sequences, "a city")
