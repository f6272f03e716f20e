from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from plumbline.core.errors import InputError
from plumbline.model.diagnosis import Diagnosis, load_diagnosis, save_diagnosis
from plumbline.params import Prepare
from plumbline.params.serve import Adapt
from plumbline.prepare.features.sequences import UNDEFINED, Sequences
from plumbline.train.adapt.adapter import (
    ABOUT,
    WEIGHTS,
    Adapted,
    Adapter,
    base_hash,
    check_name,
    list_adapters,
    load_adapter,
    save_adapter,
)
from plumbline.train.adapt.fit import TooFewLabels, adapt, fit_copy, with_changes
from plumbline.train.adapt.lora import added_tensors, attach, changes
from plumbline.train.fit.initial_weights import first_weights
from tests.model.made import inputs, small_model
from tests.refusals import refuses, warned
from tests.train.made import in_quadrants, make_params, make_sequences

QUICK = Adapt(epochs=4, batch_size=32, threads=1, min_temperature_labels=30)


def places(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0, 2000, (count, 2))


def save_base(folder: Path, seed: int = 0) -> Path:
    torch.manual_seed(seed)
    model = small_model(24, seed)
    first_weights(model, make_sequences(120, seed), make_params().train)
    save_diagnosis(model, folder)
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    return save_base(tmp_path_factory.mktemp("base"))


def labelled(name: str) -> tuple[Sequences, np.ndarray]:
    """Buildings of a domain and their places: usual ones; large ones on sloping ground; few that stand together."""
    count = 24 if name == "cairo" else 60
    sequences = make_sequences(count, 50 + len(name))
    if name == "bergen":
        sequences.geometry[:, 0] *= 40
        sequences.geometry[:, 5] += 30
    return sequences, places(count) / (30 if name == "cairo" else 1)


def adapted(base: Path, name: str) -> Adapter:
    return adapt(load_diagnosis(base), base_hash(base), *labelled(name), params=QUICK, name=name, prepare=Prepare())


@pytest.fixture(scope="module")
def adapters(base, tmp_path_factory) -> Path:
    """Three adapters of one base, each of labels of its own."""
    root = tmp_path_factory.mktemp("adapters")
    for name in ("athens", "bergen", "cairo"):
        save_adapter(adapted(base, name), root / name)
    return root


@pytest.fixture(scope="module")
def learned(base) -> tuple[Diagnosis, Diagnosis]:
    """A model with changes before and after they are fit_copy, late ones included."""
    start = with_changes(load_diagnosis(base), QUICK)
    return start, fit_copy(start, make_sequences(60, 7), QUICK, 0.0)


def answers(model: Diagnosis) -> list[torch.Tensor]:
    with torch.inference_mode():
        return list(model(*inputs([5, 9, 24], seed=3)))


def answers_to(model: Diagnosis, sequences: Sequences) -> np.ndarray:
    """(B,) permille."""
    inputs = sequences.pad(np.arange(len(sequences)))
    with torch.inference_mode():
        said = model(*(torch.from_numpy(np.array(inputs[k])) for k in ("distance", "slope", "geometry", "mask")))
    return said.severity_permille.numpy()


def attached(model: Diagnosis, rank: int = 4) -> Diagnosis:
    attach(model.network, rank)
    return model


def test_changes_that_are_not_trained_yet_leave_every_answer_as_it_is(base):
    model = load_diagnosis(base)
    before = answers(model)
    after = answers(attached(model))
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("rank", [4, 16])
def test_a_change_has_the_rank_that_was_asked_for(rank):
    model = attached(small_model(24, channels=32, hidden=48), rank)
    for name, change in changes(model.network).items():
        if not change.late:
            nn.init.normal_(change.lora_B)
            added = (change(torch.zeros(len(change.lora_B), change.lora_A.shape[1]))).detach()
            assert int(torch.linalg.matrix_rank(added)) == rank, name


def test_only_changes_are_trained_and_the_base_keeps_every_bit(base, learned):
    before = load_diagnosis(base).state_dict()
    moved = 0
    for name, value in learned[1].named_parameters():
        if name.endswith(("lora_A", "lora_B", "shift")):
            moved += int(value.count_nonzero() > 0)
            continue
        assert torch.equal(value, before[name.replace("parametrizations.", "").removesuffix(".original")]), name
    assert moved == sum(1 + (not change.late) for change in changes(learned[1].network).values())
    assert all(not change.shift.any() for change in changes(learned[0].network).values() if change.late)


def test_late_parameters_wait_for_their_epoch(learned):
    early = fit_copy(learned[0], make_sequences(30, 7), QUICK.model_copy(update={"epochs": 1, "unfreeze_at": 1.0}), 0.0)
    for name, change in changes(early.network).items():
        still = change.shift if change.late else change.lora_B
        assert bool(still.count_nonzero()) != change.late, name


def test_the_merged_model_answers_as_the_adapted_one(base, adapters, learned, tmp_path):
    tensors = {f"network.{name}": value for name, value in added_tensors(learned[1].network).items()}
    merged = Adapted(base).use(Adapter(load_adapter(adapters / "athens").about, tensors))
    save_diagnosis(merged, tmp_path / "merged")
    for one, two in zip(answers(learned[1]), answers(load_diagnosis(tmp_path / "merged")), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-6)


def test_adapters_of_three_domains_are_switched_and_each_answers_as_on_its_own(base, adapters):
    holder = Adapted(base)
    loaded = {about.name: load_adapter(adapters / about.name) for about in list_adapters(adapters)}
    assert list(loaded) == ["athens", "bergen", "cairo"]
    alone = {name: answers(Adapted(base).use(one)) for name, one in loaded.items()}
    alone["base"] = answers(load_diagnosis(base))
    for name in ("cairo", "athens", "base", "bergen", "athens", "base", "cairo"):
        said = answers(holder.use(loaded.get(name)))
        assert all(torch.equal(a, b) for a, b in zip(said, alone[name], strict=True)), name
    assert not torch.equal(alone["athens"][3], alone["base"][3])  # its interval is its own


def test_another_base_is_refused(adapters, tmp_path):
    other = save_base(tmp_path / "other", seed=1)
    with refuses("adapter.other_model", "adapter athens: ", other, "--model"):
        Adapted(other).use(load_adapter(adapters / "athens"))


@pytest.mark.parametrize(
    ("sequences", "centre", "key", "places_named"),
    [
        (make_sequences(19), places(19), "labels.too_few", ("19 ", "20 ", "adapt.min_labels")),
        (make_sequences(24), 0 * places(24), "labels.too_few_places", ("24 ", "1 places", "5 places")),
    ],
    ids=["few", "of one place"],
)
def test_too_few_labels_are_refused_with_their_number(base, sequences, centre, key, places_named):
    with refuses(key, *places_named, error=TooFewLabels):
        adapt(load_diagnosis(base), base_hash(base), sequences, centre, params=QUICK, name="one", prepare=Prepare())


def test_few_labels_leave_the_calibration_of_the_base(base, adapters):
    few, many = load_adapter(adapters / "cairo"), load_adapter(adapters / "athens")
    known = load_diagnosis(base).state_dict()
    assert (few.about.temperature_calibrated, few.about.interval_calibrated) == (False, False)
    assert (many.about.temperature_calibrated, many.about.interval_calibrated) == (True, True)
    for name in ("temperature", "interval_below", "interval_above"):
        assert torch.equal(few.tensors[f"buffer.{name}"], known[name])
        assert not torch.equal(many.tensors[f"buffer.{name}"], known[name])


def test_the_adapted_model_answers_for_buildings_like_the_labelled_ones(base, adapters):
    geometry = torch.from_numpy(labelled("bergen")[0].geometry)
    holder = Adapted(base)
    assert (holder.use(None).novelty(geometry) > 1).all()
    assert (holder.use(load_adapter(adapters / "bergen")).novelty(geometry) <= 1).all()


@pytest.mark.heavy
def test_severities_at_another_level_are_found(base, tmp_path):
    """The labels are half of the base's own answers, give or take a third."""
    model, sequences = load_diagnosis(base), make_sequences(60, 8)
    model.get_buffer("severity_mean").add_(2)  # so that all its answers are well above nothing
    model.get_buffer("severity_limit").fill_(50)
    save_diagnosis(model, tmp_path)
    said = answers_to(model, sequences)
    scatter = np.exp(0.3 * np.random.default_rng(0).normal(size=60))
    labels = in_quadrants(sequences, np.full(60, UNDEFINED))
    labels = replace(labels, severity=(said / 2 * scatter).astype(np.float32))
    one = adapt(model, base_hash(tmp_path), labels, places(60), params=QUICK, name="half", prepare=Prepare())
    assert one.about.level > 0.99
    assert one.about.after["severity_mae"] < 0.6 * one.about.before["severity_mae"]
    now = answers_to(Adapted(tmp_path).use(one), sequences)
    assert np.median(now[said > 1] / said[said > 1]) == pytest.approx(0.5, rel=0.2)
    assert not one.about.temperature_calibrated
    for figures in (one.about.before, one.about.after):  # a quadrant that no label has is neither right nor wrong
        assert [key for key, value in figures.items() if value is None] == ["quadrant_accuracy", "score"]
    save_adapter(one, tmp_path / "adapters" / "half")
    assert [about.after for about in list_adapters(tmp_path / "adapters")] == [one.about.after]


@pytest.mark.heavy
def test_what_labels_say_of_buildings_is_learned(base):
    """The base is untrained: what it says has nothing to do with the buildings."""
    section = QUICK.model_copy(
        update={"epochs": 8, "learning_rate": 0.05, "batch_size": 16, "unfreeze_at": 0.0, "min_lora_labels": 60}
    )
    labels = make_sequences(60, 8), places(60)
    one = adapt(load_diagnosis(base), base_hash(base), *labels, params=section, name="one", prepare=Prepare())
    assert one.about.after["score"] > one.about.before["score"] + 0.1
    assert one.about.parameters > 0
    assert any(name.endswith(".lora_B") for name in one.tensors)
    model = Adapted(base).use(one)
    assert (answers(model)[0] - answers(load_diagnosis(base))[0]).abs().max() > 0.01


def test_the_same_labels_give_the_same_adapter(base, adapters):
    again, known = adapted(base, "cairo"), load_adapter(adapters / "cairo")
    assert again.tensors.keys() == known.tensors.keys()
    assert all(torch.equal(value, known.tensors[name]) for name, value in again.tensors.items())


@pytest.mark.parametrize(
    ("name", "key", "change"),
    [
        (WEIGHTS, "adapter.changed", lambda content: content[:100]),
        (WEIGHTS, "adapter.changed", lambda content: content[:-1] + b" "),
        (WEIGHTS, "adapter.changed", lambda _: None),
        (ABOUT, "adapter.bad_value", lambda content: content.replace(b'"labels"', b'"lables"')),
    ],
    ids=["cut", "other", "gone", "key"],
)
def test_a_damaged_adapter_is_refused_and_hides_no_other_from_the_list(adapters, tmp_path, caplog, name, key, change):
    """Each is listed by the name of its folder."""
    for folder in ("sound", "damaged"):
        save_adapter(load_adapter(adapters / "athens"), tmp_path / folder)
    path = tmp_path / "damaged" / name
    content = change(path.read_bytes())
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with refuses(key, path):
        load_adapter(tmp_path / "damaged")
    assert [about.name for about in list_adapters(tmp_path)] == ["sound"]
    assert warned(caplog, key, path)


@given(st.text(st.sampled_from("aZ9_.-/\\:~ \n\0é"), max_size=70))
def test_a_name_that_passes_is_one_folder(name):
    try:
        check_name(name)
    except InputError:
        return
    assert Path("adapters", name).parent == Path("adapters")
    assert Path(name).name == name
