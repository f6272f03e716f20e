from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from plumbline.core.errors import InputError
from plumbline.core.files import read_json, sha256_file, write_json
from plumbline.model.diagnosis import Diagnosis, load_diagnosis, save_diagnosis
from plumbline.params import Prepare
from plumbline.params.serve import Adapt
from plumbline.prepare.features.definition import PREPARATION
from plumbline.prepare.features.sequences import UNDEFINED, Sequences
from plumbline.train.adapt.adapter import (
    ABOUT,
    MAX_BYTES,
    WEIGHTS,
    Adapted,
    Adapter,
    base_hash,
    check_name,
    list_adapters,
    load_adapter,
    save_adapter,
)
from plumbline.train.adapt.fit import TooFewLabels, _check_share, adapt, changed, share, unchanged
from plumbline.train.adapt.lora import attach, blend, changes, count_changes
from plumbline.train.fit.initial_weights import first_weights
from tests.model.made import inputs, small_model
from tests.train.made import in_quadrants, make_params, make_sequences

# A share is of a network: the tests' own is so small that it allows more.
QUICK = Adapt(epochs=4, folds=2, batch_size=32, max_share=0.9, threads=1, min_temperature_labels=30)


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
    return adapt(load_diagnosis(base), base_hash(base), *labelled(name), QUICK, name, Prepare())


@pytest.fixture(scope="module")
def adapters(base, tmp_path_factory) -> Path:
    """Three adapters of one base, each of labels of its own."""
    root = tmp_path_factory.mktemp("adapters")
    for name in ("athens", "bergen", "cairo"):
        save_adapter(adapted(base, name), root / name)
    return root


@pytest.fixture(scope="module")
def fitted(base) -> tuple[Diagnosis, Diagnosis]:
    """A model with changes before and after they are fitted, late ones included."""
    start = unchanged(load_diagnosis(base), QUICK)
    return start, changed(start, make_sequences(60, 7), QUICK.as_train(), QUICK.late_epoch)


def answers(model: Diagnosis) -> list[torch.Tensor]:
    with torch.inference_mode():
        return list(model(*inputs([5, 9, 24], seed=3)))


def answers_to(model: Diagnosis, sequences: Sequences) -> np.ndarray:
    """(B,) permille."""
    inputs = sequences.pad(np.arange(len(sequences)))
    with torch.inference_mode():
        said = model(*(torch.from_numpy(np.array(inputs[k])) for k in ("distance", "slope", "geometry", "mask")))
    return said.severity_permille.numpy()


def attached(model: Diagnosis, **section) -> Diagnosis:
    section = Adapt(**section)
    attach(model.network, section.targets, section.unfreeze, section.rank, section.alpha)
    return model


def test_changes_that_are_not_trained_yet_leave_every_answer_as_it_is(base):
    model = load_diagnosis(base)
    before = answers(model)
    after = answers(attached(model))
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("rank", [4, 16])
def test_a_change_has_the_rank_that_was_asked_for(rank):
    model = attached(small_model(24, channels=32, hidden=48), rank=rank, targets=["encoder.*.first.weight"])
    for name, change in changes(model.network).items():
        if not change.late:
            nn.init.normal_(change.lora_B)
            added = (change(torch.zeros(len(change.lora_B), change.lora_A.shape[1]))).detach()
            assert int(torch.linalg.matrix_rank(added)) == rank, name


def test_only_changes_are_trained_and_the_base_keeps_every_bit(base, fitted):
    before = load_diagnosis(base).state_dict()
    moved = 0
    for name, value in fitted[1].named_parameters():
        if name.endswith(("lora_A", "lora_B", "shift")):
            moved += int(value.count_nonzero() > 0)
            continue
        assert torch.equal(value, before[name.replace("parametrizations.", "").removesuffix(".original")]), name
    assert moved == sum(1 + (not change.late) for change in changes(fitted[1].network).values())
    assert all(not change.shift.any() for change in changes(fitted[0].network).values() if change.late)


def test_late_parameters_wait_for_their_epoch(fitted):
    early = changed(fitted[0], make_sequences(30, 7), QUICK.as_train().model_copy(update={"epochs": 1}), 1)
    for name, change in changes(early.network).items():
        still = change.shift if change.late else change.lora_B
        assert bool(still.count_nonzero()) != change.late, name


def test_a_part_of_the_changes_lies_between_before_and_after(fitted):
    start, end = fitted
    for part in (0.0, 0.5, 1.0):
        model = deepcopy(end)
        blend(model.network, start.network, part)
        for name, value in model.named_parameters():
            low, high = (dict(one.named_parameters())[name] for one in fitted)
            torch.testing.assert_close(value, low + part * (high - low))


def test_the_merged_model_answers_as_the_adapted_one(base, adapters, fitted, tmp_path):
    tensors = {
        f"network.{name}.{kind}": value.detach()
        for name, change in changes(fitted[1].network).items()
        for kind, value in change.named_parameters()
    }
    merged = Adapted(base).use(Adapter(load_adapter(adapters / "athens").about, tensors))
    save_diagnosis(merged, tmp_path / "merged")
    for one, two in zip(answers(fitted[1]), answers(load_diagnosis(tmp_path / "merged")), strict=True):
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


def test_an_adapter_of_the_default_network_is_small(tmp_path):
    torch.manual_seed(0)
    spec = small_model(128, channels=32, heads=4, hidden=96)
    trained, total = (
        count_changes(attached(spec).network),
        sum(p.numel() for p in small_model(128, channels=32, heads=4, hidden=96).network.parameters()),
    )
    assert trained / total < 0.08
    assert 4 * trained < MAX_BYTES


@pytest.mark.parametrize("rank", range(4, 17))
def test_of_default_targets_as_many_are_changed_as_may_be(rank, caplog):
    default = small_model(128, channels=32, heads=4, hidden=96, attention_layers=1)
    section = Adapt(rank=rank)
    start = unchanged(default, section)
    assert share(start) < 0.08
    low = {name for name, change in changes(start.network).items() if not change.late}
    assert "heads.join_geometry.weight" in low
    assert ("heads.join_pooled.0.weight" in low) == (rank <= 10)
    assert ("neck.attention.0.attention.query.weight" in low) == (rank <= 5)
    with caplog.at_level("INFO", logger="plumbline"):
        _check_share(start, default, section)
    said = [record.getMessage().split(" at ")[0] for record in caplog.records]
    left = ["heads.join_pooled.*.weight"] * (rank > 10) + ["neck.attention.*.attention.*.weight"]
    assert said == [f"adapt: no change of {', '.join(left)}"] * (rank > 5)
    assert share(unchanged(default, Adapt(rank=rank, targets=section.targets))) >= share(start)


def test_too_large_a_share_is_refused_with_its_figure(base):
    section = QUICK.model_copy(update={"max_share": 0.01})
    with pytest.raises(InputError, match=r"adapt: \d+ of \d+ parameters would be trained, .*%; at most 1% may be"):
        adapt(load_diagnosis(base), base_hash(base), make_sequences(60), places(60), section, "one", Prepare())


def test_too_large_an_adapter_is_refused_before_it_is_fitted(monkeypatch):
    large = small_model(24, channels=32, heads=4, hidden=96)
    section = QUICK.model_copy(update={"rank": 16, "targets": ["*weight"], "unfreeze": ["*.bias"], "max_share": 1.0})
    monkeypatch.setattr("plumbline.train.adapt.fit.try_ways", None)
    with pytest.raises(InputError, match=rf"^adapt: an adapter of \d+ bytes, {MAX_BYTES} allowed. Lower adapt.rank"):
        adapt(large, "0" * 64, make_sequences(60), places(60), section, "one", Prepare())


def test_too_large_a_file_is_refused_and_nothing_is_written(base, adapters, tmp_path):
    one = load_adapter(adapters / "athens")
    large = type(one)(one.about, {**one.tensors, "network.more.shift": torch.zeros(30_000)})
    with pytest.raises(InputError, match=f"{WEIGHTS}: .* bytes, {MAX_BYTES} allowed. Lower adapt.rank"):
        save_adapter(large, tmp_path / "large")
    assert not list(tmp_path.iterdir())


def test_another_base_is_refused(adapters, tmp_path):
    other = save_base(tmp_path / "other", seed=1)
    with pytest.raises(InputError, match=r"adapter athens: made for the model \w{12}…; .*other is \w{12}…"):
        Adapted(other).use(load_adapter(adapters / "athens"))


def test_too_few_labels_are_refused_with_their_number(base):
    with pytest.raises(InputError, match=r"19 labelled buildings that can be judged found, 20 needed"):
        adapt(load_diagnosis(base), base_hash(base), make_sequences(19), places(19), QUICK, "one", Prepare())


def test_more_folds_than_labelled_buildings_are_refused_by_their_own_key(base):
    sequences, centre = labelled("cairo")
    with pytest.raises(TooFewLabels, match=r"^adapt\.folds: 30 found, but the 24 labelled buildings .* label more"):
        adapt(
            load_diagnosis(base),
            base_hash(base),
            sequences,
            centre,
            QUICK.model_copy(update={"folds": 30}),
            "cairo",
            Prepare(),
        )


@pytest.mark.heavy
def test_a_rate_that_is_too_high_is_named_by_the_section_that_has_it(base):
    params = QUICK.model_copy(update={"learning_rate": 1e30})
    with pytest.raises(InputError, match=r"^adapt: the loss is .* Lower adapt\.learning_rate"):
        adapt(load_diagnosis(base), base_hash(base), *labelled("athens"), params, "athens", Prepare())


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
    one = adapt(model, base_hash(tmp_path), labels, places(60), QUICK, "half", Prepare())
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
    section = QUICK.model_copy(update={"epochs": 20, "learning_rate": 0.03, "batch_size": 16, "unfreeze_at": 0.0})
    one = adapt(load_diagnosis(base), base_hash(base), make_sequences(80, 8), places(80), section, "one", Prepare())
    assert one.about.after["score"] > one.about.before["score"] + 0.1
    assert one.about.part > 0


def test_the_same_labels_give_the_same_adapter(base, adapters):
    again, known = adapted(base, "cairo"), load_adapter(adapters / "cairo")
    assert again.tensors.keys() == known.tensors.keys()
    assert all(torch.equal(value, known.tensors[name]) for name, value in again.tensors.items())


@pytest.mark.parametrize("damage", ["cut", "other", "gone", "key"])
def test_a_damaged_adapter_is_refused(adapters, tmp_path, damage):
    save_adapter(load_adapter(adapters / "athens"), tmp_path / "one")
    weights, about = tmp_path / "one" / WEIGHTS, tmp_path / "one" / ABOUT
    if damage == "cut":
        weights.write_bytes(weights.read_bytes()[:100])
    elif damage == "other":
        weights.write_bytes((adapters / "bergen" / WEIGHTS).read_bytes())
    elif damage == "gone":
        weights.unlink()
    else:
        about.write_text(about.read_text().replace('"rank"', '"runk"'))
    with pytest.raises(InputError, match="one"):
        load_adapter(tmp_path / "one")


HUGE, AGAIN = f"more than {MAX_BYTES} bytes", "or run `plumbline adapt` again"


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        (WEIGHTS, b"", "0 bytes of SHA-256"),
        (WEIGHTS, bytes(MAX_BYTES + 1), HUGE),
        (ABOUT, b" " * (MAX_BYTES + 1), HUGE),
        (ABOUT, b"", "not readable as JSON"),
        (ABOUT, b"\xff\xfe{", "not readable as JSON"),
        (ABOUT, b"[" * 90_000, "not readable as JSON"),
        (ABOUT, b"[]", "valid dictionary"),
        (ABOUT, None, "Is a directory"),
    ],
    ids=["empty", "huge", "huge json", "empty json", "bytes", "deep", "list", "folder"],
)
def test_files_from_elsewhere_are_refused_by_name(adapters, tmp_path, file, content, said):
    save_adapter(load_adapter(adapters / "athens"), tmp_path / "one")
    path = tmp_path / "one" / file
    path.unlink()
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_adapter(tmp_path / "one")
    assert all(part in str(caught.value) for part in (str(path), said, AGAIN))


def of_the_hash(folder: Path, **about: object) -> Path:
    """The folder, with an `adapter.json` that its weights, whatever they are, belong to."""
    content = read_json(folder / ABOUT)
    hashes = {"weights_sha256": sha256_file(folder / WEIGHTS), "about_sha256": None}
    write_json(folder / ABOUT, {**content, **hashes, **about})
    return folder


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ({"preparation": PREPARATION + 1}, f"preparation {PREPARATION + 1} found, {PREPARATION} known"),
        ({"about_sha256": "0" * 64}, "changed since it was written"),
        ({"rank": 0}, "rank: Input should be greater than or equal to 1"),
        ({"alpha": 0.0}, "alpha: Input should be greater than 0"),
        ({"after": {"score": 1.0}}, "after: quadrant_accuracy is missing"),
        ({}, "not a file of tensors"),
    ],
)
def test_what_no_adapter_says_is_refused(adapters, tmp_path, about, said):
    save_adapter(load_adapter(adapters / "athens"), tmp_path / "one")
    if not about:
        (tmp_path / "one" / WEIGHTS).write_bytes(b"weights")
    with pytest.raises(InputError, match=said):
        load_adapter(of_the_hash(tmp_path / "one", **about))


@pytest.mark.parametrize("change", ["unknown", "shape", "half", "nan"])
def test_tensors_that_do_not_fit_the_base_are_refused_and_the_base_stays(base, adapters, change):
    one = load_adapter(adapters / "athens")
    name, value = next((name, value) for name, value in one.tensors.items() if name.endswith(".shift"))
    tensors = {
        "unknown": {**one.tensors, "buffer.mood": torch.ones(1)},
        "shape": {**one.tensors, "buffer.severity_limit": torch.ones(3)},
        "half": {name: value for name, value in one.tensors.items() if not name.endswith("lora_A")},
        "nan": {**one.tensors, name: torch.full_like(value, torch.nan)},
    }[change]
    holder = Adapted(base)
    with pytest.raises(InputError, match=r"adapter athens: .*run `plumbline adapt` again"):
        holder.use(Adapter(one.about, tensors))
    assert all(torch.equal(a, b) for a, b in zip(answers(holder.model), answers(load_diagnosis(base)), strict=True))


def test_an_adapter_is_listed_by_the_name_of_its_folder(adapters, tmp_path):
    save_adapter(load_adapter(adapters / "athens"), tmp_path / "renamed")
    assert [about.name for about in list_adapters(tmp_path)] == ["renamed"]


def test_a_damaged_adapter_is_told_of_and_hides_no_other(adapters, tmp_path, caplog):
    save_adapter(load_adapter(adapters / "athens"), tmp_path / "sound")
    (tmp_path / "notes").mkdir()
    assert [about.name for about in list_adapters(tmp_path)] == ["sound"]
    assert "notes" in caplog.text


def test_writing_that_is_stopped_leaves_the_adapter_that_was_there(adapters, tmp_path):
    one = load_adapter(adapters / "athens")
    save_adapter(one, tmp_path / "one")
    before = {path.name: path.read_bytes() for path in (tmp_path / "one").iterdir()}
    broken = one.about.model_copy(update={"share": float("nan")})  # refused by the second of the two files
    with pytest.raises(ValueError, match="JSON"):
        save_adapter(type(one)(broken, load_adapter(adapters / "bergen").tensors), tmp_path / "one")
    assert {path.name: path.read_bytes() for path in (tmp_path / "one").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


@given(st.text(max_size=70))
def test_a_name_that_passes_is_one_folder(name):
    try:
        check_name(name)
    except InputError:
        return
    assert Path("adapters", name).parent == Path("adapters")
    assert Path(name).name == name


@pytest.mark.parametrize(("key", "pattern"), [("targets", "decoder.*"), ("targets", "*.bias"), ("unfreeze", "nose*")])
def test_a_pattern_that_fits_nothing_is_refused(key, pattern):
    told = "matrix or convolution; .* adapt.unfreeze" if pattern == "*.bias" else "parameter. Their names begin with: "
    with pytest.raises(InputError, match=rf"adapt.{key}: .* fits no {told}"):
        attached(small_model(), **{key: [pattern]})


def test_targets_that_are_all_changed_as_a_whole_are_refused():
    """Else training would begin with no parameter at all."""
    with pytest.raises(InputError, match=r"adapt\.targets: adapt\.unfreeze names all of these"):
        attached(small_model(), targets=["heads.join_*.weight"], unfreeze=["heads.*"])


def test_defaults_that_fit_nothing_are_left_out_and_asked_for_ones_are_not():
    """A network without attention has none of the attention's matrices."""
    plain = small_model(attention="none")
    low = [name for name in changes(unchanged(plain, Adapt(max_share=1)).network) if name.endswith(".weight")]
    assert any(name.startswith("heads.join_") for name in low)
    assert not any("attention" in name for name in low)
    with pytest.raises(InputError, match=r"adapt\.targets: 'neck\.attention.* fits no parameter"):
        unchanged(plain, Adapt(max_share=1, targets=["neck.attention.*.attention.*.weight", "heads.join_*.weight"]))
