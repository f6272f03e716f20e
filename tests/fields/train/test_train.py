"""Training of denoisers and adapters: examples, what is trained when, resuming, and a spread that holds."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plumbline.fields.model.adapters import add_adapter, unfrozen_parameters
from plumbline.fields.model.denoiser import PACKED_SPEC, PACKED_WEIGHTS, save_denoiser
from plumbline.fields.model.spread import PLACES
from plumbline.fields.prepare.conditions import (
    CHANNELS,
    MIRRORS,
    SceneSet,
    describe,
    load_scenes,
    mirrored,
    mirrored_field,
)
from plumbline.fields.train.calibrate import FARTHEST_M, _apply_gain, _Scene, fit_spread
from plumbline.fields.train.module import CropData, drawn_rows, field_loss, make_batch
from plumbline.fields.train.stage import AdapterOptimisation, _load_first_weights, train
from plumbline.params.fields import AdapterFields, RestorationParams
from tests.fields.model.made import make_denoiser
from tests.fields.prepare.test_conditions import make_maps
from tests.refusals import refuses
from tests.tiny import run_cli
from tests.tiny_fields import PARAMS

ADAPT = AdapterFields(epochs=4, patience=4, learning_rate=0.01, unfreeze_from=0.5, unfreeze=["conv_out"], crop=16)


@settings(max_examples=3)
@given(st.integers(0, 100), st.sampled_from([(0, 1), (0,), (1,)]))
def test_a_mirrored_place_is_described_as_the_mirrored_description(seed, sides):
    maps = make_maps(seed, sides=sides)
    truth = np.random.default_rng(seed).normal(size=(2, 32, 32)).astype(np.float32)
    plain = describe(maps)
    for mirror in range(MIRRORS):
        kept = maps.copy()
        told = describe(mirrored(maps, mirror))
        np.testing.assert_array_equal(maps, kept)  # what was given stays
        flip = (slice(None), slice(None, None, -1 if mirror & 1 else 1), slice(None, None, -1 if mirror & 2 else 1))
        signs = np.ones(len(CHANNELS), np.float32)
        order = list(range(len(CHANNELS)))
        field = truth[flip].copy()
        if mirror & 2:
            swap = {"west": "east", "east": "west"}
            for number, name in enumerate(CHANNELS):
                kind, _, side = name.rpartition("_")
                if side in swap and kind not in ("shape", "deviation", "contrast"):
                    order[number] = CHANNELS.index(f"{kind}_{swap[side]}")
                if kind == "los_east" or name == "shape_east":
                    signs[number] = -1
            field[1] *= -1
        expected = signs[:, None, None] * plain.channels[order][flip]
        np.testing.assert_allclose(told.channels, expected, atol=2e-3)
        np.testing.assert_allclose(told.scale, plain.scale, rtol=1e-5)
        np.testing.assert_allclose(mirrored_field(truth, mirror), field)
        mean = plain.mean[flip] * np.array([1, -1 if mirror & 2 else 1])[:, None, None]
        np.testing.assert_allclose(told.mean, mean, atol=1e-5)


def test_examples_are_drawn_from_seed_and_epoch_and_say_what_is_missed(tiny_fields):
    scenes = load_scenes(tiny_fields.data("prepare") / "train")
    drawn = np.arange(len(scenes))
    rows = drawn_rows(scenes, ADAPT, 3, drawn)
    np.testing.assert_array_equal(rows, drawn_rows(scenes, ADAPT, 3, drawn))
    assert not np.array_equal(rows, drawn_rows(scenes, ADAPT, 4, drawn))
    np.testing.assert_array_equal(np.bincount(rows[:, 0]), ADAPT.crops_a_scene)
    assert rows[:, 1:3].min() >= 0
    assert rows[:, 1:3].max() <= 16
    batch = make_batch(scenes, 16, rows[:6])
    assert batch.conditions_BCHW.shape == (6, len(CHANNELS), 16, 16)
    again = batch.mean_BFHW + batch.scale_BF[:, :, None, None] * batch.clean_BFHW
    for number, (scene, row, column, mirror) in enumerate(rows[:6]):
        cut = (slice(None), slice(row, row + 16), slice(column, column + 16))
        truth = mirrored_field(scenes.truth[scene][cut], mirror)
        np.testing.assert_allclose(again[number], truth, atol=1e-3)


def test_crops_need_scenes(tiny_fields):
    scenes = load_scenes(tiny_fields.data("prepare") / "train")
    assert CropData(scenes, scenes, ADAPT).complete == 0
    with refuses("split.empty", "0 scenes to train"):
        CropData(scenes.take([]), scenes, ADAPT)
    with refuses("crop.too_large", "64", "32"):
        CropData(scenes, scenes, ADAPT.model_copy(update={"crop": 64}))
    with refuses("scenes.unreadable", tiny_fields.root):
        load_scenes(tiny_fields.root)


@pytest.mark.parametrize(
    ("section", "change", "said"),
    [
        ("train", {"crop": 17}, "train.crop: 17 found; 2 levels need a multiple of 2"),
        ("adapt", {"crop": 64}, "adapt.crop: 64 found, and scenes have 32"),
        ("simulate", {"cells": 33}, "simulate.cells: 33 found"),
        ("adapt", {"devices": 2}, "adapters train in one process. Use 1, 1 and auto"),
        ("adapt", {"strategy": "fsdp"}, "1, 1 and fsdp found; adapters train in one process"),
    ],
)
def test_sizes_fit_the_levels_of_the_network(section, change, said):
    with pytest.raises(ValueError, match=said):
        RestorationParams.model_validate(PARAMS | {section: PARAMS[section] | change})


def test_losses_are_what_they_are_called():
    error = torch.tensor([-2.0, 0.0, 0.05])
    torch.testing.assert_close(field_loss(error, "mse"), error**2)
    torch.testing.assert_close(field_loss(error, "l1"), error.abs())
    smooth = field_loss(error, "charbonnier")
    assert smooth[0] == pytest.approx(2 - 0.1, abs=0.01)
    assert smooth[1] == 0
    assert smooth[2] == pytest.approx(0.05**2 / 0.2, rel=0.1)


def test_an_adapter_leaves_late_weights_alone_until_their_time_and_keeps_what_it_trains():
    model = make_denoiser()
    add_adapter(model, "noise", 4, 4.0, ["conv_out"])
    assert len(unfrozen_parameters(model)) == 2
    for begins, alone in ((0.5, True), (0.0, False)):  # of the first epoch
        module = AdapterOptimisation(model, ADAPT.model_copy(update={"unfreeze_from": begins}))
        optimiser = torch.optim.AdamW([p for p in module.parameters() if p.requires_grad], lr=0.1, weight_decay=0.1)
        before = {name: value.detach().clone() for name, value in module.named_parameters()}
        for parameter in module.parameters():
            parameter.grad = torch.ones_like(parameter) if parameter.requires_grad else None
        module.on_before_optimizer_step(optimiser)
        optimiser.step()
        moved = {name for name, value in module.named_parameters() if not torch.equal(value, before[name])}
        trained = {name for name, value in module.named_parameters() if value.requires_grad}
        assert moved == {name for name in trained if ".lora_" in name or not alone}
    module.trainer = SimpleNamespace(datamodule=SimpleNamespace(batch_size=8))
    checkpoint = {"state_dict": module.state_dict()}
    module.on_save_checkpoint(checkpoint)
    assert set(checkpoint["state_dict"]) == trained
    other = make_denoiser(seed=9)
    add_adapter(other, "noise", 4, 4.0, ["conv_out"])
    again = AdapterOptimisation(other, ADAPT)
    kept = other.unet.base_model.model.conv_in.weight.clone()
    again.load_state_dict(checkpoint["state_dict"])
    for one, same in zip(unfrozen_parameters(other), unfrozen_parameters(model), strict=True):
        torch.testing.assert_close(one, same)
    torch.testing.assert_close(other.unet.base_model.model.conv_in.weight, kept)


WEIGHTS = np.linspace(-0.3, 0.3, len(PLACES))
"""Of the figures of a place, by which the errors of `scenes_of` grow."""


def scenes_of(rng, count, cells=60, gain=1.0, off=0.0, name="up", first=0):
    """Scenes whose errors are known: the process's deviation, by place, and `off` alike for all cells of a scene."""
    found = []
    for number in range(first, first + count):
        places = rng.normal(size=(len(PLACES), cells)) + rng.normal(size=(len(PLACES), 1))
        process, beyond = rng.uniform(1, 6, cells), rng.normal(0, 3, cells)
        true = process * np.exp(WEIGHTS @ places + off * rng.standard_normal())
        error = (1 - gain) * beyond + true * rng.standard_normal(cells)
        found.append(_Scene(number, name, error, beyond, process, rng.uniform(0, 100, cells), 10.0, 3.0, places))
    return found


def held(spread, row):
    """Whether each cell's error lies in its interval."""
    own = _apply_gain(row, spread.components[row.name].gain)
    return np.abs(own.error) <= spread.half_width(row.name, own.process, own.places)


def test_intervals_cover_nine_of_ten_in_calm_places_and_lively_ones():
    rng = np.random.default_rng(0)
    spread = fit_spread(scenes_of(rng, 150, gain=0.6), 10.0)
    assert spread.components["up"].gain == pytest.approx(0.6, abs=0.1)
    new = scenes_of(rng, 150, gain=0.6)
    covered = np.concatenate([held(spread, row) for row in new])
    places = np.concatenate([row.places for row in new], axis=1)
    assert covered.mean() == pytest.approx(0.9, abs=0.015)
    for figure in (0, 1, 4, len(PLACES) - 1):
        calm = places[figure] < np.median(places[figure])
        assert covered[calm].mean() == pytest.approx(0.9, abs=0.025)
        assert covered[~calm].mean() == pytest.approx(0.9, abs=0.025)
    # Errors are normal: so are the ends.
    assert spread.components["up"].reach == pytest.approx(1.65, abs=0.2)


def test_with_few_scenes_intervals_hold_in_others():
    """Of which each errs as a whole: the quantile that holds 90 % of the fitted cells holds less of others."""
    rng = np.random.default_rng(5)
    new = scenes_of(rng, 100, off=0.7)
    covered = []
    for _ in range(8):
        spread = fit_spread(scenes_of(rng, 20, off=0.7), 10.0)
        covered.append(np.mean([held(spread, row).mean() for row in new]))
    assert np.mean(covered) == pytest.approx(0.9, abs=0.03)


def test_few_scenes_stay_with_the_weights_that_they_start_from():
    rng = np.random.default_rng(6)
    start = fit_spread(scenes_of(rng, 100), 10.0)
    few = [row._replace(error=3 * row.error) for row in scenes_of(rng, 8)]
    alone, led = fit_spread(few, 10.0), fit_spread(few, 10.0, start)

    def off(spread):
        own, known = (np.array(one.scale.weights + one.scale.bends) for one in (spread, start))
        return np.abs(own - known).max()

    assert off(led) < 0.5 * off(alone)
    assert led.components["up"].base - start.components["up"].base == pytest.approx(np.log(3), abs=0.3)


def test_what_no_scene_tells_another_component_stands_for():
    rng = np.random.default_rng(7)
    spread = fit_spread(scenes_of(rng, 10, name="los"), 10.0)
    up, los = spread.components["up"], spread.components["los"]
    assert (up.gain, up.reach) == (los.gain, los.reach)
    assert up.base == pytest.approx(los.base, abs=0.01)
    wide = [row._replace(error=4 * row.error, name="east") for row in scenes_of(rng, 30)]
    both = fit_spread(scenes_of(rng, 30) + wide, 10.0)
    base = {name: one.base for name, one in both.components.items()}
    assert base["up"] < base["los"] < base["east"]
    assert 0.5 < (base["east"] - base["up"]) / np.log(4) < 1.1  # 30 scenes: the penalty is felt
    with refuses("scenes.no_near_point"):
        fit_spread([], 10.0)


@pytest.mark.parametrize(("limit", "told"), [(30.0, 40.0), (60.0, 60.0), (200.0, 100.0)])
def test_a_field_is_told_as_far_as_it_is_known(limit, told):
    rng = np.random.default_rng(3)
    rows = [
        row._replace(error=np.where(row.distance < limit, 1.0, 8.0) * rng.standard_normal(60))
        for row in scenes_of(rng, 100)
    ]
    assert fit_spread(rows, 10.0).farthest_m == told
    assert fit_spread([row._replace(moved=0.1) for row in rows], 10.0).farthest_m == FARTHEST_M[1]  # nothing moves


def test_modules_that_are_not_there_are_refused_before_the_denoiser_is_trained(tmp_path):
    params = RestorationParams.model_validate(PARAMS | {"adapt": PARAMS["adapt"] | {"unfreeze": ["decoder"]}})
    with refuses("adapter.unknown_module", "adapt.unfreeze: ", "decoder"):
        train(tmp_path / "prepare", params, tmp_path / "train")


def test_training_starts_from_a_package_of_the_same_network(tmp_path):
    first, other, wider = make_denoiser(seed=0), make_denoiser(seed=1), make_denoiser((16, 24))
    save_denoiser(first, tmp_path)
    for name, packed in (("model.safetensors", PACKED_WEIGHTS), ("model.json", PACKED_SPEC)):
        (tmp_path / name).rename(tmp_path / packed)
    before = {name: value.clone() for name, value in other.state_dict().items()}
    _load_first_weights(other, ["checkpoint", "random"])
    assert all(torch.equal(value, before[name]) for name, value in other.state_dict().items())
    _load_first_weights(other, ["checkpoint", str(tmp_path), "random"])
    assert all(torch.equal(value, first.state_dict()[name]) for name, value in other.state_dict().items())
    with refuses("start_from.other_network", "train.start_from: ", tmp_path, "24"):
        _load_first_weights(wider, [str(tmp_path)])


@pytest.mark.slow
def test_a_training_that_was_cut_goes_on_with_its_denoiser(tiny_fields, tmp_path):
    import yaml

    root = tiny_fields.copy(tmp_path / "project", "prepare")

    def train(domains, **restore):
        content = PARAMS | {"adapt": PARAMS["adapt"] | {"domains": domains}, "restore": PARAMS["restore"] | restore}
        (root / "params.yaml").write_text(yaml.safe_dump(content))
        return run_cli("train", cwd=root)

    cut = train(["noise", "sparse"])
    assert (cut.code, "no scene of sparse" in cut.err) == (2, True)
    assert not (root / "data" / "train").exists()
    (base,) = (root / ".plumbline" / "restoration").iterdir()
    assert "train: best score" in cut.err
    done = train(["noise"])
    assert done.code == 0, done.err
    assert "train: best score" not in done.err
    assert not base.exists()
    for name in ("model.safetensors", "spread.json"):  # as in one go
        assert (root / "data/train" / name).read_bytes() == (tiny_fields.data("train") / name).read_bytes()
    assert isinstance(load_scenes(root / "data/prepare/tune"), SceneSet)
    cut = train(["sparse"])
    other = train(["sparse"], samples=5)  # the spread is calibrated by it
    assert "train: best score" in cut.err
    assert "train: best score" in other.err
