"""The model package: whole or refused, the same content the same version, and usable without Plumbline."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plumbline.core.errors import InputError
from plumbline.core.files import read_json
from plumbline.export.package import MANIFEST, MODELS, open_package, verify_package, version_of, write_package
from plumbline.export.runtime import OnnxModel
from plumbline.prepare.features.definition import GEOMETRY, PREPARATION, names
from plumbline.prepare.features.shards import load_shards
from tests.refusals import refuses, warned, warning_keys

ROOT = Path(__file__).parents[2]
FILES = (
    "MODEL_CARD.md",
    "manifest.json",
    "model.fp16.onnx",
    "model.int8.onnx",
    "model.onnx",
    "network.json",
    "predictions.onnx",
    "reference.json",
    "vectors.json",
    "weights.safetensors",
)
ABOUT = ("name", "default_model", "category_share", "prepare", "hashes", "metrics", "gate", "records")


@pytest.fixture
def package(tiny, tmp_path):
    """A copy of the tiny run's package, to be harmed."""
    return shutil.copytree(tiny.data("package"), tmp_path / "package")


def again(tiny, out, card=None, **changed):
    """Package the same content, or with something `changed`, once more."""
    source = tiny.data("package")
    manifest = read_json(source / MANIFEST)
    files = {name: source / name for name in manifest["files"] if name != "MODEL_CARD.md"}
    about = {**{key: manifest[key] for key in ABOUT}, **changed}
    return write_package(files, about, card or (source / "MODEL_CARD.md").read_text(encoding="utf-8"), out)


def test_it_holds_what_the_contract_lists(tiny):
    assert sorted(path.name for path in tiny.data("package").iterdir()) == sorted(FILES)
    manifest = verify_package(tiny.data("package"))
    assert sorted(manifest.files) == sorted(set(FILES) - {MANIFEST})
    assert [column["name"] for column in manifest.inputs[2]["columns"]] == names(GEOMETRY)
    assert [output["name"] for output in manifest.outputs][:2] == ["quadrant_probability", "severity_permille"]
    assert manifest.quadrants == ["NE", "NW", "SW", "SE"]
    assert manifest.gate["verdict"] == "pass"
    assert set(manifest.hashes) == {"data", "test_data", "code", "params"}


def test_the_same_content_has_the_same_version(tiny, tmp_path):
    first = verify_package(tiny.data("package"))
    second = again(tiny, tmp_path / "elsewhere")
    assert second == first
    assert (tmp_path / "elsewhere" / MANIFEST).read_bytes() == (tiny.data("package") / MANIFEST).read_bytes()


def test_other_content_has_another_version(tiny, tmp_path):
    first = verify_package(tiny.data("package"))
    versions = {
        first.version,
        again(tiny, tmp_path / "a", name="another").version,
        again(tiny, tmp_path / "b", hashes={**first.hashes, "params": "0" * 64}).version,
        again(tiny, tmp_path / "c", prepare={**first.prepare.model_dump(), "min_points": 6}).version,
    }
    assert len(versions) == 4


def test_the_same_model_measured_again_keeps_its_version_and_other_evidence_is_known(tiny, tmp_path):
    """Times differ in every run: they must not make a model that was rolled back a new one."""
    first = verify_package(tiny.data("package"))
    slower = {name: {**one, "size_bytes": 99.0} for name, one in first.metrics.items()}
    others = [
        again(tiny, tmp_path / "a", card="another card"),
        again(tiny, tmp_path / "b", metrics=slower),
        again(tiny, tmp_path / "c", gate={**first.gate, "verdict": "fail"}),
        again(tiny, tmp_path / "d", records={}),
    ]
    assert {one.version for one in others} == {first.version}
    assert len({first.evidence, *(one.evidence for one in others)}) == 5


@given(st.integers(0, 10**9), st.sampled_from(["{:012d}", "{:06d}e99999", "1e{:010d}", "{:x}"]))
@example(777267, "{:06d}e60777")
def test_no_version_is_read_as_a_number(number, form):
    """By pandas, that is; a spreadsheet takes the same for numbers."""

    def read(text):
        return pd.read_csv(io.StringIO(f"version\n{text}\n"))["version"][0]

    begin = form.format(number)
    digest = (begin + hashlib.sha256(begin.encode()).hexdigest())[:64]
    version = version_of(digest)
    assert version in digest
    assert len(version) == 12
    assert read(version) == version
    assert (version == digest[:12]) == (read(digest[:12]) == digest[:12])


@pytest.mark.parametrize("name", FILES)
def test_one_changed_byte_in_any_file_is_found(package, name):
    content = bytearray((package / name).read_bytes())
    content[len(content) // 3] ^= 1
    (package / name).write_bytes(content)
    with pytest.raises(InputError) as refused:
        open_package(package)
    # A byte of a hash in the manifest speaks of the file whose hash it is.
    assert str(package if name == "manifest.json" else package / name) in str(refused.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["metrics"]["int8"].update(severity_mae=0.0),
        lambda content: content["gate"].update(verdict="fail"),
        lambda content: content["metrics"].update(more=float("nan")),
        lambda content: content.update(version="0" * 12),
        lambda content: content["prepare"].update(min_points=3),
        lambda content: content.update(evidence="0" * 64),
    ],
    ids=["a figure", "the verdict", "a NaN", "the version", "how to prepare", "its evidence"],
)
def test_a_manifest_that_was_edited_well_is_found_too(package, change):
    content = read_json(package / MANIFEST)
    change(content)
    (package / MANIFEST).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    with refuses("package.changed_manifest", MANIFEST):
        verify_package(package)


@pytest.mark.parametrize("content", ["{}", "[]", "null", "{", "{} {}", '{"format": 3}'])
def test_a_manifest_that_is_none_is_refused(package, content):
    (package / MANIFEST).write_text(content)
    with pytest.raises(InputError, match=MANIFEST):
        verify_package(package)


HARMED = {
    "no manifest": (lambda package: (package / MANIFEST).unlink(), "no_manifest", MANIFEST),
    "no model": (lambda package: (package / "model.onnx").unlink(), "missing_file", "model.onnx"),
    "a file more": (lambda package: (package / ".hidden").touch(), "unlisted_file", ".hidden"),
    "a folder more": (lambda p: shutil.copytree(p, p / "more"), "unlisted_file", "more/MODEL_CARD.md"),
}


@pytest.mark.parametrize("harm", HARMED)
def test_files_that_came_or_went_are_found(package, harm):
    change, problem, name = HARMED[harm]
    change(package)
    with refuses(f"package.{problem}", name):
        verify_package(package)


def test_a_folder_that_is_no_package_says_what_it_is_and_what_to_give(tiny, tmp_path):
    with refuses("package.no_manifest", "train: a trained model", "`plumbline package`"):
        verify_package(tiny.data("train"))
    with refuses("package.no_manifest", tmp_path, "`plumbline package`"):
        verify_package(tmp_path)


def test_models_are_opened_by_file_or_by_artifact(tiny):
    data = load_shards(tiny.data("prepare") / "test")
    expected = {name: OnnxModel(tiny.data("export") / f"{name}.onnx").answer(data) for name in MODELS.values()}
    asked = {None: "pruned"}
    for file, name in MODELS.items():
        asked |= {file: name, name: name}
    for artifact, name in asked.items():
        found = open_package(tiny.data("package"), artifact)[1].answer(data)
        assert np.array_equal(found.severity_permille, expected[name].severity_permille), artifact


@pytest.mark.parametrize("artifact", ["float32", "../model.onnx"])
def test_an_unknown_model_is_refused(tiny, artifact):
    with refuses("package.no_such_model", repr(artifact), "pruned (model.onnx), fp16 (model.fp16.onnx), int8"):
        open_package(tiny.data("package"), artifact)


def test_a_package_made_for_other_inputs_is_refused(package, monkeypatch):
    """A model of another version must not be fed columns that only happen to be as many."""
    from plumbline.export import interface as module

    others = tuple(reversed(GEOMETRY))
    monkeypatch.setattr(module, "GEOMETRY", others)
    with refuses("package.other_columns", MANIFEST, "inputs"):
        open_package(package)


def test_a_package_from_before_another_preparation_is_opened_with_a_warning(package, monkeypatch, caplog):
    from plumbline.export import package as module

    manifest, _ = open_package(package)
    assert (manifest.preparation, warning_keys(caplog)) == (PREPARATION, [])
    monkeypatch.setattr(module, "PREPARATION", PREPARATION + 1)
    open_package(package)
    assert warned(caplog, "model.old_preparation", package, f"({PREPARATION}, now {PREPARATION + 1})")


@pytest.mark.parametrize("which", ["import predict", "import onnxruntime"])
def test_the_examples_in_the_docs_work(tiny, tmp_path, monkeypatch, capsys, which):
    """Their paths are those of a project after `make run`, which the tiny run is."""
    page = (ROOT / "docs" / "program.md").read_text()
    block = next(part for part in page.split("```python\n")[1:] if which in part)
    (tmp_path / "data").symlink_to(tiny.root / "data")
    monkeypatch.chdir(tmp_path)
    exec(block.split("```")[0], {})  # of this repository's own page
    assert len(capsys.readouterr().out.split()) > 10
