import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from plumbline.prepare.audit import run as run_audit
from plumbline.prepare.audit.summary import (
    BottomSample,
    Moments,
    hash_names,
    hash_rows,
)
from plumbline.prepare.features.definition import GEOMETRY, names
from plumbline.prepare.features.sequences import concatenate
from tests.prepare.audit.audited import Shards, make_splits, rule, run

VALUE = st.floats(-1e6, 1e6) | st.sampled_from([0.0, np.nan, np.inf, -np.inf])


@given(st.lists(st.tuples(VALUE, VALUE), max_size=30), st.lists(st.integers(0, 30), max_size=4))
def test_moments_of_chunks_are_those_of_the_whole(rows, cuts):
    table = np.array(rows, float).reshape(-1, 2)
    moments = Moments(2)
    for chunk in np.split(table, sorted(cuts)):
        moments.add(chunk)
    for j in range(2):
        column = table[:, j]
        kept = column[np.isfinite(column)]
        assert moments.count[j] == len(kept)
        assert moments.bad[j] == len(column) - len(kept)
        if len(kept):
            scale = max(np.abs(kept).max(), 1e-3)
            assert moments.mean[j] == pytest.approx(kept.mean(), abs=1e-12 * scale)
            assert moments.sd[j] == pytest.approx(kept.std(), abs=1e-7 * scale)
            assert (moments.low[j], moments.high[j]) == (kept.min(), kept.max())
            if kept.std() > 1e-3 * scale:
                assert moments.skew[j] == pytest.approx(stats.skew(kept), abs=1e-6)
    bad = np.argwhere(~np.isfinite(table))
    assert (moments.first_bad is None) == (len(bad) == 0)
    if len(bad):
        assert moments.first_bad[:2] == tuple(bad[0])


@pytest.mark.parametrize("seed", range(2))
def test_the_audit_does_not_depend_on_the_order_of_buildings(seed, monkeypatch):
    """Nor on how they are sharded; in data that are good (even seeds) and that are not (odd seeds)."""
    monkeypatch.setattr(run_audit, "SAMPLE", 200)
    rng = np.random.default_rng(seed)
    splits = make_splits()
    if seed % 2:
        splits["test"].slope[rng.integers(0, 900), 3] = np.nan
        splits["train"].geometry[:, 4] = rng.standard_cauchy(400) ** 3
        splits["test"] = concatenate([splits["test"], splits["train"].take(rng.integers(0, 400, 3))])
    one = run(splits)
    turned = {name: split.take(rng.permutation(len(split))) for name, split in splits.items()}
    cuts = np.sort(rng.integers(0, 400, 2))
    turned["train"] = Shards([turned["train"].take(rows) for rows in np.split(np.arange(400), cuts)])
    other = run(turned)
    assert one.verdict == other.verdict == ("fail" if seed % 2 else "pass")
    assert other.statistics == one.statistics
    for rules in zip(one.to_json()["rules"], other.to_json()["rules"], strict=True):
        a, b = ({key: rule[key] for key in ("name", "status", "value", "bound")} for rule in rules)
        assert a == b


def test_a_sample_is_a_fair_one():
    """Of 20,000 rows, every part of the range is drawn from alike (a chi-squared test at 1e-4)."""
    values = np.arange(20_000, dtype=np.float32)[:, None]
    building = hash_names(np.full(2000, "city"), np.arange(2000).astype(str))
    rank = hash_rows({"building": building.repeat(10), "number": np.arange(20_000) % 10})
    sample = BottomSample(2000, 1)
    for rows in np.split(np.arange(20_000), [7, 5000, 5001, 19_000]):
        sample.add(rank[rows], values[rows])
    drawn = sample.values[:, 0]
    assert len(set(drawn.tolist())) == 2000
    assert stats.chisquare(np.histogram(drawn, 20, (0, 20_000))[0]).pvalue > 1e-4
    assert stats.chisquare(np.bincount(drawn.astype(int) % 10, minlength=10)).pvalue > 1e-4


def test_counts_are_those_of_the_split():
    split = make_splits()["test"]
    found = run().statistics["splits"]["test"]
    length = split.length
    assert (found["buildings"], found["points"]) == (120, length.sum())
    damaged = split.quadrant[split.quadrant >= 0]
    assert found["quadrants"] == dict(zip(("NE", "NW", "SW", "SE"), np.bincount(damaged).tolist(), strict=True))
    assert sum(found["categories"].values()) == 120
    assert found["categories"]["0"] == (split.severity < 0.5).sum()
    assert found["cities"] == {"a": 120}
    column = split.geometry[:, names(GEOMETRY).index("width")].astype(float)
    feature = found["features"]["geometry.width"]
    assert feature["unit"] == "m"
    figures = {"mean": column.mean(), "sd": column.std(), "min": column.min(), "max": column.max()}
    figures |= {"skew": stats.skew(column), "count": 120, "non_finite": 0}
    assert {key: feature[key] for key in figures} == pytest.approx(figures, rel=1e-5)


def test_a_leak_between_shards_is_found_once_for_each_building():
    splits = make_splits()
    parts = [splits["train"].take(rows) for rows in np.split(np.arange(400), [150])]
    leaked = splits["train"].take(np.arange(140, 160))
    sharded = {"train": Shards(parts), "test": Shards([splits["test"], leaked])}
    found = rule(run(sharded), "building_leak")
    assert (found.status, found.value) == ("fail", 20)
