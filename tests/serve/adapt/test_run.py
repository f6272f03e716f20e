import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
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
from plumbline.export.package import PREDICTIONS, check_replaced, open_package, verify_package
from plumbline.export.runtime import OnnxModel
from plumbline.model.diagnosis import Diagnosis, load_diagnosis, save_diagnosis
from plumbline.params import Prepare
from plumbline.params.serve import Adapt
from plumbline.prepare.features.definition import PREPARATION
from plumbline.prepare.features.sequences import Sequences
from plumbline.serve.adapt import NO_GATE, merge, prepare_of
from plumbline.serve.predict import predict
from plumbline.serve.request import Request
from plumbline.sources.city.files import CityFiles, find_files
from plumbline.train.adapt.adapter import WEIGHTS, Adapted, base_hash, load_adapter, save_adapter
from plumbline.train.monitor.record import hardware
from plumbline.validate.measure import parity_figures
from tests.refusals import refuses, warned, warning_keys
from tests.tiny import Tiny, kept, run_cli
from tests.train.made import make_sequences

FAST = {"epochs": 1, "threads": 1}
QUICK = Adapt(**FAST, min_lora_labels=20)


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
        given = {"model": base, "name": "athens", "params": QUICK, "prepare": prepare}
        adapt(city.products, city.footprints, half, **given, root=root / "adapters")
        with quick_export(tiny):
            ended = run_cli("adapters", "merge", "athens", "--model", base, "--output", "merged/athens", cwd=root)
        assert ended.code == 0, ended.err

    return kept("adapted", make, Path(__file__))


@pytest.fixture(scope="module")
def merged(project: Path) -> Path:
    """What the command makes of that adapter."""
    return project / "merged" / "athens"


@contextmanager
def quick_export(tiny: Tiny) -> Iterator[list[Diagnosis]]:
    """Copy graphs of the tiny package where `merge` exports, which takes 12 s; yield the networks that it exports."""
    networks: list[Diagnosis] = []

    def copy_network(network: Diagnosis, path: Path, opset: int) -> None:
        networks.append(network)
        shutil.copyfile(tiny.data("package") / "model.onnx", path)

    def copy_predictions(prepare: Prepare, share: list[float], path: Path, opset: int) -> None:
        assert prepare == tiny.params.prepare
        assert share == pytest.approx(networks[-1].get_buffer("category_share").tolist(), abs=1e-6)
        shutil.copyfile(tiny.data("package") / PREDICTIONS, path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("plumbline.serve.adapt.export_onnx", copy_network)
        patch.setattr("plumbline.serve.adapt.export_predictions", copy_predictions)
        yield networks


@pytest.fixture
def exported(tiny: Tiny) -> Iterator[list[Diagnosis]]:
    """Networks that `merge` exports quickly."""
    with quick_export(tiny) as networks:
        yield networks


@pytest.fixture(scope="module")
def traced(tiny: Tiny, project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The merged model with its own graphs."""
    output = tmp_path_factory.mktemp("traced") / "athens"
    merge("athens", str(tiny.data("train")), output, project / "adapters")
    return output


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


def assert_same_weights(network: Diagnosis, wanted: Diagnosis) -> None:
    for name, value in wanted.state_dict().items():
        assert torch.equal(value, network.state_dict()[name]), name


def test_the_merged_model_is_a_package_and_a_model(tiny, project, merged, exported, tmp_path):
    adapted = Adapted(tiny.data("train")).use(load_adapter(project / "adapters" / "athens"))
    assert_same_weights(load_diagnosis(merged), adapted)
    merge("athens", str(tiny.data("train")), tmp_path / "athens", project / "adapters")
    assert_same_weights(*exported, adapted)
    assert sha256_folder(tmp_path / "athens") == sha256_folder(merged)
    manifest, _ = open_package(merged)
    assert manifest.prepare == tiny.params.prepare
    assert manifest.preparation == PREPARATION
    assert sorted(path.name for path in merged.parent.iterdir()) == ["athens"]


@pytest.mark.slow
def test_the_merged_model_and_its_onnx_files_answer_alike(traced, tmp_path):
    _, model = open_package(traced)
    figures = parity_figures(load_diagnosis(traced), make_sequences(50), model.answer(make_sequences(50)))
    assert figures["parity_probability"] < 1e-5
    assert figures["parity_severity_permille"] < 1e-4
    out = tmp_path / "onnx"
    ended = run_cli("export", "--model", traced, "--output", out, cwd=tmp_path)
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


def test_predict_takes_an_adapter_by_its_name(tiny, project, merged, exported, tmp_path):
    points = [word for path in tiny.products() for word in ("--points", path)]
    given = (*points, "--buildings", tiny.footprints, "--model", tiny.data("train"), "--output", tmp_path / "said.csv")
    ended = run_cli("predict", *given, "--adapter", "athens", cwd=project)
    assert ended.code == 0, ended.err
    assert_same_weights(*exported, load_diagnosis(merged))
    predict(Request(tiny.products(), tiny.footprints, merged), tmp_path / "merged.csv")
    assert (tmp_path / "said.csv").read_text() == (tmp_path / "merged.csv").read_text()
    ended = run_cli("predict", *given, "--adapter", "athens", "--artifact", "int8", cwd=project)
    assert (ended.code, ended.err) == (
        2,
        "ERROR --artifact int8: an adapted model has float32 only. Leave --artifact out.\n",
    )
    ended = run_cli("predict", *given, "--adapter", "../athens", cwd=project)
    assert (ended.code, "no name of an adapter" in ended.err) == (2, True)


@pytest.mark.parametrize("place", ["base", "adapter"])
def test_a_merged_model_is_of_the_older_preparation_of_both_in_every_file(tiny, project, exported, tmp_path, place):
    """An adapter that this version made does not make the base younger, and one of an earlier version stays its."""
    base = tmp_path / "base"
    model = load_diagnosis(tiny.data("train"))
    model.preparation -= place == "base"
    save_diagnosis(model, base)
    shutil.copytree(project / "adapters", tmp_path / "adapters")
    about = tmp_path / "adapters" / "athens" / "adapter.json"
    older = {"base_sha256": base_hash(base), **({"preparation": PREPARATION - 1} if place == "adapter" else {})}
    write_json(about, {**read_json(about), **older})
    manifest = merge("athens", str(base), tmp_path / "merged", tmp_path / "adapters")
    weights = load_diagnosis(tmp_path / "merged").preparation
    assert [manifest.preparation, weights, *(network.preparation for network in exported)] == [PREPARATION - 1] * 3


def test_merge_replaces_nothing_but_what_it_wrote(tiny, project, merged, tmp_path):
    output = shutil.copytree(merged, tmp_path / "mine")
    (output / "notes.txt").write_text("mine")
    before = sha256_folder(tmp_path)
    with pytest.raises(InputError, match="did not write"):
        merge("athens", str(tiny.data("train")), output, project / "adapters")
    assert sha256_folder(tmp_path) == before
    with pytest.raises(InputError, match="came from elsewhere"):
        check_replaced(pretrained.PACKAGE, NO_GATE)


def test_merge_does_not_replace_the_base(project, merged, exported, tmp_path):
    """A merged model can be adapted again; without it the second adapter would be of nothing."""
    base = shutil.copytree(merged, tmp_path / "athens")
    first = load_adapter(project / "adapters" / "athens")
    about = first.about.model_copy(update={"base_sha256": base_hash(base)})
    save_adapter(replace(first, about=about), tmp_path / "adapters" / "second")
    before = sha256_folder(base)
    with refuses("output.is_input", "athens"):
        merge("second", str(base), tmp_path / "adapters" / ".." / "athens", tmp_path / "adapters")
    assert sha256_folder(base) == before
    merge("second", str(base), tmp_path / "again", tmp_path / "adapters")
    assert len(exported) == 1


def call(tiny: Tiny, city: CityFiles, folder: Path, model: Path, sections: object = None, *more: object):
    """`plumbline adapt` in a folder, with a parameters file of these sections."""
    points = [word for path in city.products for word in ("--points", path)]
    (folder / "mine.yaml").write_text(yaml.safe_dump(sections))
    own = ("--buildings", city.footprints, "--labels", city.labels, "--model", model, "--name", "one")
    return run_cli("adapt", *points, *own, "--params", "mine.yaml", *more, cwd=folder)


LIMITS = {"max_strain_error_permille": 1.5, "min_quadrant_confidence": 0.75}


@pytest.mark.parametrize(
    ("recorded", "stated", "wanted", "warning"),
    [
        ({"buffer_m": 5.0, "min_points": 8}, None, {"buffer_m": 5.0, "min_points": 8}, ()),
        (
            {"buffer_m": 5.0},
            {"buffer_m": 3.0, **LIMITS},
            {"buffer_m": 5.0, **LIMITS},
            ("model.prepared_otherwise", "prepare.buffer_m 3 (the model's 5)"),
        ),
        (LIMITS, {"neighbours_m": 50.0}, {**LIMITS, "neighbours_m": 50.0}, ()),
        (None, None, {}, ("model.unknown_preparation", "--params")),
        (None, {"buffer_m": 3.0}, {"buffer_m": 3.0}, ()),
    ],
)
def test_points_are_prepared_as_for_the_model_and_judged_as_the_user_says(
    tmp_path, caplog, recorded, stated, wanted, warning
):
    write_json(tmp_path / "record.json", {"params": {} if recorded is None else {"prepare": recorded}})
    found = prepare_of(tmp_path, None if stated is None else Prepare(**stated))
    assert found == Prepare(**wanted)
    assert warned(caplog, *warning) if warning else not warning_keys(caplog)


def test_the_preparation_is_that_of_the_record_or_of_the_package(tiny, merged, tmp_path):
    for model in (tiny.data("train"), tiny.data("compress")):  # the stages themselves write it
        assert prepare_of(model, None).buffer_m == tiny.params.prepare.buffer_m
    assert prepare_of(merged, None) == verify_package(merged).prepare
    assert prepare_of(pretrained.MODEL, None) == verify_package(pretrained.PACKAGE).prepare
    write_json(tmp_path / "record.json", {"params": {"prepare": {"buffer_m": -1}}})
    with refuses("model.damaged_record", "record.json", "params.prepare"):
        prepare_of(tmp_path, None)


def test_a_file_with_any_of_the_sections_will_do(tiny, city, tmp_path):
    ended = call(tiny, city, tmp_path, tiny.data("train"), {"adapt": {**FAST, "rank": 5, "min_interval_labels": 5000}})
    assert ended.code == 0, ended.err
    assert " labels, 5000 are needed to fit the interval; as in the base" in ended.err
    assert load_adapter(tmp_path / "adapters" / "one").about.made["params"]["adapt"]["rank"] == 5
    for section, said in (
        ({"adept": FAST}, "ERROR mine.yaml: adept: no section of a params file"),
        ({"adapt": {**FAST, "targets": ["foo*"]}}, "ERROR mine.yaml: adapt.targets: "),
        ({"adapt": {**FAST, "min_labels": 5000}}, "labelled buildings that can be judged found, 5000 needed"),
    ):
        ended = call(tiny, city, tmp_path, tiny.data("train"), section)
        assert (ended.code, said in ended.err) == (2, True), ended.err


@pytest.mark.parametrize(("kind", "said"), [("notes", "(notes.txt)"), ("file", "is a file")])
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
    assert "labels are of category 0" in ended.err
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
    given = {"model": str(tiny.data("train")), "name": name, "params": QUICK}
    with pytest.raises(InputError, match=re.escape(repr(name))):
        adapt(city.products, city.footprints, city.labels, **given, root=tmp_path)


def test_a_missing_adapter_and_a_missing_model_are_named(tiny, project, tmp_path):
    with refuses("adapter.missing", "bergen", "athens found"):
        merge("bergen", str(tiny.data("train")), tmp_path / "merged", project / "adapters")
    with refuses("model.missing", "--model nowhere"):
        merge("athens", "nowhere", tmp_path / "merged", project / "adapters")
    shutil.copytree(tiny.data("compress"), tmp_path / "other")
    with pytest.raises(InputError, match="adapter athens"):
        merge("athens", str(tmp_path / "other"), tmp_path / "merged", project / "adapters")
