from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from plumbline import pretrained
from plumbline.core.errors import InputError
from plumbline.model.diagnosis import Diagnosis, load_diagnosis, save_diagnosis
from plumbline.model.weights import PREPARED
from plumbline.prepare.features.definition import PREPARATION
from plumbline.prepare.features.shards import load_shards
from plumbline.pretrained import PACKAGE
from plumbline.train.data.splits import STANDARDISATION
from plumbline.train.fit import initial_weights as compatibility
from plumbline.train.fit.initial_weights import first_weights, freeze, load_pretrained
from tests.refusals import refuses, warned, warning_keys
from tests.train.fit.test_trainer import Killed, run
from tests.train.made import make_model, make_params, make_sequences


def test_frozen_parameters_keep_their_values_and_others_do_not(work):
    run("first", epochs=1)
    run("out", epochs=1, start_from=["first"], freeze=["encoder.distance.*", "*.bias"])
    before, after = (load_file(Path(out) / "model.safetensors") for out in ("first", "out"))
    for name in before:
        if name.startswith("network."):
            kept = name.startswith("network.encoder.distance.") or name.endswith(".bias")
            assert torch.equal(before[name], after[name]) == kept, name


@pytest.mark.parametrize(
    ("patterns", "key", "place"),
    [(["*.bias", "decoder.*"], "freeze.no_match", "'decoder.*'"), (["*"], "freeze.all_frozen", "train")],
)
def test_what_cannot_be_frozen_is_refused(patterns, key, place):
    with refuses(key, "train.freeze: ", place):
        freeze(make_model(), patterns)


def test_pretrained_weights_come_with_their_standardisation_and_not_with_what_they_had_seen(work, said):
    pretrained, train = make_model(), make_sequences(60, 5)
    first_weights(pretrained, make_sequences(60, 4), make_params().train)
    pretrained.get_buffer("severity_limit").fill_(50)
    save_diagnosis(pretrained, Path("before"))
    model, plain = make_model(), make_model()
    first_weights(model, train, make_params(start_from=["checkpoint", "before", "random"]).train)
    first_weights(plain, train, make_params().train)
    state, wanted, other = model.state_dict(), pretrained.state_dict(), plain.state_dict()
    for name in state:
        same = name.startswith("network.") or name in (*STANDARDISATION, "severity_limit")
        assert torch.equal(state[name], wanted[name]) == same or torch.equal(wanted[name], other[name]), name
    assert torch.equal(state["geometry_middle"], other["geometry_middle"])
    distance = model.novelty_distance(torch.from_numpy(train.geometry))
    assert float(torch.quantile(distance, 0.999)) * 1.1 == pytest.approx(float(state["novelty_limit"]), rel=1e-4)
    assert "INFO weights: pretrained, from before" in said


def test_the_first_of_the_list_that_is_there_is_taken(tmp_path, monkeypatch, said, caplog):
    monkeypatch.chdir(tmp_path)
    save_diagnosis(make_model(), Path("first"))
    first_weights(make_model(), make_sequences(60), make_params(start_from=["./elsewhere", "first", "random"]).train)
    assert warned(caplog, "start_from.no_weights", "elsewhere")
    assert said[1:] == ["INFO weights: pretrained, from first"]


@pytest.mark.parametrize(
    ("sources", "problem", "place"),
    [
        (["checkpoint", str(PACKAGE), "random"], "package", PACKAGE),
        (["pretraned", "random"], "unknown_word", "pretrained meant"),
        (["chekpoint", "random"], "unknown_word", "checkpoint meant"),
        (["elsewhere", "random"], "unknown_word", "./elsewhere"),
        # DVC removes it before the stage begins.
        (["data/train", "random"], "own_output", "data/train"),
        (["data/../data/train/older/", "random"], "own_output", "older"),
        (["some/elsewhere"], "none_found", "`random`"),
        (["checkpoint"], "no_checkpoint", "train.start_from"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_beginning_that_is_not_there_is_refused_and_not_passed_over(sources, problem, place, work):
    """Training would begin at random, for hours, where a model was named."""
    Path("data/train/older").mkdir(parents=True)
    with refuses(f"start_from.{problem}", "train.start_from: ", place):
        run("data/train", start_from=sources)


def test_without_the_word_checkpoint_an_interrupted_run_begins_anew(work, said):
    with pytest.raises(Killed):
        run(dies_before=1, start_from=["random"])
    run(start_from=["random"])
    assert not any("resuming" in line for line in said)


def test_an_interrupted_run_of_other_params_is_named(work, said):
    with pytest.raises(Killed):
        run(dies_before=1)
    run("other", seed=9, epochs=1, profile="simple")
    told = [line for line in said if "is not gone on with" in line]
    assert len(told) == 1
    assert "it had other data, params or first weights" in told[0]
    assert "checkpoints/train-" in told[0]
    run()
    assert any("resuming from the checkpoint" in line for line in said)
    assert sum("is not gone on with" in line for line in said) == 1


OTHER = [
    ({"heads": 4}, ["model.heads: 4 found, 2 needed"]),
    ({"max_attention_length": 8}, ["model.max_attention_length: 8 found, 1024 needed"]),
    ({"channels": 4, "blocks": 2}, ["model.channels: 4 found, 8 needed", "model.blocks: 2 found, 1 needed"]),
    ({"attention": "none"}, ["model.attention: none found, sdpa needed", "model.attention_layers: 0 found, 1 needed"]),
    ({"position": "sinusoidal"}, ["model.position: sinusoidal found, learned needed"]),
]


@pytest.mark.parametrize(("changed", "said"), OTHER, ids=[str(changed) for changed, _ in OTHER])
def test_weights_of_another_network_are_refused_naming_each_parameter(changed, said, tmp_path):
    """Of most of them all shapes are the same."""
    save_diagnosis(make_model(**changed), tmp_path / "before")
    with refuses("start_from.other_network", f"train.start_from: {tmp_path / 'before'}: {'; '.join(said)}. "):
        load_pretrained(make_model(), tmp_path / "before")


def test_a_pruned_network_is_said_to_be_one(tmp_path):
    pruned = make_model().network.spec.model_copy(update={"distance_hidden": [4]})
    save_diagnosis(Diagnosis(pruned), tmp_path)
    with refuses("start_from.pruned", tmp_path):
        load_pretrained(make_model(), tmp_path)


@pytest.mark.parametrize(
    ("trained", "words"),
    [
        (128, "model.position: sinusoidal found, learned needed; prepare.max_points: 128 found, 40 needed"),
        (24, "prepare.max_points: 24 found, 40 needed"),
    ],
)
def test_a_position_code_that_follows_the_longest_sequence_is_named(trained, words, tmp_path):
    save_diagnosis(make_model(trained), tmp_path)
    with refuses("start_from.other_network", f": {words}. "):
        load_pretrained(make_model(40), tmp_path)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (make_model(dropout=0.3, attention="ragged", checkpoint_activations=True), make_model()),
        (make_model(128), make_model(200)),
        (make_model(128, position="none"), make_model(40, position="none")),
        (make_model(attention="none", heads=4, position="sinusoidal"), make_model(attention_layers=0)),
        (make_model(max_attention_length=512), make_model()),
    ],
    ids=["training", "sinusoidal", "none", "without attention", "short enough for attention"],
)
def test_what_means_the_same_is_taken(before, after, tmp_path):
    save_diagnosis(before, tmp_path)
    load_pretrained(after, tmp_path)
    for name, value in before.network.state_dict().items():
        assert torch.equal(after.network.state_dict()[name], value)


def test_weights_for_points_that_were_prepared_otherwise_are_refused(tmp_path, monkeypatch, caplog):
    save_diagnosis(make_model(), tmp_path)
    monkeypatch.setattr(compatibility, "PREPARATION", 99)
    with refuses("model.old_preparation", tmp_path, f"({PREPARATION}, now 99)"):
        load_pretrained(make_model(), tmp_path)
    shipped = Diagnosis(load_diagnosis(pretrained.MODEL).network.spec)
    with refuses("model.old_preparation", "pretrained/model", f"({PREPARATION}, now 99)"):
        load_pretrained(shipped, pretrained.MODEL)
    save_file(load_file(tmp_path / "model.safetensors"), tmp_path / "model.safetensors")  # as it was once written
    load_pretrained(make_model(), tmp_path)
    assert warning_keys(caplog) == ["model.no_preparation_version"]
    assert warned(caplog, "model.no_preparation_version", tmp_path)


@pytest.mark.parametrize("version", ["1.0", "new", ""])
def test_a_preparation_version_that_is_no_whole_number_is_refused(tmp_path, version):
    save_diagnosis(make_model(), tmp_path)
    weights = tmp_path / "model.safetensors"
    save_file(load_file(weights), weights, {PREPARED: version})
    for load in (load_diagnosis, lambda folder: load_pretrained(make_model(), folder)):
        with refuses("weights.bad_preparation", weights, repr(version)):
            load(tmp_path)


def test_the_shipped_model_is_taken_where_the_section_is_its_own(said):
    shipped = Diagnosis(load_diagnosis(pretrained.MODEL).network.spec)
    load_pretrained(shipped, pretrained.MODEL)
    assert not said


def test_a_damaged_folder_is_refused(tmp_path):
    save_diagnosis(make_model(), tmp_path)
    weights, widths = (tmp_path / f"model.{kind}" for kind in ("safetensors", "json"))
    state = load_file(weights)
    save_file({**state, "severity_mean": torch.zeros(2)}, weights)
    with refuses("network.unreadable_weights", weights, "severity_mean"):
        load_pretrained(make_model(), tmp_path)
    weights.write_bytes(b"no weights")
    with refuses("network.unreadable_weights", weights):
        load_pretrained(make_model(), tmp_path)
    widths.write_text('{"heads": 2}')
    with refuses("network.unreadable_spec", widths):
        load_pretrained(make_model(), tmp_path)
    widths.unlink()
    with pytest.raises(InputError, match=r"model\.json"):
        load_pretrained(make_model(), tmp_path)


@pytest.mark.parametrize("order", [["random", "checkpoint"], ["random", "folder"], ["folder", "checkpoint"]])
def test_an_order_that_cannot_be_is_refused(order):
    with pytest.raises(InputError, match="start_from"):
        make_params(start_from=order)


def test_a_run_depends_on_the_pretrained_model(work, said):
    """Another model in the same folder is another run: its checkpoint is not taken up."""
    run("first", epochs=1)
    changed = {"start_from": ["checkpoint", "first"], "epochs": 2}
    with pytest.raises(Killed):
        run("out", dies_before=1, **changed)
    model = load_diagnosis(Path("first"))
    with torch.no_grad():
        next(model.parameters()).add_(1)
    save_diagnosis(model, Path("first"))
    run("out", **changed)
    assert not any("resuming" in line for line in said)
    assert len(load_shards(Path("data/prepare/train"))) == 160
