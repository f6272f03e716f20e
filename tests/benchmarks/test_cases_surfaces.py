"""Published rows are parsed, and their surfaces are labelled as computed by hand."""

import numpy as np
import pytest

from benchmarks.cases.surfaces import house_of, label, points_of, read_rows, surface_of, wall_severity
from plumbline.core.strain import category
from tests.strain import structure_strain

ROWS = {row.name: row for row in read_rows()}
HOUSE = "House at Nieuwegein (NL), whole house"


def severity(name):
    return float(label([surface_of(ROWS[name])]).severity_permille[0])


def test_all_rows_are_read_with_their_sources():
    assert len(ROWS) == 48
    assert all(row.source for row in ROWS.values())
    assert sum(row.usable_as == "weak negative" for row in ROWS.values()) == 25
    assert sum(row.usable_as.startswith("profile") for row in ROWS.values()) == 6


@pytest.mark.parametrize(("wall", "permille"), [("Wall 1 (W)", 2.5), ("Wall 2 (N)", 2.3), ("Wall 6 (S)", 2.2)])
def test_walls_at_nieuwegein_by_their_levels(wall, permille):
    row = ROWS[f"House at Nieuwegein (NL), {wall}"]
    assert wall_severity(row, HOUSE) == pytest.approx(permille, abs=0.05)
    assert surface_of(row) is None
    assert house_of(row) == HOUSE


def test_the_house_at_nieuwegein_keeps_its_levels_and_its_outline():
    surface = surface_of(ROWS[HOUSE])
    assert surface.outline.area == pytest.approx(8.9 * 7 + 1.9 * 3.6)
    x, y, level = points_of(HOUSE).T
    assert surface.up(x - 5.4, y - 3.5) == pytest.approx(level)
    assert np.hypot(*surface.tilt()) == pytest.approx(19, abs=1)
    assert surface.upright().tilt() == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(("facade", "permille"), [("front", 0.85), ("rear", 1.16)])
def test_ramsgate_by_its_trough(facade, permille):
    surface = surface_of(ROWS[f"Ramsgate cottages, {facade} facade"])
    assert severity(f"Ramsgate cottages, {facade} facade") == pytest.approx(permille, abs=0.015)
    by_definition = structure_strain(lambda x, y: (surface.up(x, y), 0 * x, 0 * x), 30.0, 10.0)
    assert severity(f"Ramsgate cottages, {facade} facade") == pytest.approx(by_definition.severity_permille, rel=1e-6)


def test_tilt_alone_strains_nothing():
    assert severity("Clock Tower (Big Ben), Westminster") == pytest.approx(0, abs=1e-9)


def test_naples_is_below_half_of_its_largest_rotation():
    """Three of 25 may be of category 1 by that bound, and none is by its trough."""
    naples = [row for row in ROWS.values() if row.usable_as == "weak negative"]
    most = np.array([(row.rotation_permille or row.angular_distortion_permille) / 2 for row in naples])
    found = label([surface_of(row) for row in naples]).severity_permille
    assert (category(most) == 1).sum() == 3
    assert category(most).max() == 1
    assert (found <= most).all()
    assert not category(found).any()


def test_every_required_row_has_a_surface_or_levels():
    missing = [row for row in ROWS.values() if surface_of(row) is None and not (row.is_required and house_of(row))]
    assert not any(row.is_required for row in missing)
