"""`plumbline explain`: reasons that add up, of the answers that `plumbline predict` gives, at the product's points."""

from __future__ import annotations

import re
from pathlib import Path

import geopandas
import numpy as np
import pandas as pd
import pytest
import torch

from plumbline import pretrained
from plumbline.core.compass import quadrant_code
from plumbline.core.errors import InputError
from plumbline.export.answers import Answers
from plumbline.export.package import open_package, verify_package
from plumbline.export.weights import load_network
from plumbline.model.diagnosis import load_diagnosis
from plumbline.model.explain import NEGLIGIBLE, TOLERANCE
from plumbline.model.explain import explain as explain_tensors
from plumbline.prepare.buildings import prepare_buildings
from plumbline.prepare.features.definition import GEOMETRY, names
from plumbline.serve.columns import DAMAGE_COLUMNS, WHOLE, has_answer
from plumbline.serve.explain import attribution
from plumbline.serve.explain.run import buildings_path, explain
from plumbline.serve.predictions import read_predictions
from plumbline.serve.request import Request
from plumbline.sources.city.in_memory import read_tracks
from tests.prepare.made import PARAMS, make_scene
from tests.refusals import refuses
from tests.tiny import City, run_cli

QUESTIONS = ("quadrant", "severity")


def arguments(city: City, command: str, output: Path, *more: object) -> list[object]:
    """The words of a command; an option in `more` takes the place of a usual one."""
    points = [word for path in city.products() for word in ("--points", path)]
    usual = {"--model": pretrained.PACKAGE, "--output": output}
    usual = [word for pair in usual.items() if pair[0] not in more for word in pair]
    return [command, *points, "--buildings", city.footprints, *usual, *more]


@pytest.fixture(scope="module")
def folder(city: City, tmp_path_factory) -> Path:
    """Predictions of the showcase, and the reasons for all of them, by the commands."""
    folder = tmp_path_factory.mktemp("explained")
    for words in (["predict", "p.csv"], ["explain", "e.gpkg", "--plan", "e.html"]):
        ended = run_cli(*arguments(city, words[0], Path(words[1]), *words[2:]), cwd=folder)
        assert ended.code == 0, ended.err
        (folder / f"{words[0]}.log").write_text(ended.err)
    return folder


@pytest.fixture(scope="module")
def predicted(folder):
    return read_predictions(folder / "p.csv").set_index("building_id", drop=False)


@pytest.fixture(scope="module")
def judged(predicted):
    return predicted[has_answer(predicted)]


@pytest.fixture(scope="module")
def scatterers(folder):
    return geopandas.read_file(folder / "e.gpkg", layer="scatterers")


@pytest.fixture(scope="module")
def buildings(folder):
    return geopandas.read_file(folder / "e.gpkg", layer="buildings").set_index("building_id")


def test_the_rows_are_those_of_predict_at_the_same_share(folder, judged, buildings):
    """By default both estimate the share of damaged buildings from all answers, and say so."""
    columns = [name for name in judged if name not in ("building_id", "geometry")]
    names = ("mechanism", "cause", "settlement_direction", "begins", "begins_early", "begins_late")
    texts = dict.fromkeys(names, "")
    found, wanted = (pd.DataFrame(table[columns]).fillna(texts) for table in (buildings, judged))
    pd.testing.assert_frame_equal(found, wanted, check_dtype=False, check_index_type=False)
    (share,) = re.findall(r"INFO (.* % of the .*)\. p_damaged is 0\.9", (folder / "predict.log").read_text())
    assert share in (folder / "explain.log").read_text()
    assert f"for a city like this: {share[0].lower()}{share[1:]}." in (folder / "e.html").read_text()


@pytest.mark.parametrize("question", QUESTIONS)
def test_scatterers_and_features_add_up_to_the_difference(scatterers, buildings, question):
    by_scatterers = scatterers.groupby("building_id")[f"{question}_attribution"].sum()[buildings.index]
    np.testing.assert_allclose(by_scatterers, buildings[f"{question}_by_scatterers"], atol=1e-6)
    parts = buildings[[f"{question}_by_{name}" for name in ("scatterers", *names(GEOMETRY))]]
    difference = buildings[f"{question}_difference"]
    gap = (parts.sum(axis=1) - difference).abs()
    assert (gap <= TOLERANCE * difference.abs().clip(lower=NEGLIGIBLE) + 1e-5).all()
    assert (parts.abs() > 1e-4).any(axis=None)


def test_every_scatterer_of_a_judged_building_has_its_share(city, scatterers, judged):
    by = scatterers.groupby("building_id")
    assert (
        by.size()[judged.index].tolist()
        == judged["n_points"].clip(upper=verify_package(pretrained.PACKAGE).prepare.max_points).tolist()
    )
    np.testing.assert_allclose(by["attention_share"].sum(), 1, atol=1e-5)
    assert (scatterers["attention_share"] >= 0).all()
    assert (scatterers["differential_displacement_se"] > 0).all()


def test_each_row_is_the_point_it_names(city, scatterers):
    """It is at its place, and near to the footprint it belongs to; see also `test_product_points`."""
    assert scatterers.crs == read_tracks(city.products()[:1])[0].crs
    places = scatterers[["easting", "northing"]].to_numpy()
    assert scatterers.geometry.get_coordinates().to_numpy().tolist() == places.tolist()
    assert not scatterers.duplicated(["track", "point_id"]).any()
    footprints = geopandas.read_file(city.footprints).set_index("building_id").to_crs(scatterers.crs).geometry
    own = footprints[scatterers["building_id"]].reset_index(drop=True)
    assert (scatterers.geometry.distance(own) <= verify_package(pretrained.PACKAGE).prepare.buffer_m).all()


def test_attributions_are_those_of_the_library_and_places_lead_to_the_quadrants(city, scatterers, judged):
    manifest, _ = open_package(pretrained.PACKAGE)
    tracks = read_tracks(city.products())
    footprints = geopandas.read_file(city.footprints).to_crs(tracks[0].crs)
    sequences = prepare_buildings(tracks, footprints, manifest.prepare).sequences
    told = dict(zip(sequences.building_id, sequences.geometry[:, names(GEOMETRY).index("points_ne")], strict=True))
    north_east = pd.Series(quadrant_code(scatterers["x"].to_numpy(), scatterers["y"].to_numpy()) == 0)
    for name, share in north_east.groupby(scatterers["building_id"]).mean().items():
        assert share == pytest.approx(float(told[name]), abs=1e-6)
    row = int(np.flatnonzero(sequences.building_id == judged.index[-1])[0])
    inputs = {name: torch.from_numpy(values) for name, values in sequences.pad(np.array([row])).items()}
    wanted = explain_tensors(load_network(pretrained.PACKAGE), **inputs)
    own = scatterers[scatterers["building_id"] == judged.index[-1]]
    np.testing.assert_allclose(own["x"], inputs["distance"][0, :, 0], atol=1e-4)
    np.testing.assert_allclose(own["attention_share"], wanted.attention_BL[0], atol=1e-4)
    np.testing.assert_allclose(own["quadrant_attribution"], wanted.quadrant.scatterer_BL[0], atol=1e-3)
    np.testing.assert_allclose(own["severity_attribution"], wanted.severity.scatterer_BL[0], atol=1e-3)


@pytest.mark.parametrize("suffix", ["csv", "geojson", "parquet"])
def test_one_building_is_explained_alike_in_every_format(city, folder, tmp_path, scatterers, buildings, suffix):
    name, output = buildings.index[1], tmp_path / f"one.{suffix}"
    words = ["--building", name, "--building", name]
    ended = run_cli(*arguments(city, "explain", output, *words), cwd=tmp_path)
    assert ended.code == 0, ended.err
    read = {"csv": pd.read_csv, "parquet": geopandas.read_parquet, "geojson": geopandas.read_file}[suffix]
    found, wanted = read(output), scatterers[scatterers["building_id"] == name].reset_index(drop=True)
    assert list(found) == list(wanted)
    columns = [column for column in wanted if column != "geometry"]
    pd.testing.assert_frame_equal(
        pd.DataFrame(found[columns]), pd.DataFrame(wanted[columns]), check_dtype=False, atol=1e-4, rtol=1e-3
    )
    if suffix == "geojson":
        assert found.crs == "EPSG:4326"
        assert (found.to_crs(scatterers.crs).distance(wanted.geometry) < 0.02).all()
    beside = buildings_path(output)
    # A version is a hash, and 777267e60777 is read as a number by whoever guesses.
    text = {"model_version": str}
    table = pd.read_parquet(beside) if beside.suffix == ".parquet" else pd.read_csv(beside, dtype=text)
    pd.testing.assert_series_equal(
        table.iloc[0, 1:].fillna(""),
        buildings.loc[name].fillna(""),
        check_dtype=False,
        check_names=False,
        check_index=True,
        rtol=1e-2,
        atol=1e-3,
    )
    assert len(list(tmp_path.iterdir())) == 2


def test_blocks_and_company_change_nothing(city, tmp_path, scatterers, judged, monkeypatch):
    """And points between two buildings stay with the nearer one, whether that is asked for or not."""
    monkeypatch.setattr(attribution, "MAX_CELLS", 2)
    chosen = judged.index[::6].tolist()
    request = Request(city.products(), city.footprints, pretrained.PACKAGE)
    some = explain(request, tmp_path / "out.parquet", chosen).scatterers
    wanted = scatterers[scatterers["building_id"].isin(chosen)]
    key = ["building_id", "track", "point_id"]
    assert some[key].to_numpy().tolist() == wanted[key].to_numpy().tolist()
    columns = ["attention_share", "quadrant_attribution", "severity_attribution"]
    np.testing.assert_allclose(some[columns], wanted[columns], atol=2e-3)


def test_who_was_not_judged_is_named_and_where_asked_for_has_a_row(city, folder, tmp_path, predicted, judged):
    left = predicted.drop(judged.index)
    assert len(left)
    said = (folder / "explain.log").read_text()
    assert all(name in said for name in left.index[:5])
    asked = [left.index[0], judged.index[0]]
    words = [word for name in asked for word in ("--building", name)]
    ended = run_cli(*arguments(city, "explain", tmp_path / "e.gpkg", *words, "--plan", "e.html"), cwd=tmp_path)
    assert ended.code == 0, ended.err
    (why,) = re.findall(f"not explained, because not judged \\((.*)\\): {asked[0]}", ended.err)
    assert f"Not judged: {why.partition(';')[0]}" in (tmp_path / "e.html").read_text()
    rows = geopandas.read_file(tmp_path / "e.gpkg", layer="buildings").set_index("building_id")
    assert set(rows.index) == set(asked)
    assert rows.loc[asked[0], "status"] == left["status"].iloc[0]
    kept = ["status", "reason", "n_points", "model_version", *DAMAGE_COLUMNS, *WHOLE]
    assert rows.drop(columns=kept).loc[asked[0]].isna().all()
    scatterers = geopandas.read_file(tmp_path / "e.gpkg", layer="scatterers")
    assert set(scatterers["building_id"]) == {asked[1]}
    assert "Not judged" in (tmp_path / "e.html").read_text()
    # Without anybody judged there is an empty table, and the reason.
    ended = run_cli(*arguments(city, "explain", tmp_path / "n.geojson", "--building", asked[0]), cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert len(geopandas.read_file(tmp_path / "n.geojson")) == 0
    assert pd.read_csv(tmp_path / "n_buildings.csv")["building_id"].tolist() == asked[:1]


def test_who_is_unsure_where_is_explained_as_well(city, tmp_path, judged):
    few = [word for name in judged.index[:4] for word in ("--building", name)]

    def explained(bound):
        words = ["--model", "pretrained", "--min-quadrant-confidence", bound, *few]
        ended = run_cli(*arguments(city, "explain", tmp_path / "e.gpkg", *words), cwd=tmp_path)
        assert ended.code == 0, ended.err
        return geopandas.read_file(tmp_path / "e.gpkg", layer="buildings").set_index("building_id")

    loose = explained(0)
    elsewhere = loose["p_damaged"] * (1 - loose["quadrant_confidence"])
    limit = 1 - float(elsewhere.quantile(0.7))
    strict = explained(limit)
    assert set(strict.index) == set(loose.index)
    is_unsure = (strict["reason"] == "unsure_where")[loose.index]
    assert 0 < is_unsure.sum() < len(is_unsure)
    assert is_unsure.tolist() == (elsewhere > 1 - limit).tolist()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--building", "{near}x"], ["--building {near}x", "{near}"]),
        (["--plan", "plan.png"], ["plan.png", ".html"]),
        (["--output", "{package}/e.csv"], ["e.csv", "model package"]),
    ],
    ids=lambda value: value[0],
)
def test_what_cannot_be_done_is_one_message_and_no_file(city, tmp_path, judged, words, said):
    fill = {"near": judged.index[0], "package": pretrained.PACKAGE}
    words, said = ([word.format(**fill) for word in part] for part in (words, said))
    ended = run_cli(*arguments(city, "explain", tmp_path / "e.gpkg", *words), cwd=tmp_path)
    assert ended.code == 2, ended.err
    assert all(word in ended.err for word in said), ended.err
    assert "Traceback" not in ended.err
    assert list(tmp_path.iterdir()) == []


def test_the_table_of_buildings_overwrites_no_input(city, tmp_path):
    copy = tmp_path / "e_buildings.csv"
    copy.write_bytes(city.footprints.read_bytes())
    with refuses("output.is_input", "e_buildings.csv"):
        explain(Request(city.products(), copy, pretrained.PACKAGE), tmp_path / "e.csv")
    assert copy.read_bytes() == city.footprints.read_bytes()


def test_the_weights_of_the_pretrained_package_answer_as_its_models():
    tracks, footprints = make_scene(buildings=30)
    sequences = prepare_buildings(tracks, footprints, PARAMS).sequences
    inputs = {name: torch.from_numpy(values) for name, values in sequences.pad(np.arange(len(sequences))).items()}
    with torch.inference_mode():
        ours = Answers(*(part.numpy() for part in load_network(pretrained.PACKAGE)(**inputs)))
    _, pruned = open_package(pretrained.PACKAGE, "pruned")
    for name, one, other in zip(ours._fields, ours, pruned.answer(sequences), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4, err_msg=name)
    assert len(np.unique(ours.quadrant_probability.argmax(1))) > 1


def test_a_package_without_weights_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"weights\.safetensors"):
        load_network(tmp_path)
    (tmp_path / "weights.safetensors").write_bytes(b"no")
    (tmp_path / "network.json").write_text("{}")
    with pytest.raises(InputError, match=r"weights\.safetensors"):
        load_network(tmp_path)


def test_weights_by_the_names_of_a_trained_model_are_taken_too():
    """`plumbline adapters merge` writes them so."""
    model, wanted = load_network(pretrained.MODEL), load_diagnosis(pretrained.MODEL)
    assert not model.training
    torch.testing.assert_close(model.state_dict(), wanted.state_dict(), rtol=0, atol=0)
