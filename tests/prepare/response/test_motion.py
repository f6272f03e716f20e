import numpy as np
import pytest

from plumbline.params import Prepare
from plumbline.prepare.assignment.collect import collect_scatterers
from plumbline.prepare.assignment.owners_part import find_owners
from plumbline.prepare.response.motion import building_means, motion_table
from tests.prepare.made import ASCENDING, DESCENDING, EPOCHS, ORIGIN, box, los_of, make_track, series

TURNS = (0, 30, -44, 20)
MOTION = np.array([[3.0, 0, -6.0], [-2.0, 0, 1.0], [0.5, 0, 4.0], [1.0, 0, -3.0]])
"""East, north, up of the four buildings, mm/yr."""
YEARS = float((EPOCHS[-1] - EPOCHS[0]) / np.timedelta64(1, "D")) / 365.25


def town(sides=((0, 1), (0, 1), (0,), ()), common=0.0, seed=0):
    """Four turned houses, seen by the tracks of `sides`, that move as `MOTION` says: (scatterers, frame)."""
    rng = np.random.default_rng(seed)
    footprints = np.array([box(20, 12, (60 * i, 0), turn) for i, turn in enumerate(TURNS)], object)
    tracks = []
    for number, los in enumerate(los_of(ASCENDING, DESCENDING)):
        position = [ORIGIN + np.array([60 * i, 0]) + rng.uniform(-4, 4, (8, 2)) for i in range(4) if number in sides[i]]
        moved = np.concatenate([np.full(8, MOTION[i] @ los * YEARS) for i in range(4) if number in sides[i]])
        histories = series(moved, rng, noise=1.0)
        shared = common * rng.normal(size=(len(position), len(EPOCHS)))
        histories += np.repeat(shared, 8, axis=0)
        tracks.append(make_track(f"t{number}", np.concatenate(position), np.zeros(len(moved)), los, histories))
    return collect_scatterers(tracks, footprints, find_owners(tracks, footprints, Prepare(buffer_m=1.0)).of)


def table(*args, **kwargs):
    ids = np.array([f"b{i}" for i in range(4)], object)
    return motion_table(ids, building_means(*town(*args, **kwargs), tracks=2)).set_index("building_id")


def test_each_building_moves_as_it_was_made_to():
    found = table()
    both = found.loc[["b0", "b1"]]
    np.testing.assert_allclose(both["up_mm_yr"], MOTION[:2, 2], atol=4 * both["up_se_mm_yr"].max())
    np.testing.assert_allclose(both["east_mm_yr"], MOTION[:2, 0], atol=4 * both["east_se_mm_yr"].max())
    assert both["up_se_mm_yr"].max() < 0.3
    assert found["sides"].tolist() == ["both", "both", "one", "none"]
    assert found["tracks"].tolist() == [2, 2, 1, 0]
    assert found["points"].tolist() == [16, 16, 8, 0]


def test_what_cannot_be_told_is_empty_and_up_then_holds_the_part_of_east():
    found = table()
    assert found.loc[["b2", "b3"], ["east_mm_yr", "east_se_mm_yr"]].isna().all(axis=None)
    assert found.loc["b3", ["up_mm_yr", "up_se_mm_yr"]].isna().all()
    los = los_of(ASCENDING)[0]
    expected = MOTION[2, 2] + MOTION[2, 0] * los[0] / los[2]
    assert found.loc["b2", "up_mm_yr"] == pytest.approx(expected, abs=4 * found.loc["b2", "up_se_mm_yr"])


@pytest.mark.parametrize("common", [0.0, 2.0])
def test_standard_errors_hold_what_all_points_of_a_building_share(common):
    scaled = []
    for seed in range(60):
        found = table(((0, 1), (0, 1), (0, 1), (0, 1)), common=common, seed=seed)
        scaled.append((found["up_mm_yr"] - MOTION[:, 2]) / found["up_se_mm_yr"])
        scaled.append((found["east_mm_yr"] - MOTION[:, 0]) / found["east_se_mm_yr"])
    assert 0.92 < np.mean(np.abs(scaled) < 1.96) < 0.99
