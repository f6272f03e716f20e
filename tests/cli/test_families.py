"""The family of a project: said by its params.yaml, and obeyed by every stage."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import yaml

from plumbline.cli.families import FAMILIES, family_in
from tests.flows.conftest import ROOT
from tests.refusals import refuses
from tests.tiny import STAGES, run_cli

ENTRIES = {
    "simulate": "fields.simulate.stage",
    "ingest": "fields.simulate.stage",
    "prepare": "fields.prepare.stage",
    "train": "fields.train.stage",
    "compress": "fields.release.onnx",
    "export": "fields.release.onnx",
    "validate": "fields.release.validate",
    "gate": "fields.release.gates",
    "approve": "release.approval",
    "package": "fields.release.validate",
}
"""Stage -> the module that runs it for restoration."""


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("family: restoration\n", "restoration"),
        ("family: diagnosis\n", "diagnosis"),
        ("train: {}\n", "diagnosis"),
        ("", "diagnosis"),
        ("train: [", "diagnosis"),  # whoever reads its values says what is wrong
        ("- family\n", "diagnosis"),
    ],
)
def test_a_params_file_says_its_family(tmp_path: Path, content: str, name: str) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(content)
    assert family_in(path).name == name
    assert family_in(tmp_path / "missing.yaml").name == "diagnosis"


@pytest.mark.parametrize("value", ["forecast", "[]", "null"])
def test_an_unknown_family_is_refused_by_name(tmp_path: Path, value: str) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(f"family: {value}\n")
    with refuses("params.unknown_family", path, "diagnosis, restoration"):
        family_in(path)


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_is_that_of_the_family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    """With the parameters of the project, and folders below `data`."""
    params = yaml.safe_load((ROOT / "restoration/params.yaml").read_text())
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    called: list[tuple[Path, ...]] = []
    module = importlib.import_module(f"plumbline.{ENTRIES[stage]}")
    monkeypatch.setattr(module, stage, lambda *folders, out, **_: called.append((*folders, out)))
    assert run_cli(stage, cwd=tmp_path).code == 0
    (folders,) = called
    assert all(folder.parts[0] == "data" for folder in folders)
    assert folders[-1] == Path("data") / stage


@pytest.mark.parametrize("stage", STAGES)
def test_a_key_of_the_other_family_is_refused(tmp_path: Path, stage: str) -> None:
    params = yaml.safe_load((ROOT / "restoration/params.yaml").read_text())
    (tmp_path / "params.yaml").write_text(yaml.safe_dump({**params, "score": {}}))
    ended = run_cli(stage, cwd=tmp_path)
    assert (ended.code, "params.yaml: score: " in ended.err) == (2, True)
    assert all(stage in family.steps for family in FAMILIES.values())
