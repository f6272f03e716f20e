"""The stage `prepare`: scenes that cannot be read are refused by name."""

import json

import numpy as np
import pytest

from plumbline.fields.prepare.stage import prepare
from plumbline.params.fields import PrepareFields
from tests.refusals import refuses


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "no array", "one dimension"])
def test_a_damaged_or_missing_truth_is_refused_with_its_path(tmp_path, monkeypatch, damage):
    monkeypatch.chdir(tmp_path)
    scene = tmp_path / "ingest" / "plain-00000"
    scene.mkdir(parents=True)
    truth, edges = scene / "truth.npz", {"left": 0.0, "top": 0.0, "cell_m": 10.0}
    up_mm = np.zeros(32 if damage == "one dimension" else (32, 32))
    maps = {"up_mm": up_mm} if damage == "no array" else {"up_mm": up_mm, "east_mm": up_mm}
    np.savez_compressed(truth, **maps, **edges)
    if damage == "missing":
        truth.unlink()
    if damage in ("empty", "cut"):
        truth.write_bytes(b"" if damage == "empty" else truth.read_bytes()[:-40])
    with refuses("truth.unreadable", "plain-00000/truth.npz", "`plumbline ingest`"):
        prepare(tmp_path / "ingest", PrepareFields(), tmp_path / "prepare", workers=1)
    assert not (tmp_path / "prepare").exists()


@pytest.mark.parametrize("name", ["name", "domain", "level", "tracks"])
def test_a_scene_that_lacks_a_value_is_refused_by_its_name(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    scene = tmp_path / "ingest" / "plain-00000"
    scene.mkdir(parents=True)
    up_mm = np.zeros((32, 32))
    np.savez_compressed(scene / "truth.npz", up_mm=up_mm, east_mm=up_mm, left=0.0, top=0.0, cell_m=10.0)
    about = {"name": scene.name, "domain": "plain", "level": "easy", "tracks": 2}
    (scene / "scene.json").write_text(json.dumps({key: about[key] for key in about if key != name}))
    with refuses("scene.bad_value", "plain-00000/scene.json", f" {name}: "):
        prepare(tmp_path / "ingest", PrepareFields(), tmp_path / "prepare", workers=1)
