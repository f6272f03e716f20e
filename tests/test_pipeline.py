"""The stages one after the other: what each leaves for the next, and that the same input gives the same bytes."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__  # type: ignore[attr-defined]

from plumbline.core.files import read_json, sha256_folder
from plumbline.export.stage import ARTIFACTS
from plumbline.prepare.features.shards import load_shards
from tests.tiny import STAGES, run_cli, run_process

TRAINED = {"model.safetensors", "model.json", "metrics.json", "history.csv", "record.json"}
OUTPUTS = {
    "simulate": {"cities", "showcase"},
    "ingest": {"c_band", "x_band"},
    "prepare": {"train", "tune", "calibrate", "test", "motion", "audit"},
    "train": TRAINED,
    "compress": {*TRAINED, "sensitivity.csv", "sensitivity.svg"},
    "export": {f"{name}.onnx" for name in ARTIFACTS} | {"weights.safetensors", "network.json", "quantisation.csv"},
    "validate": {
        *("metrics.json", "measured.json", "figures.json", "answers.npz", "summary", "severity.csv", "intervals.csv"),
        *("reliability.csv", "coverage.csv"),
        *("category_confusion.csv", "quadrant_confusion.csv"),
    },
    "gate": {"gate.json", "report.json", "report.html"},
    "approve": {"approval.json"},
    "package": {
        *("model.onnx", "model.fp16.onnx", "model.int8.onnx", "predictions.onnx", "vectors.json"),
        *("weights.safetensors", "network.json", "manifest.json", "MODEL_CARD.md", "reference.json"),
    },
}


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_writes_what_is_its_own_and_nothing_else(tiny, stage):
    assert {path.name for path in tiny.data(stage).iterdir()} == OUTPUTS[stage]


def test_nothing_is_left_beside_the_outputs(tiny):
    assert {path.name for path in (tiny.root / "data").iterdir()} == set(STAGES)
    assert {path.name for path in tiny.root.iterdir()} == {"params.yaml", "data", ".plumbline", "mlflow.db"}
    work = tiny.root / ".plumbline"
    assert {path.name for path in work.iterdir()} == {"checkpoints", "tensorboard", "mlruns", "runs"}
    assert not list((work / "checkpoints").iterdir())


def test_no_building_is_in_two_splits(tiny):
    seen = []
    for split in ("train", "tune", "calibrate", "test"):
        part = load_shards(tiny.data("prepare") / split)
        seen += [f"{city}/{name}" for city, name in zip(part.city, part.building_id, strict=True)]
    assert len(seen) == len(set(seen)) > 100


def test_buildings_are_accounted_for_from_the_file_to_the_split(tiny):
    audit = read_json(tiny.data("prepare") / "audit" / "audit.json")["statistics"]
    for city in ("c_band", "x_band"):
        report = read_json(tiny.data("ingest") / city / "city.json")
        kept = sum(split["cities"].get(city, 0) for split in audit["splits"].values())
        assert report["buildings"] == kept + sum(audit["cities"][city]["left_out"].values())


# A stage whose input is not there, and what its message must name.
FIRST_MISSING = {
    "ingest": "no city folder",
    "prepare": "data/ingest",
    "train": "data/prepare",
    "compress": "data/prepare",
    "export": "data/prepare",
    "validate": "data/prepare",
    "gate": "data/validate",
    "approve": "data/gate",
    "package": "data/export",
}


@pytest.mark.parametrize("stage", FIRST_MISSING)
def test_a_stage_without_its_input_says_so_and_writes_nothing(tiny, tmp_path, stage):
    project = tiny.copy(tmp_path / "project")
    ended = run_cli(stage, cwd=project)
    assert ended.code == 2, ended.err
    assert FIRST_MISSING[stage] in ended.err
    assert ended.err.count("ERROR") == 1
    assert not (project / "data" / stage).exists()


IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@b")


@pytest.mark.slow
def test_another_run_gives_the_same_bytes(tiny, tiny_fields, tmp_path, monkeypatch):
    """Between machines, outputs go by the hash of inputs: two runs that differ would give clones two models.

    The runs differ in time, in folder, and in the commit, which only the second has.
    """
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr("plumbline.fields.simulate.stage.SHOWCASE_CELLS", 64)  # as in tests/tiny_fields.py
    for number, run in enumerate((tiny, tiny_fields)):
        project = run.copy(tmp_path / f"project{number}")
        for command in ("init --quiet", "add params.yaml", "commit --quiet --message first"):
            subprocess.run(["git", *IDENTITY, *command.split()], cwd=project, check=True)
        for stage in STAGES:
            ended = run_cli(stage, cwd=project)
            assert ended.code == 0, ended.err
            assert sha256_folder(project / "data" / stage) == sha256_folder(run.data(stage)), stage


PROBE = """
import numpy, scipy.linalg, math, hashlib
x = numpy.random.default_rng(0).normal(size=(300, 300))
print([hashlib.sha256(part.tobytes()).hexdigest() for part in (numpy.exp(x), x @ x, scipy.linalg.inv(x))])
print(hashlib.sha256(repr([math.exp(v) + math.sin(9 * v) for v in x.ravel()]).encode()).hexdigest())
"""
"""Program whose output is another on another processor."""


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="emulates an x86 processor without AVX")
def test_another_processor_prepares_the_same_bytes(tiny, tiny_fields, tmp_path, monkeypatch):
    """numpy, BLAS and libm compute as without AVX2 and FMA: the last bits of results differ."""
    probe = [sys.executable, "-c", PROBE]
    native = subprocess.run(probe, capture_output=True, text=True, check=True).stdout
    older = [name for name in __cpu_dispatch__ if __cpu_features__[name]]
    monkeypatch.setenv("NPY_DISABLE_CPU_FEATURES", " ".join(older))
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Nehalem")
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX2,-FMA")
    emulated = subprocess.run(probe, capture_output=True, text=True, check=True).stdout
    if native == emulated:
        pytest.skip("this processor computes as the emulated one")
    for number, (run, cities) in enumerate({tiny: "cities", tiny_fields: "scenes"}.items()):
        project = run.copy(tmp_path / f"project{number}")
        for stage, part in (("simulate", cities), ("ingest", ""), ("prepare", "")):
            done = run_process(stage, cwd=project)
            assert done.returncode == 0, done.stderr
            assert sha256_folder(project / "data" / stage / part) == sha256_folder(run.data(stage) / part), stage
