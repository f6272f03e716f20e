"""Adapters are shipped only where they help: decided by figures of scenes, and on scenes with networks that differ."""

import numpy as np
import pytest

from plumbline.fields.model.scores import METRICS
from plumbline.fields.model.slopes import Slopes
from plumbline.fields.model.spread import COMPONENTS, PLACES, Component, Scale, Spread
from plumbline.fields.prepare.conditions import MIRRORS, SceneSet, describe, mirrored, mirrored_field
from plumbline.fields.prepare.covariance import Covariance
from plumbline.fields.prepare.evidence import Evidence
from plumbline.fields.train.choose import choose, compare, tune_figures
from plumbline.params.fields import AdapterFields, RestorationParams
from tests.fields.prepare.test_conditions import make_maps
from tests.tiny_fields import PARAMS

ADAPT = AdapterFields(epochs=1, patience=1, learning_rate=0.01, max_ratio=0.9, min_scenes=6)


def figures(values):
    return [{**dict.fromkeys(METRICS, 1.0), "crps_mm": float(value)} for value in values]


def test_an_adapter_that_helps_in_every_scene_is_shipped():
    without = np.array([0.5, 1, 2, 3, 4, 6, 8, 9])
    for factor, shipped in ((0.6, True), (0.89, True), (0.91, False), (1.0, False), (1.3, False)):
        found = compare(figures(factor * without), figures(without), ADAPT)
        assert found["shipped"] is shipped
        assert found["ratio_bound"] == pytest.approx(factor)
        assert (found["scenes"], found["crps_mm_without"]) == (8, pytest.approx(without.mean()))
        assert f"at most {factor:.4g}" in found["reason"]


def test_a_gain_that_may_be_chance_ships_nothing():
    """The mean falls by a quarter, and all of that in one scene of eight."""
    without = np.array([2.0] * 7 + [10.0])
    own = np.array([2.1] * 7 + [4.0])
    found = compare(figures(own), figures(without), ADAPT)
    assert found["crps_mm"] < 0.8 * found["crps_mm_without"]
    assert found["ratio_bound"] > 0.9
    assert not found["shipped"]


@pytest.mark.parametrize(
    ("own", "without"),
    [
        ([1.0] * 5, [2.0] * 5),
        ([1.0] * 5 + [np.nan], [2.0] * 6),
        ([1.0] * 5 + [np.inf], [2.0] * 6),
        ([], []),
    ],
    ids=["few scenes", "few with a figure", "an answer that is no number", "none"],
)
def test_without_a_figure_nothing_is_shipped(own, without):
    found = compare(figures(own), figures(without), ADAPT)
    assert (found["shipped"], found["ratio_bound"], "no figure" in found["reason"]) == (False, None, True)


class Knowing:
    """A denoiser that says the truth of the scenes, times `share`; at 0, what the Gaussian process says."""

    def __init__(self, scenes, share):
        self.alphas, self.share = np.array([0.9, 0.5, 0.1]), share
        self.missed = {}
        for maps, truth in zip(scenes.maps, scenes.truth, strict=True):
            for mirror in range(MIRRORS):
                told = describe(mirrored(maps, mirror))
                missed = (mirrored_field(truth, mirror) - told.mean) / told.scale[:, None, None]
                self.missed[told.channels.tobytes()] = missed

    def denoise(self, noisy, step, conditions):
        return np.broadcast_to(self.share * self.missed[conditions.tobytes()], noisy.shape).astype(np.float32)


def make_scenes(count):
    maps = np.stack([make_maps(seed) for seed in range(count)])
    rng = np.random.default_rng(0)
    truth = (maps[:, :2] + rng.normal(0, 3, maps[:, :2].shape)).astype(np.float32)
    about = {"domain": "noise", "level": "easy", "covariance": Covariance(3.0, 1.0, 100.0, 1.0, 0.5)._asdict()}
    seen = Evidence(0.0, 1.0, 1000.0, 0.0)
    told = [{**about, "name": f"noise-{n}", "evidence": seen._replace(noise=1.0 + n)._asdict()} for n in range(count)]
    told[0]["domain"] = "plain"
    return SceneSet(maps, truth, told)


def make_spread():
    none, one = [0.0] * len(PLACES), [1.0] * len(PLACES)
    scale = Scale(low=none, high=one, centre=none, unit=one, weights=none, bends=none)
    components = dict.fromkeys(COMPONENTS, Component(base=0.5, reach=1.6))
    return Spread(scale=scale, components=components, farthest_m=100.0, slopes=Slopes(base=0.0, weights=[0.0] * 3))


def test_scenes_decide_between_the_networks_with_and_without_the_adapter():
    scenes = make_scenes(8)
    given = RestorationParams.model_validate(
        PARAMS
        | {"adapt": PARAMS["adapt"] | {"max_ratio": 0.95, "min_scenes": 6}, "restore": {"steps": 1, "samples": 2}}
    )
    known, process, spread = Knowing(scenes, 1.0), Knowing(scenes, 0.0), make_spread()
    true, plain = (tune_figures((model, spread), scenes, given, "x") for model in (known, process))
    better = choose("noise", (known, spread), plain, scenes, given)
    same = choose("noise", (process, spread), plain, scenes, given)
    worse = choose("noise", (process, spread), true, scenes, given)
    assert [one["shipped"] for one in (better, same, worse)] == [True, False, False]
    assert [one["scenes"] for one in (better, same, worse)] == [7] * 3  # of its domain
    assert (better["rule"]["scenes"], same["rule"], worse["rule"]) == (8, None, None)  # of all
    assert same["ratio_bound"] == pytest.approx(1.0)
    assert worse["crps_mm"] == pytest.approx(better["crps_mm_without"])
