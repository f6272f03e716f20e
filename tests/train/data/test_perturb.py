from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.params import Train
from plumbline.prepare.buildings import prepare_buildings
from plumbline.prepare.features.build import recover
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE
from plumbline.prepare.features.sequences import Sequences
from plumbline.prepare.features.shards import save_shards
from plumbline.train.data.batches import loader
from plumbline.train.data.perturb import Draws, add_noise, draw_numbers, drop_points, drop_tracks, perturb
from tests.prepare.made import PARAMS, make_scene
from tests.train.fit.test_trainer import Killed, run, weights
from tests.train.made import column, in_quadrants

POINTS, TRACKS = column(GEOMETRY, "log_points"), column(GEOMETRY, "tracks")
LEAST = 5
rates = st.floats(0, 0.95)


@pytest.fixture(scope="module")
def sequences() -> Sequences:
    tracks, buildings = make_scene(4, buildings=30, most=40)
    return prepare_buildings(tracks, buildings, PARAMS).sequences


def section(**changed) -> Train:
    return Train(epochs=1, patience=1, learning_rate=0.1, **changed)


def rng(seed=0):
    return np.random.default_rng(seed)


def numbers(sequences, seed=0) -> Draws:
    return draw_numbers(sequences.length, rng(seed))


@given(rate=rates, seed=st.integers(0, 99), least=st.integers(1, 50))
def test_points_are_dropped_at_the_rate_and_never_too_many(sequences, rate, seed, least):
    scatterers = recover(sequences)
    keep = drop_points(scatterers, rate, least, numbers(sequences, seed).point_N)
    left = np.bincount(scatterers.building[keep], minlength=len(sequences))
    assert (left >= np.minimum(least, sequences.length)).all()
    if least == 1:
        assert keep.mean() == pytest.approx(1 - rate, abs=0.12)


@given(rate=rates, seed=st.integers(0, 99), least=st.integers(1, 20))
def test_a_building_loses_one_whole_track_or_nothing(sequences, rate, seed, least):
    scatterers = recover(sequences)
    keep = drop_tracks(scatterers, rate, least, numbers(sequences, seed))
    for number, length in enumerate(sequences.length):
        own = scatterers.building == number
        lost = set(scatterers.track[own & ~keep].tolist())
        left = set(scatterers.track[own & keep].tolist())
        assert len(lost) <= 1
        assert not lost & left
        assert left
        assert (own & keep).sum() >= min(least, length)


def test_each_track_is_lost_as_often(sequences):
    scatterers = recover(sequences)
    lost = [~drop_tracks(scatterers, 0.5, 1, numbers(sequences, seed)) for seed in range(400)]
    several = np.array([len(set(scatterers.track[scatterers.building == b])) > 1 for b in range(len(sequences))])
    share = np.mean(lost, axis=0)
    np.testing.assert_allclose(share[several[scatterers.building]], 0.25, atol=0.1)
    assert not share[~several[scatterers.building]].any()


def test_noise_has_the_size_that_the_standard_error_then_states(sequences):
    scatterers = recover(sequences)
    noisy = [add_noise(scatterers, 0.75, numbers(sequences, seed).noise_N) for seed in range(400)]
    added = np.array([one.change - scatterers.change for one in noisy]) / scatterers.change_se
    assert added.mean() == pytest.approx(0, abs=0.01)
    assert added.std() == pytest.approx(0.75, rel=0.01)
    np.testing.assert_allclose(noisy[0].change_se ** 2, scatterers.change_se**2 * (1 + 0.75**2))


@given(
    point=st.sampled_from([0.0, 0.3, 0.9]),
    track=st.sampled_from([0.0, 1.0]),
    noise=st.sampled_from([0.0, 1.0]),
    share=st.sampled_from([0.3, 1.0]),
    seed=st.integers(0, 99),
)
def test_every_column_agrees_with_the_scatterers_that_are_left(sequences, point, track, noise, share, seed):
    losses = section(perturb=share, point_dropout=point, track_dropout=track, noise=noise)
    found = perturb(sequences, losses, LEAST, numbers(sequences, seed))
    assert found.length.sum() == len(found.distance) == len(found.slope)
    assert (found.length >= np.minimum(LEAST, sequences.length)).all()
    np.testing.assert_allclose(found.geometry[:, POINTS], np.log(found.length), rtol=1e-5)
    scatterers = recover(found)
    for number in range(len(found)):
        own = scatterers.building == number
        assert len(set(scatterers.track[own])) == found.geometry[number, TRACKS]
        long_x = found.geometry[number, 0] >= found.geometry[number, 1]
        assert (np.diff(scatterers.xy[own, 0 if long_x else 1]) >= 0).all()
        assert scatterers.height[own].min() == pytest.approx(0, abs=1e-4)
        height = np.ptp(scatterers.height[own])
        assert found.geometry[number, column(GEOMETRY, "height_range")] == pytest.approx(height, abs=1e-3)
    for values in (found.distance, found.slope, found.geometry):
        assert np.isfinite(values).all()
        assert values.dtype == np.float32
    for field in fields(sequences):
        if field.name not in ("offsets", "distance", "slope", "geometry"):
            np.testing.assert_array_equal(getattr(found, field.name), getattr(sequences, field.name))
    untouched = 0
    for one, other in zip(rows_of(found), rows_of(sequences), strict=True):
        untouched += one.shape == other.shape and bool((one == other).all())
    if share == 1 and noise:
        assert untouched == 0
    elif share < 1:
        assert untouched > 5


def rows_of(sequences):
    both = np.concatenate([sequences.distance, sequences.slope], axis=1)
    return np.split(both, sequences.offsets[1:-1])


def test_displacements_move_with_the_noise_and_gradients_with_them(sequences):
    """Noise on the displacements reaches what is derived from them, and only that."""
    found = perturb(sequences, section(perturb=1, noise=2.0), LEAST, numbers(sequences, 1))
    np.testing.assert_allclose(found.distance, sequences.distance, atol=1e-4)
    for name in (
        "differential_displacement",
        "gradient_x",
        "local_up",
        "differential_displacement_se",
        "robust_weight",
    ):
        place = column(SLOPE, name)
        assert np.abs(found.slope[:, place] - sequences.slope[:, place]).mean() > 1e-3, name
    for name in ("los_x", "los_y", "los_up"):
        np.testing.assert_allclose(found.slope[:, column(SLOPE, name)], sequences.slope[:, column(SLOPE, name)])
    fixed = [
        "side_x",
        "side_y",
        "length",
        "width",
        "log_area",
        "rectangularity",
        "height_range",
        "log_points",
        "tracks",
        "years",
        "points_ne",
        "points_sw",
    ]
    for name in fixed:
        place = column(GEOMETRY, name)
        np.testing.assert_allclose(found.geometry[:, place], sequences.geometry[:, place], rtol=1e-4, atol=1e-4)
    rate, up = column(SLOPE, "differential_rate"), column(SLOPE, "differential_displacement")
    years = np.repeat(found.geometry[:, column(GEOMETRY, "years")], found.length)
    np.testing.assert_allclose(found.slope[:, rate] * years, found.slope[:, up], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({}, False),
        ({"noise": 0.5}, True),
        ({"point_dropout": 0.1}, True),
        ({"track_dropout": 1.0}, True),
        ({"noise": 0.5, "perturb": 0.0}, False),
    ],
)
def test_nothing_is_asked_for_unless_a_rate_and_the_share_are_above_zero(changed, wanted):
    assert section(**changed).perturbs == wanted


def batches(sequences, losses, seed, epoch):
    loaded = loader(sequences, 8, seed, losses)
    loaded.sampler.set_epoch(epoch)
    return [tensor.numpy() for batch in loaded for tensor in batch]


def test_seed_and_epoch_alone_decide_what_the_loader_gives(sequences):
    losses = section(perturb=0.7, point_dropout=0.3, track_dropout=0.3, noise=0.5, padding="mean", balance="weights")
    first, again = batches(sequences, losses, 3, 4), batches(sequences, losses, 3, 4)
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
    for seed, epoch in ((3, 5), (4, 4)):
        changed = batches(sequences, losses, seed, epoch)
        assert sum(part.sum(dtype=float) for part in changed[::7]) != sum(part.sum(dtype=float) for part in first[::7])


@given(seed=st.integers(0, 99), shares=st.integers(1, 5))
def test_a_building_is_perturbed_alike_in_whichever_share_it_is(sequences, seed, shares):
    losses = section(perturb=0.7, point_dropout=0.4, track_dropout=0.5, noise=1.0)
    draws, length = numbers(sequences, seed), sequences.length
    whole = rows_of(perturb(sequences, losses, LEAST, draws))
    for number in range(shares):
        own = np.arange(number, len(sequences), shares)
        part = rows_of(perturb(sequences.take(own), losses, LEAST, draws.take(own, length)))
        for building, rows in zip(own, part, strict=True):
            np.testing.assert_allclose(rows, whole[building], rtol=1e-4, atol=1e-6)  # fits sum in another order


def test_the_mask_is_that_of_the_scatterers_that_are_left(sequences):
    losses = section(perturb=1.0, point_dropout=0.5)
    for batch in loader(sequences, 8, 0, losses):
        np.testing.assert_allclose(np.log(batch.mask_BL.sum(1).numpy()), batch.geometry_BF[:, POINTS], rtol=1e-5)
        assert not batch.distance_BLF[~batch.mask_BL].any()
        assert (batch.slope_BLF[batch.mask_BL][:, column(SLOPE, "los_up")] > 0.5).all()
        assert batch.distance_BLF.shape[-1] == len(DISTANCE)


@pytest.mark.heavy
def test_a_cut_run_with_everything_on_ends_as_a_whole_one(sequences, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "file:nowhere")
    severity = np.geomspace(0.1, 6, len(sequences)).astype(np.float32)
    labelled = replace(in_quadrants(sequences, np.arange(len(sequences)) % 5 - 1), severity=severity)
    for name in ("train", "tune", "calibrate"):
        save_shards([labelled], Path("data/prepare") / name)
    longest = {"max_points": int(labelled.length.max())}
    changed = {
        **longest,
        "epochs": 2,
        "perturb": 0.7,
        "point_dropout": 0.3,
        "track_dropout": 0.3,
        "noise": 0.5,
        "padding": "replicate",
        "balance": "oversample",
        "balance_by": "both",
        "batch_size": 8,
    }
    run("whole", **changed)
    with pytest.raises(Killed):
        run("cut", dies_before=1, **changed)
    run("cut", **changed)
    assert weights("cut") == weights("whole")
    found = {weights("whole")}
    for kind, other in (("plain", {}), ("weights", {"balance": "weights"}), ("noise", {"noise": 0.5})):
        run(kind, epochs=1, batch_size=8, **longest, **other)
        found.add(weights(kind))
    assert len(found) == 4  # each key reaches the training
