"""Rules for adapters: found where the points show who is helped, and not made of chance."""

import numpy as np
import pytest

from plumbline.fields.model.scores import METRICS
from plumbline.fields.prepare.evidence import FIGURES, Evidence
from plumbline.fields.train.rules import find_rule
from plumbline.params.fields import AdapterFields

ADAPT = AdapterFields(epochs=1, patience=1, learning_rate=0.01, min_scenes=6)
SCENES = 100


def figures(crps, slope=None):
    slopes = crps if slope is None else slope
    rows = zip(crps, slopes, strict=True)
    return [{**dict.fromkeys(METRICS, 1.0), "crps_mm": float(a), "gradient_error_mm_m": float(b)} for a, b in rows]


def scenes(seed, count=SCENES):
    rng = np.random.default_rng(seed)
    return rng, [Evidence(*row) for row in np.exp(rng.normal(0, 1, (count, len(FIGURES))))]


def find(logs, seen, slopes=None):
    without = np.random.default_rng(9).uniform(0.5, 5, len(logs))
    slopes = logs if slopes is None else slopes
    return find_rule(figures(without * np.exp(logs), without * np.exp(slopes)), figures(without, without), seen, ADAPT)


@pytest.mark.parametrize("figure", FIGURES)
def test_a_rule_says_whom_the_adapter_helps(figure):
    rng, seen = scenes(1)
    values = np.array([getattr(one, figure) for one in seen])
    bad = values < 0.6 if figure == "density" else values > 1.6
    rule = find(np.where(bad, -0.3, 0.1) + rng.normal(0, 0.05, SCENES), seen)
    assert rule.figure == figure
    assert rule.threshold == pytest.approx(0.6 if figure == "density" else 1.6, rel=0.1)
    assert rule.gain == pytest.approx(1 - np.exp(-0.3), abs=0.05)
    assert [rule.takes(one) for one in seen] == bad.tolist()


def test_chance_makes_no_rule():
    """In the scenes it is made of, the best rule always seems to help."""
    found = [find(rng.normal(0, 0.1, SCENES), seen) for rng, seen in map(scenes, range(40))]
    assert sum(rule is not None for rule in found) <= 4  # 5 % are expected


def test_an_adapter_that_roughens_slopes_is_not_taken():
    _, seen = scenes(2)
    better, rougher = np.full(SCENES, -0.05), np.full(SCENES, 0.3)
    always = find(better, seen)
    assert (always.gain, always.threshold) == (pytest.approx(1 - np.exp(-0.05)), 0)
    assert find(better, seen, rougher) is None


def test_scenes_without_a_figure_do_not_count_and_answers_that_are_no_number_refuse():
    _, seen = scenes(3, 40)
    logs = np.full(40, -0.2)
    logs[:20] = np.nan  # no cell is told
    assert find(logs, seen).scenes == 20
    logs[0] = np.inf
    assert find(logs, seen) is None
    assert find(np.full(40, np.nan), seen) is None
    assert find(np.full(5, -0.2), seen[:5]) is None  # fewer than `min_scenes`
    assert find_rule([], [], [], ADAPT) is None
