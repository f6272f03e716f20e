import re
import shutil
from dataclasses import replace
from pathlib import Path

import geopandas
import numpy as np
import pandas as pd
import pytest
import torch
import yaml

from plumbline import pretrained
from plumbline.core.errors import GateRefused, InputError
from plumbline.core.files import read_json, sha256_file, sha256_folder, write_json
from plumbline.export.onnx import export_onnx
from plumbline.export.package import open_package, verify_package, write_package
from plumbline.export.runtime import OnnxModel
from plumbline.model.diagnosis import load_diagnosis, save_diagnosis
from plumbline.params import Prepare
from plumbline.params.serve import Adapt
from plumbline.prepare.features.definition import PREPARATION
from plumbline.prepare.features.sequences import Sequences
from plumbline.serve.adapt import merge
from plumbline.serve.predict import predict
from plumbline.serve.request import Request
from plumbline.sources.city.files import CityFiles, find_files
from plumbline.train.adapt.adapter import WEIGHTS, Adapted, base_hash, load_adapter, save_adapter
from plumbline.train.monitor.record import hardware
from plumbline.validate.measure import parity_figures
from tests.tiny import Tiny, kept, run_cli
from tests.train.made import make_sequences

QUICK = Adapt(epochs=2, threads=1, min_lora_labels=20)


def adapt(*given, **more):
    """As the command does. It loads Lightning for 9 s, which the quick tests need not."""
    from plumbline.serve import adapt as run

    return run.adapt(*given, **more)


@pytest.fixture(scope="module")
def city(tiny: Tiny) -> CityFiles:
    return find_files(tiny.data("simulate") / "cities" / "c_band")


@pytest.fixture(scope="module")
def project(tiny: Tiny, city: CityFiles) -> Path:
    """A folder with an adapter of the tiny model, for the labels of every second building, and with the two merged."""

    def make(root: Path) -> None:
        half = root / "half.csv"
        pd.read_csv(city.labels).iloc[::2].to_csv(half, index=False)
        base, prepare = str(tiny.data("train")), tiny.params.prepare
        adapt(city.products, city.footprints, half, base, "athens", QUICK, prepare, root=root / "adapters")
        ended = run_cli("adapters", "merge", "athens", "--model", base, "--output", "merged/athens", cwd=root)
        assert ended.code == 0, ended.err

    return kept("adapted", make, Path(__file__))


@pytest.fixture(scope="module")
def merged(project: Path) -> Path:
    """What the command makes of that adapter."""
    return project / "merged" / "athens"


def test_an_adapter_is_written_with_what_it_is_worth(tiny, city, project):
    about = load_adapter(project / "adapters" / "athens").about
    labels = pd.read_csv(project / "half.csv")
    assert 20 <= about.labels <= len(labels) < len(geopandas.read_file(city.footprints))
    assert np.isfinite(list(about.after.values())).all()
    assert about.prepare == tiny.params.prepare
    assert set(about.before) == set(about.after) == {"quadrant_accuracy", "severity_mae", "score"}
    assert (project / "adapters" / "athens" / WEIGHTS).stat().st_size < 100_000
    assert sorted(path.name for path in (project / "adapters").iterdir()) == ["athens"]
    made = about.made
    assert made["inputs"] == {
        str(path): sha256_file(path) for path in (*city.products, city.footprints, project / "half.csv")
    }
    assert made["window"] == {"since": None, "until": None}
    assert made["params"]["adapt"] == QUICK.model_dump(mode="json")
    assert made["hardware"] == hardware()
    assert made["versions"]["torch"] == torch.__version__


def test_the_merged_model_is_a_package_and_a_model_and_its_onnx_file_answers_alike(tiny, project, merged):
    manifest, model = open_package(merged)
    own = load_diagnosis(merged)
    adapted = Adapted(tiny.data("train")).use(load_adapter(project / "adapters" / "athens"))
    for name, value in adapted.state_dict().items():
        assert torch.equal(value, own.state_dict()[name]), name
    sequences: Sequences = make_sequences(50)
    figures = parity_figures(adapted, sequences, model.answer(sequences))
    assert figures["parity_probability"] < 1e-5
    assert figures["parity_severity_permille"] < 1e-4
    assert manifest.prepare == tiny.params.prepare
    assert manifest.preparation == PREPARATION
    assert sorted(path.name for path in merged.parent.iterdir()) == ["athens"]


@pytest.mark.slow
def test_the_merged_model_is_exported_as_the_package_answers(merged, tmp_path, monkeypatch):
    _, model = open_package(merged)
    out, own = tmp_path / "onnx", load_diagnosis(merged).state_dict()

    def export(network, path, opset):
        if path.name != "float32.onnx":
            return export_onnx(network, path, opset)
        # In place of the same call with the same network: the same file.
        assert all(torch.equal(value, own[name]) for name, value in network.state_dict().items())
        return shutil.copy(merged / "model.onnx", path)

    monkeypatch.setattr("plumbline.export.stage.export_onnx", export)
    ended = run_cli("export", "--model", merged, "--output", out, cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert sorted(path.name for path in out.iterdir()) == ["float32.onnx", "fp16.onnx"]
    sequences: Sequences = make_sequences(50)
    expected, found = model.answer(sequences), OnnxModel(out / "fp16.onnx").answer(sequences)
    np.testing.assert_allclose(found.quadrant_probability, expected.quadrant_probability, atol=5e-3)
    np.testing.assert_allclose(found.severity_permille, expected.severity_permille, atol=2e-2)


def test_one_model_is_exported_over_nothing_of_others(merged, tmp_path):
    before = sha256_folder(merged)
    for words, said in (
        (("--model", merged, "--output", merged), "which this command did not write"),
        (("--model", merged), "give --model and --output, or neither"),
        (("--output", tmp_path / "onnx"), "give --model and --output, or neither"),
        (("--model", tmp_path, "--output", tmp_path / "onnx"), f"--model {tmp_path}: no model.safetensors"),
        (("--model", merged, "--output", tmp_path / "onnx", "--params", "no.yaml"), "no.yaml: no such file"),
    ):
        ended = run_cli("export", *words, cwd=tmp_path)
        assert (ended.code, said in ended.err) == (2, True), ended.err
    assert sha256_folder(merged) == before
    assert list(tmp_path.iterdir()) == []


def test_the_merged_model_predicts_and_is_not_promoted(tiny, merged, tmp_path):
    from plumbline.release.promotion import promote  # loads MLflow

    table = predict(Request(tiny.products(), tiny.footprints, merged), tmp_path / "said.csv")
    assert set(table["model_version"]) == {read_json(merged / "manifest.json")["version"]}
    with pytest.raises(GateRefused, match="'not asked', not 'pass'"):
        promote(merged, lambda candidate, champion: None)


def test_others_may_read_the_weights_as_they_may_all_else(tiny, project, merged):
    """`safetensors` writes files that nobody else may read."""
    for folder in (project / "adapters" / "athens", merged, tiny.data("train")):
        assert len({path.stat().st_mode for path in folder.iterdir()}) == 1, folder


def test_predict_takes_an_adapter_by_its_name(tiny, project, merged, tmp_path, monkeypatch):
    own, ready = load_diagnosis(merged).state_dict(), merged / "model.onnx"

    def export(network, path, opset):
        # In place of the same call with the same network: the same file.
        assert all(torch.equal(value, own[name]) for name, value in network.state_dict().items())
        shutil.copy(ready, path)

    monkeypatch.setattr("plumbline.serve.adapt.export_onnx", export)
    points = [word for path in tiny.products() for word in ("--points", path)]
    given = (*points, "--buildings", tiny.footprints, "--model", tiny.data("train"), "--output", tmp_path / "said.csv")
    ended = run_cli("predict", *given, "--adapter", "athens", cwd=project)
    assert ended.code == 0, ended.err
    predict(Request(tiny.products(), tiny.footprints, merged), tmp_path / "merged.csv")
    assert (tmp_path / "said.csv").read_text() == (tmp_path / "merged.csv").read_text()
    ended = run_cli("predict", *given, "--adapter", "athens", "--artifact", "int8", cwd=project)
    assert (ended.code, ended.err) == (
        2,
        "ERROR --artifact int8: an adapted model has float32 only. Leave --artifact out.\n",
    )
    for name, said in (("bergen", "no such adapter; athens found"), ("../athens", "no name of an adapter")):
        ended = run_cli("predict", *given, "--adapter", name, cwd=project)
        assert ended.code == 2
        assert said in ended.err


def test_a_merged_model_says_how_its_labels_were_prepared(tiny, project, merged, tmp_path, caplog, monkeypatch):
    """An adapter that an earlier version made stays one of that version."""
    # In place of the same call with the same network: the same file.
    ready = merged / "model.onnx"
    monkeypatch.setattr("plumbline.serve.adapt.export_onnx", lambda model, path, opset: shutil.copy(ready, path))
    shutil.copytree(project / "adapters", tmp_path / "adapters")
    about = tmp_path / "adapters" / "athens" / "adapter.json"
    write_json(about, {**read_json(about), "preparation": 1})
    assert merge("athens", str(tiny.data("train")), tmp_path / "merged", tmp_path / "adapters").preparation == 1
    open_package(tmp_path / "merged")
    assert "trained on points that were prepared in another way (1, now" in caplog.text


def test_a_merged_model_is_of_the_preparation_of_its_base_in_every_file(tiny, project, merged, tmp_path, monkeypatch):
    """An adapter that this version made does not make the base younger. The graph has it from the network."""
    exported = []

    def export(network, path, opset):
        exported.append(network.preparation)
        shutil.copy(merged / "model.onnx", path)

    monkeypatch.setattr("plumbline.serve.adapt.export_onnx", export)
    base = load_diagnosis(tiny.data("train"))
    base.preparation = PREPARATION - 1
    save_diagnosis(base, tmp_path / "base")
    shutil.copytree(project / "adapters", tmp_path / "adapters")
    about = tmp_path / "adapters" / "athens" / "adapter.json"
    write_json(about, {**read_json(about), "base_sha256": base_hash(tmp_path / "base")})
    manifest = merge("athens", str(tmp_path / "base"), tmp_path / "merged", tmp_path / "adapters")
    weights = load_diagnosis(tmp_path / "merged").preparation
    assert [manifest.preparation, weights, *exported] == [PREPARATION - 1] * 3


def test_a_base_of_another_preparation_is_told_of_before_labels_teach_it(tiny, city, tmp_path, monkeypatch, caplog):
    base = load_diagnosis(tiny.data("train"))
    base.preparation = PREPARATION - 1
    save_diagnosis(base, tmp_path / "base")
    prepared_for(tmp_path, monkeypatch)
    with pytest.raises(InputError, match="prepared"):
        adapt(city.products, city.footprints, city.labels, str(tmp_path / "base"), "one", QUICK, root=tmp_path)
    assert f"in another way ({PREPARATION - 1}, now {PREPARATION})" in caplog.text


def changed_since(root, merged):
    shutil.copytree(merged, root / "mine")
    (root / "mine" / "notes.txt").write_text("mine")
    return root / "mine", "did not write"


def from_elsewhere(root, merged):
    shutil.copytree(merged, root / "other")
    manifest = root / "other" / "manifest.json"
    manifest.unlink()
    files = {path.name: path for path in (root / "other").iterdir()}
    about = {**read_json(merged / "manifest.json"), "gate": {"verdict": "pass", "rules": []}}
    kept = ("name", "default_model", "prepare", "hashes", "metrics", "gate", "records")
    write_package(files, {key: about[key] for key in kept}, "A card.", root / "released")
    return root / "released", "came from elsewhere"


@pytest.mark.parametrize("make", [changed_since, from_elsewhere])
def test_merge_replaces_nothing_but_what_it_wrote(tiny, project, merged, tmp_path, make):
    output, said = make(tmp_path, merged)
    before = sha256_folder(tmp_path)
    with pytest.raises(InputError, match=said):
        merge("athens", str(tiny.data("train")), output, project / "adapters")
    assert sha256_folder(tmp_path) == before


def test_merge_does_not_replace_the_base(tiny, project, merged, tmp_path, monkeypatch):
    """A merged model can be adapted again; without it the second adapter would be of nothing."""
    ready = merged / "model.onnx"
    monkeypatch.setattr("plumbline.serve.adapt.export_onnx", lambda model, path, opset: shutil.copy(ready, path))
    base = shutil.copytree(merged, tmp_path / "athens")
    first = load_adapter(project / "adapters" / "athens")
    about = first.about.model_copy(update={"base_sha256": base_hash(base)})
    save_adapter(replace(first, about=about), tmp_path / "adapters" / "second")
    before = sha256_folder(base)
    with pytest.raises(InputError, match="athens: is the model that was adapted, and would be lost"):
        merge("second", str(base), tmp_path / "adapters" / ".." / "athens", tmp_path / "adapters")
    assert sha256_folder(base) == before
    merge("second", str(base), tmp_path / "again", tmp_path / "adapters")


def test_adapters_are_listed_by_name(project, tmp_path):
    ended = run_cli("adapters", "list", cwd=project)
    assert ended.code == 0
    assert "athens" in ended.out
    empty = run_cli("adapters", "list", cwd=tmp_path)
    assert empty.code == 0
    assert "adapters: no adapter here; `plumbline adapt` makes one" in empty.err


FAST = {"epochs": 1, "threads": 1}


def call(tiny: Tiny, city: CityFiles, folder: Path, model: Path, sections: object = None, *more: object):
    """`plumbline adapt` in a folder, with a parameters file of these sections."""
    points = [word for path in city.products for word in ("--points", path)]
    (folder / "mine.yaml").write_text(yaml.safe_dump(sections))
    own = ("--buildings", city.footprints, "--labels", city.labels, "--model", model, "--name", "one")
    return run_cli("adapt", *points, *own, "--params", "mine.yaml", *more, cwd=folder)


def prepared_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Prepare]:
    """What buildings are prepared by, in calls that end there."""
    seen: list[Prepare] = []

    def stop(tracks, footprints, prepare, name):
        seen.append(prepare)
        raise InputError("prepared")

    monkeypatch.setattr("plumbline.serve.adapt.prepare_buildings", stop)
    return seen


def record_without(source: Path, target: Path, **changed: object) -> Path:
    """A trained model's folder whose record says another preparation, or nothing of it."""
    shutil.copytree(source, target)
    record = read_json(target / "record.json")
    del record["params"]["prepare"]
    if changed:
        record["params"]["prepare"] = changed
    write_json(target / "record.json", record)
    return target


def test_points_are_prepared_as_they_were_for_the_model(tiny, city, project, merged, tmp_path, monkeypatch):
    seen = prepared_for(tmp_path, monkeypatch)
    wide = record_without(tiny.data("train"), tmp_path / "wide", buffer_m=5.0, min_points=8)
    sections = {"ingest": {}}
    assert "ERROR prepared" in call(tiny, city, tmp_path, wide, sections).err
    assert (seen[-1].buffer_m, seen[-1].min_points) == (5.0, 8)
    assert seen[-1].max_points == load_diagnosis(wide).network.spec.max_length
    for model in (tiny.data("train"), tiny.data("compress")):  # the stages themselves write it
        assert "does not say" not in call(tiny, city, tmp_path, model, sections).err
        assert seen[-1].buffer_m == tiny.params.prepare.buffer_m
    call(tiny, city, tmp_path, merged, sections)
    assert seen[-1] == verify_package(merged).prepare
    call(tiny, city, tmp_path, pretrained.MODEL, sections)
    assert seen[-1] == verify_package(pretrained.PACKAGE).prepare


def test_a_preparation_other_than_the_models_is_said_and_not_taken(tiny, city, tmp_path, monkeypatch):
    seen = prepared_for(tmp_path, monkeypatch)
    wide = record_without(tiny.data("train"), tmp_path / "wide", buffer_m=5.0)
    limits = {"max_strain_error_permille": 1.5, "min_quadrant_confidence": 0.75}
    said = call(tiny, city, tmp_path, wide, {"prepare": {"buffer_m": 3.0, **limits}}).err
    assert (
        f"WARNING {wide}: prepared otherwise than the parameters file says: prepare.buffer_m 3 (the model's 5)" in said
    )
    assert "min_points" not in said
    assert seen[-1].buffer_m == 5.0
    assert {name: getattr(seen[-1], name) for name in limits} == limits
    call(tiny, city, tmp_path, wide, {"prepare": {"buffer_m": 3.0}})
    told = {name: getattr(Prepare(), name) for name in limits}  # its record names only buffer_m
    assert {name: getattr(seen[-1], name) for name in limits} == told


def test_where_the_model_says_nothing_the_file_does_or_a_warning(tiny, city, tmp_path, monkeypatch):
    seen = prepared_for(tmp_path, monkeypatch)
    old = record_without(tiny.data("train"), tmp_path / "old")
    assert (
        f"WARNING {old}: does not say how the model's scatterers were prepared"
        in call(tiny, city, tmp_path, old, {"adapt": {"epochs": 1}}).err
    )
    assert seen[-1].buffer_m == Prepare().buffer_m
    assert "WARNING" not in call(tiny, city, tmp_path, old, {"prepare": {"buffer_m": 3.0}}).err
    assert seen[-1].buffer_m == 3.0
    bad = record_without(tiny.data("train"), tmp_path / "bad", buffer_m=-1)
    assert f"ERROR {bad / 'record.json'}: params.prepare: " in call(tiny, city, tmp_path, bad).err


def test_a_file_with_any_of_the_sections_will_do(tiny, city, tmp_path):
    ended = call(tiny, city, tmp_path, tiny.data("train"), {"adapt": {**FAST, "rank": 5, "min_interval_labels": 5000}})
    assert ended.code == 0, ended.err
    assert " labels, 5000 are needed to fit the interval; as in the base" in ended.err
    assert load_adapter(tmp_path / "adapters" / "one").about.made["params"]["adapt"]["rank"] == 5
    ended = call(tiny, city, tmp_path, tiny.data("train"), {"adept": FAST})
    assert (ended.code, "ERROR mine.yaml: adept: no section of a params file" in ended.err) == (2, True)


REFUSED = {
    "no such layer": (pd.DataFrame, {}, ["--layer", "gone"], "no layer gone"),
    "no such ids": (pd.DataFrame, {}, ["--id-column", "gone"], "column gone is missing"),
    "no such weights": (pd.DataFrame, {"targets": ["foo*"]}, [], "ERROR mine.yaml: adapt.targets: "),
    "too few": (lambda table: table.head(15), {}, [], "labelled buildings that can be judged found, 20 needed"),
    "no permille": (
        lambda table: table.assign(severity_permille=table["severity_permille"] / 1000),
        *({}, [], "Are they in permille, and not in m/m or percent?"),
    ),
    "of another city": (
        lambda table: table.assign(building_id=table["building_id"] + "_x"),
        *({}, [], "of the labelled buildings"),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_nothing_can_be_learned_from_is_refused(tiny, city, tmp_path, case):
    change, section, more, said = REFUSED[case]
    labels = tmp_path / "labels.csv"
    change(pd.read_csv(city.labels)).to_csv(labels, index=False)
    city = replace(city, labels=labels)
    ended = call(tiny, city, tmp_path, tiny.data("train"), {"adapt": {**FAST, **section}}, *more)
    assert ended.code == 2
    assert said in ended.err
    assert not (tmp_path / "adapters").exists()


@pytest.mark.parametrize(
    ("kind", "said"), [("notes", "holds something that this command did not write (notes.txt)"), ("file", "is a file")]
)
def test_what_would_be_lost_is_refused_before_any_work(tiny, city, tmp_path, kind, said):
    place = tmp_path / "adapters" / "one"
    place.parent.mkdir()
    if kind == "notes":
        place.mkdir()
    (place / "notes.txt" if kind == "notes" else place).write_text("precious")
    before = sorted(tmp_path.rglob("*"))
    ended = call(tiny, city, tmp_path, tiny.data("train"), {"adapt": FAST})
    assert ended.code == 2
    assert said in ended.err
    assert "labelled" not in ended.err
    assert [path for path in sorted(tmp_path.rglob("*")) if path.name != "mine.yaml"] == before


def test_labels_of_one_kind_and_a_wrong_id_are_told(tiny, city, tmp_path):
    """Before points are read, and with what such labels make of a model."""
    same = tmp_path / "same.csv"
    pd.read_csv(city.labels).assign(severity_permille=0.1, quadrant="").to_csv(same, index=False)
    ended = call(tiny, replace(city, labels=same), tmp_path, tiny.data("train"), {"adapt": FAST})
    assert ended.code == 0, ended.err
    assert "labels are of category 0: from these a model learns to say it of every building" in ended.err
    assert "held out: no quadrant accuracy: no label has a quadrant" in ended.err
    kept = re.search(r"INFO 0 of (\d+) labels have a quadrant, (\d+) are needed to fit the temperature", ended.err)
    assert kept, ended.err
    assert kept[2] == "40"
    ended = run_cli("adapters", "list", cwd=tmp_path)
    assert re.search(r"\bone\b.* - .* \d\.\d{3} -> \d\.\d{3}", ended.out), ended.out
    same.write_text("building_id\n")
    ended = call(tiny, replace(city, labels=same), tmp_path, tiny.data("train"), {"adapt": FAST})
    assert (ended.code, ended.err.count("\n")) == (2, 1), ended.err
    assert ended.err.startswith(f"ERROR {same}")


@pytest.mark.parametrize("name", ["../up", "", ".hidden", "a/b"])
def test_a_name_that_is_no_folder_is_refused(tiny, city, tmp_path, name):
    with pytest.raises(InputError, match="no name of an adapter"):
        adapt(city.products, city.footprints, city.labels, str(tiny.data("train")), name, QUICK, root=tmp_path)


def test_a_missing_adapter_and_a_missing_model_are_named(tiny, project, tmp_path):
    with pytest.raises(InputError, match=r"bergen: no such adapter; athens found"):
        merge("bergen", str(tiny.data("train")), tmp_path / "merged", project / "adapters")
    with pytest.raises(InputError, match=r"--model nowhere: no model.safetensors in nowhere"):
        merge("athens", "nowhere", tmp_path / "merged", project / "adapters")
    shutil.copytree(tiny.data("compress"), tmp_path / "other")
    with pytest.raises(InputError, match="adapter athens: made for the model"):
        merge("athens", str(tmp_path / "other"), tmp_path / "merged", project / "adapters")
