"""What the points of a scene show: relative to the movement, by seen ground, and counted."""

from dataclasses import replace

import numpy as np
import pytest

from plumbline.fields.prepare.evidence import FIGURES, Evidence, evidence_of
from plumbline.fields.prepare.gaussian_process import Covariance
from plumbline.fields.prepare.grid import observe
from tests.fields.prepare.made import PLACE, make_observations, make_track

KNOWN = Covariance(8.0, 4.0, 90.0, 2.0, 3.0)


def test_figures_are_relative_to_the_movement():
    found = make_observations(np.random.default_rng(0), 400)
    found = replace(found, error=np.full(400, 2.0), delay=np.resize([1.0, 4.0, 4.0], 400))
    seen = evidence_of(found, KNOWN)
    assert seen == Evidence(delay=pytest.approx(0.5), noise=pytest.approx(5 / 8), density=seen.density, apart=0)
    larger = replace(found, error=10 * found.error, delay=10 * found.delay)
    other = evidence_of(larger, KNOWN._replace(up_mm=80.0, nugget_mm=30.0))
    assert other == pytest.approx(seen)
    assert Evidence._fields == FIGURES


def test_ground_without_points_is_no_lack_of_points():
    found = make_observations(np.random.default_rng(1), 2000, extent=500.0)
    found = replace(found, east_north=found.east_north - PLACE)
    far = replace(found, east_north=found.east_north + np.repeat([[0.0, 9000.0], [0.0, 0.0]], 1000, axis=0))
    assert evidence_of(found, KNOWN).density == pytest.approx(8000)
    assert evidence_of(far, KNOWN).density == pytest.approx(4000)


def test_points_that_move_by_themselves_are_counted():
    rng = np.random.default_rng(2)
    place = rng.uniform(0, 200, (200, 2))
    series = rng.normal(0, 0.5, (200, 40))
    series[:20] += 40 * np.linspace(0, 1, 40)
    assert evidence_of(observe([make_track(place, series)]), KNOWN).apart == pytest.approx(0.1, abs=0.02)
