import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.prepare.abstention import strain_error
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE, names
from plumbline.prepare.features.sequences import Sequences, no_labels
from plumbline.prepare.features.shards import Shards


def buildings(errors: list[list[float]], side: tuple[float, float], tracks: int = 2) -> Sequences:
    count, points = len(errors), sum(map(len, errors))
    slope = np.zeros((points, len(SLOPE)), np.float32)
    slope[:, names(SLOPE).index("differential_displacement_se")] = np.concatenate(errors)
    geometry = np.zeros((count, len(GEOMETRY)), np.float32)
    geometry[:, [names(GEOMETRY).index("side_x"), names(GEOMETRY).index("side_y")]] = side
    geometry[:, names(GEOMETRY).index("tracks")] = tracks
    return Sequences(
        building_id=np.arange(count).astype(str),
        city=np.full(count, "c"),
        offsets=np.r_[0, np.cumsum([len(one) for one in errors])],
        distance=np.zeros((points, len(DISTANCE)), np.float32),
        slope=slope,
        geometry=geometry,
        **no_labels(count) | {"severity": np.zeros(count, np.float32)},
    )


def test_it_is_the_error_of_a_quarter_against_the_rest():
    """16 points of 1 mm: a quarter has an error of 1/2 mm, the rest of 1/sqrt(12) mm; 10 mm are 1 permille of 10 m."""
    expected = np.hypot(1 / 2, 1 / np.sqrt(12)) / 10
    assert strain_error(buildings([[1.0] * 16], (10, 10))) == pytest.approx([expected], rel=1e-6)


def test_what_is_no_number_is_that_of_its_building_alone():
    found = strain_error(buildings([[1.0] * 5, [1.0, np.nan, 1.0], [2.0] * 5], (10, 10)))
    assert np.isnan(found).tolist() == [False, True, False]
    assert found[2] == pytest.approx(2 * found[0])


@given(st.lists(st.lists(st.floats(0.1, 20), min_size=1, max_size=9), min_size=2, max_size=6), st.floats(1, 100))
def test_each_building_is_looked_at_alone_and_less_noise_or_more_points_never_hurt(errors, side):
    found = strain_error(buildings(errors, (side, side)))
    assert np.allclose(found, [strain_error(buildings([one], (side, side)))[0] for one in errors])
    assert (strain_error(buildings([[*one, 5.0] for one in errors], (side, side))) <= found).all()
    assert np.allclose(strain_error(buildings([[2 * e for e in one] for one in errors], (side, side))), 2 * found)
    assert np.allclose(strain_error(buildings(errors, (2 * side, 2 * side))), found / 2)


def test_shards_give_what_their_parts_do():
    one, other = buildings([[1.0, 2.0], [3.0]], (8, 9)), buildings([[0.5] * 5], (20, 10))
    together = strain_error(Shards([one, other]))
    assert together.tolist() == [*strain_error(one), *strain_error(other)]
    assert strain_error(Shards([])).shape == (0,)
