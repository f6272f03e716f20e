"""Scenes: drawn from their own name alone, written as products, read back."""

import json
from dataclasses import replace

import numpy as np
import pytest

from plumbline.core.files import sha256_folder
from plumbline.fields.simulate.borrowed import write_borrowed
from plumbline.fields.simulate.scene import PLACE, SceneAbout, make_scene, write_scene
from plumbline.fields.simulate.stage import simulate
from plumbline.params.fields import BorrowedScenes, SimulateFields
from plumbline.sources.city.in_memory import read_tracks
from tests.refusals import refuses

ABOUT = SceneAbout("plain-00001", "plain", "easy", 3, 2, 32, 10.0)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    scene, folder = make_scene(ABOUT), tmp_path_factory.mktemp("scenes") / "one"
    write_scene(scene, folder)
    return scene, folder


def test_the_same_name_and_seed_give_the_same_bytes(written, tmp_path):
    make_scene(replace(ABOUT, name="plain-00000"))  # what came before changes nothing
    write_scene(make_scene(ABOUT), tmp_path / "again")
    assert sha256_folder(tmp_path / "again") == sha256_folder(written[1])
    for other in (replace(ABOUT, name="plain-00002"), replace(ABOUT, seed=4)):
        write_scene(make_scene(other), tmp_path / "other")
        assert sha256_folder(tmp_path / "other") != sha256_folder(written[1])


@pytest.mark.parametrize("tracks", [1, 2, 3])
def test_products_are_read_back_with_their_lines_of_sight(tracks, tmp_path):
    scene = make_scene(replace(ABOUT, tracks=tracks, name=f"plain-{tracks}"))
    write_scene(scene, tmp_path / "one")
    read = read_tracks(sorted((tmp_path / "one").glob("*.csv")))
    assert len(read) == tracks
    for made, found in zip(scene.tracks, read, strict=True):
        assert found.crs == "EPSG:3035"
        np.testing.assert_array_equal(found.epochs, made.dates)
        np.testing.assert_allclose(np.column_stack([found.easting, found.northing]), made.east_north + PLACE, atol=0.02)
        np.testing.assert_allclose(found.los, made.los, atol=0.002)
        own = made.displacement - made.displacement.mean(axis=1, keepdims=True)
        series = found.displacement - np.nanmean(found.displacement, axis=1, keepdims=True)
        assert np.nanmax(np.abs(series - own)) < 0.3
        assert np.isfinite(found.displacement).mean() > 0.9
    if tracks > 1:  # one looks from the west, one from the east
        assert read[0].los[0, 0] * read[1].los[0, 0] < 0


def test_the_ground_ends_where_its_truth_is(written):
    scene, folder = written
    truth = np.load(folder / "truth.npz")
    assert truth["up_mm"].shape == truth["east_mm"].shape == (32, 32)
    # The third cell of the western column.
    place = np.array([truth["left"] + 0.5 * 10, truth["top"] - 2.5 * 10]) - PLACE
    whole = scene.ground.displacement(place[None])[0]
    np.testing.assert_allclose([truth["east_mm"][2, 0], truth["up_mm"][2, 0]], whole[[0, 2]], rtol=1e-5)
    los = np.array([[-0.5, -0.1, 0.86]])
    course = scene.ground.along(place[None], los, np.array([0.0, 1.0]))
    np.testing.assert_allclose(course, [[0, los[0] @ whole]], atol=1e-9)
    about = json.loads((folder / "scene.json").read_text())
    assert about["degradation"]["density"] > 1000
    assert SceneAbout(**{key: value for key, value in about.items() if key != "degradation"}) == ABOUT


def test_scenes_are_borrowed_from_real_points(tmp_path):
    write_scene(make_scene(replace(ABOUT, cells=48, name="plain-00003")), tmp_path / "real")
    products = sorted((tmp_path / "real").glob("*.csv"))
    params = SimulateFields(seed=1, cells=32, scenes={"plain": 1})
    (tmp_path / "scenes").mkdir()
    write_borrowed(tmp_path / "scenes", "town", BorrowedScenes(points=products, scenes=2), params)
    folders = sorted((tmp_path / "scenes").iterdir())
    assert [path.name for path in folders] == ["plain-town-00000", "plain-town-00001"]
    given = read_tracks(products)
    for folder in folders:
        read = read_tracks(sorted(folder.glob("*.csv")))
        for track, source in zip(read, given, strict=True):
            assert 50 <= len(track) <= len(source)
            np.testing.assert_array_equal(track.epochs, source.epochs)
            np.testing.assert_allclose(track.los.mean(axis=0), source.los.mean(axis=0), atol=0.02)
        assert np.isfinite(np.load(folder / "truth.npz")["up_mm"]).all()
    with refuses("borrowed.too_few_points", "simulate.borrowed.far:"):
        small = params.model_copy(update={"cell_m": 1.0})
        write_borrowed(tmp_path / "scenes", "far", BorrowedScenes(points=products, scenes=1), small)


def test_a_stage_writes_every_scene_and_any_selection_of_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("plumbline.fields.simulate.stage.SHOWCASE_CELLS", 32)
    params = SimulateFields(seed=2, cells=32, scenes={"plain": 2, "noise": 1})
    simulate(params, tmp_path / "all", workers=1)
    simulate(params.model_copy(update={"scenes": {"plain": 1}}), tmp_path / "one", workers=1)
    names = sorted(path.name for path in (tmp_path / "all" / "scenes").iterdir())
    assert names == ["noise-00000", "plain-00000", "plain-00001"]
    same = [sha256_folder(tmp_path / run / "scenes" / "plain-00000") for run in ("all", "one")]
    assert same[0] == same[1]
    assert sha256_folder(tmp_path / "all" / "showcase") == sha256_folder(tmp_path / "one" / "showcase")
