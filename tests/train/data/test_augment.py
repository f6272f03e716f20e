import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from plumbline.core.compass import quadrant_code
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY
from plumbline.train.data.batches import Batch
from plumbline.train.data.sampler import SYMMETRIES, Symmetry, turn
from tests.train.made import apply_symmetry, column, make_batch

X, Y = column(DISTANCE, "x"), column(DISTANCE, "y")
seeds = st.integers(0, 1000)
symmetries = st.sampled_from(SYMMETRIES)


def same(one: Batch, other: Batch) -> None:
    for name, left, right in zip(Batch._fields, one, other, strict=True):
        assert torch.equal(left, right), name


@given(seeds, symmetries)
def test_the_label_goes_where_its_corner_goes(seed, which):
    batch = make_batch(20, seed)
    turned = apply_symmetry(batch, which)
    corner_x, corner_y = np.array([1, -1, -1, 1]), np.array([1, 1, -1, -1])
    code = batch.quadrant_B.numpy()
    x, y = corner_x[code] * (-1 if which.mirror_x else 1), corner_y[code] * (-1 if which.mirror_y else 1)
    moved = quadrant_code(y, x) if which.swap else quadrant_code(x, y)
    np.testing.assert_array_equal(turned.quadrant_B, np.where(code >= 0, moved, -1))
    assert torch.equal(turned.mechanism_B, batch.mechanism_B)
    assert torch.equal(turned.severity_B, batch.severity_B)


@pytest.mark.parametrize("which", SYMMETRIES)
def test_every_right_answer_goes_where_its_quadrant_goes(which):
    """All sets of quadrants: an end on the east is NE and SE; with x and y swapped, it is on the north: NE and NW."""
    sets = np.array(list(itertools.product([False, True], repeat=4)))
    batch = make_batch(len(sets))._replace(accepted_B4=torch.from_numpy(sets))
    corner_x, corner_y = np.array([1, -1, -1, 1]), np.array([1, 1, -1, -1])
    x, y = corner_x * (-1 if which.mirror_x else 1), corner_y * (-1 if which.mirror_y else 1)
    moved = quadrant_code(y, x) if which.swap else quadrant_code(x, y)
    wanted = [{moved[code] for code in np.flatnonzero(row)} for row in sets]
    found = apply_symmetry(batch, which).accepted_B4.numpy()
    assert [set(np.flatnonzero(row)) for row in found] == wanted


@given(seeds, symmetries)
def test_padding_stays_at_the_end(seed, which):
    batch = make_batch(9, seed)
    turned = apply_symmetry(batch, which)
    assert torch.equal(turned.mask_BL, batch.mask_BL)
    for values in (turned.distance_BLF, turned.slope_BLF):
        assert not values[~batch.mask_BL].any()
        assert values[batch.mask_BL].abs().sum(-1).min() > 0


@given(seeds, symmetries)
def test_sequences_still_run_along_the_long_axis(seed, which):
    """Scatterers in order along the long axis before are in order along the new long axis after."""
    batch = make_batch(9, seed)
    side = batch.geometry_BF[:, [column(GEOMETRY, "side_x"), column(GEOMETRY, "side_y")]]
    long = torch.where(side[:, 0] >= side[:, 1], X, Y)
    for row, axis in enumerate(long):
        valid = batch.mask_BL[row]
        batch.distance_BLF[row, valid, axis] = batch.distance_BLF[row, valid, axis].sort().values
    turned = apply_symmetry(batch, which)
    for row, axis in enumerate(long):
        after = (Y if axis == X else X) if which.swap else axis
        assert (turned.distance_BLF[row, batch.mask_BL[row], after].diff() >= 0).all()


@given(seeds, symmetries, symmetries)
def test_the_rows_of_both_streams_stay_together(seed, one, other):
    batch = make_batch(6, seed)
    batch.distance_BLF[..., column(DISTANCE, "height")] = batch.slope_BLF[..., 0]  # neither turns
    turned = apply_symmetry(apply_symmetry(batch, one), other)
    assert torch.equal(turned.distance_BLF[..., column(DISTANCE, "height")], turned.slope_BLF[..., 0])


def composed(one: Symmetry, other: Symmetry) -> Symmetry:
    """First `one`, then `other`: behind a swap, the other's mirrors are those of the axes it finds there."""
    mirror_x, mirror_y, swap = other
    if one.swap:
        mirror_x, mirror_y = mirror_y, mirror_x
    return Symmetry(one.mirror_x ^ mirror_x, one.mirror_y ^ mirror_y, one.swap ^ swap)


def in_order(batch: Batch, square: bool) -> Batch:
    """The batch with sequences in order of the long axis, as they are prepared; of squares, half run along y."""
    sides = [column(GEOMETRY, "side_x"), column(GEOMETRY, "side_y")]
    if square:
        batch.geometry_BF[:, sides[1]] = batch.geometry_BF[:, sides[0]]
    for row, (side_x, side_y) in enumerate(batch.geometry_BF[:, sides].tolist()):
        axis = (X, Y)[row % 2] if square else (X if side_x > side_y else Y)
        valid = batch.mask_BL[row]
        order = batch.distance_BLF[row, valid, axis].argsort()
        batch.distance_BLF[row, valid] = batch.distance_BLF[row, valid][order]
        batch.slope_BLF[row, valid] = batch.slope_BLF[row, valid][order]
    return batch


@pytest.mark.parametrize("square", [False, True])
@pytest.mark.parametrize("one", SYMMETRIES)
def test_two_after_another_are_one_exactly(one, square):
    """Features, order, mask and labels: nothing but the composed symmetry gives the same batch."""
    batch = in_order(make_batch(12, 3, shortest=12), square)
    for other in SYMMETRIES:
        twice = apply_symmetry(apply_symmetry(batch, one), other)
        same(twice, apply_symmetry(batch, composed(one, other)))
        equal = [torch.equal(twice.distance_BLF, apply_symmetry(batch, which).distance_BLF) for which in SYMMETRIES]
        assert equal.index(True) == SYMMETRIES.index(composed(one, other))
        assert sum(equal) == 1


def test_each_building_is_turned_by_its_own_symmetry():
    batch = make_batch(40)
    choice = torch.arange(40) % 8
    turned = turn(batch, choice)
    for number, which in enumerate(SYMMETRIES):
        rows = choice == number
        alone = apply_symmetry(Batch(*(tensor[rows] for tensor in batch)), which)
        same(Batch(*(tensor[rows] for tensor in turned)), alone)
