import numpy as np
import pytest
import shapely
from hypothesis import example, given
from hypothesis import strategies as st

from plumbline.sources.footprints.geometry import MAX_DOUBT_M2, repair_polygons

PLACE = np.array([4_598_000.0, 1_739_000.0])
SQUARE = [(0, 0), (10, 0), (10, 10), (0, 10)]
HOLE = [(2, 2), (4, 2), (4, 4), (2, 4)]


def moved(ring, dx=0.0, dy=0.0):
    return [(x + dx, y + dy) for x, y in ring]


def repair(polygon):
    """The repaired polygon near the origin, its doubt, and whether it is certain."""
    away = shapely.transform(polygon, lambda at: at + PLACE)
    found = repair_polygons(np.array([away], object))
    return shapely.transform(found.geometry[0], lambda at: at - PLACE), found.doubt_m2[0], bool(found.certain[0])


CLEAR = {
    "hole on an edge": (shapely.Polygon(SQUARE, [moved(HOLE, -2)]), shapely.Polygon(SQUARE) - shapely.box(0, 2, 2, 4)),
    "holes with an edge in common": (
        shapely.Polygon(SQUARE, [HOLE, moved(HOLE, 2)]),
        shapely.Polygon(SQUARE, [[(2, 2), (6, 2), (6, 4), (2, 4)]]),
    ),
    "parts with an edge in common": (
        shapely.MultiPolygon([shapely.Polygon(SQUARE), shapely.Polygon(moved(SQUARE, 10))]),
        shapely.box(0, 0, 20, 10),
    ),
    "hole drawn with the shell's ring": (
        shapely.Polygon([(0, 0), (10, 0), (10, 10), (0, 10), (0, 0), (2, 5), (5, 5), (5, 2)]),
        shapely.Polygon(SQUARE) - shapely.Polygon([(0, 0), (2, 5), (5, 5), (5, 2)]),
    ),
    "hole on a slit": (
        shapely.Polygon([(0, 0), (10, 0), (10, 10), (0, 10), (0, 2), (2, 2), (2, 4), (4, 4), (4, 2), (2, 2), (0, 2)]),
        shapely.Polygon(SQUARE, [HOLE]),
    ),
    "two halves that meet at a corner": (
        shapely.Polygon([(0, 0), (5, 0), (5, 5), (10, 5), (10, 10), (5, 10), (5, 5), (0, 5)]),
        shapely.MultiPolygon([shapely.box(0, 0, 5, 5), shapely.box(5, 5, 10, 10)]),
    ),
    "a crossing of a few centimetres": (
        shapely.Polygon([(0, 0), (10, 0), (10, 10), (10.05, 10.05), (10.05, 10), (10, 10.05), (0, 10)]),
        shapely.Polygon([(0, 0), (10, 0), (10, 10), (10.025, 10.025), (10, 10.05), (0, 10)]),
    ),
}


@pytest.mark.parametrize("name", CLEAR)
def test_the_ground_of_a_repaired_polygon_is_the_one_drawn(name):
    drawn, ground = CLEAR[name]
    assert not drawn.is_valid
    repaired, doubt, certain = repair(drawn)
    assert certain
    assert repaired.is_valid
    assert repaired.geom_type == ground.geom_type
    assert doubt < 1e-2
    assert repaired.symmetric_difference(ground).area < 1e-2


@pytest.mark.parametrize(
    ("polygon", "doubt"),
    [
        (shapely.Polygon([(0, 0), (10, 10), (10, 0), (0, 10)]), 25.0),  # a bow-tie
        (shapely.Polygon([(0, 0), (10, 0), (0, 10), (10, 12)]), None),  # one with unequal wings
        (shapely.Polygon(SQUARE + SQUARE), 100.0),  # round twice
        (shapely.Polygon(SQUARE, [moved(HOLE, 20)]), 4.0),  # a hole outside
        (shapely.Polygon(SQUARE, [moved(HOLE, -3)]), 2.0),  # a hole half outside
        (shapely.Polygon(SQUARE, [HOLE, HOLE]), 4.0),  # a hole twice: cut out, or filled again?
        (shapely.MultiPolygon([shapely.Polygon(SQUARE), shapely.Polygon(moved(SQUARE, 5))]), 50.0),
        (shapely.MultiPolygon([shapely.Polygon(SQUARE), shapely.Polygon(HOLE)]), 4.0),  # a part, or a courtyard?
        (shapely.Polygon([(0, 0), (10, 0), (0, 0), (0, 0)]), 0.0),  # a line: no ground at all
    ],
)
def test_a_polygon_whose_ground_is_in_doubt_is_not_certain(polygon, doubt):
    _, found, certain = repair(polygon)
    assert not certain
    if doubt is not None:
        assert found == pytest.approx(doubt, abs=1e-6)


@pytest.mark.parametrize(
    ("size", "wing", "certain"), [(10, 0.2, True), (10, 0.24, False), (1, 0.04, True), (1, 0.06, False)]
)
def test_a_wing_of_the_wrong_sense_goes_if_it_is_below_a_tenth_of_a_square_metre_and_a_hundredth(size, wing, certain):
    """A triangle whose sides cross at its top into a wing."""
    left, top = size / 2 - wing, size + 2 * wing
    repaired, doubt, found = repair(shapely.Polygon([(0, 0), (size, 0), (left, top), (left + 2 * wing, top)]))
    assert doubt == pytest.approx(2 * wing**2, rel=1e-3)
    assert found is certain
    assert repaired.area == pytest.approx(size**2 / 2, rel=1e-5)


def turns_by_angle(corners, point):
    """How often a ring goes round a point, by adding up the angles at which it sees the edges."""
    to = corners - point
    angle = np.arctan2(to[:, 1], to[:, 0])
    step = np.diff(angle)
    return round(np.sum((step + np.pi) % (2 * np.pi) - np.pi) / (2 * np.pi))


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=4, max_size=9))
@example([(3, 0), (0, 0), (2, 1), (4, 0), (1, 1), (0, 2)])
@example([(1, 3), (4, 4), (1, 3), (0, 4), (3, 6), (6, 1)])
def test_certain_is_what_goes_round_every_place_once_at_most_and_in_one_sense(corners):
    drawn = shapely.Polygon(corners)
    if drawn.is_valid:
        return
    repaired, _, certain = repair(drawn)
    ring = shapely.get_coordinates(drawn)
    lines = shapely.union_all(shapely.LineString(ring))
    cells = shapely.get_parts(shapely.polygonize(shapely.get_parts(lines)))
    cells = cells[shapely.area(cells) > 1e-3]
    # A spike runs within a cell: where a point lies on it, the angle at which it is seen has no sign.
    beside = [cell.difference(lines.buffer(1e-4)).representative_point() for cell in cells]
    turns = [turns_by_angle(ring, shapely.get_coordinates(place)[0]) for place in beside]
    area, once = shapely.area(cells), np.array(turns)
    doubt = min(area[~np.isin(once, (0, sense))].sum() for sense in (1, -1))
    if not 0 < doubt <= MAX_DOUBT_M2:  # in between, the building's size decides
        assert certain == (doubt == 0 and bool((once != 0).any()))
    if certain:
        ground = shapely.union_all(cells[np.array(turns) != 0])
        assert repaired.symmetric_difference(ground).area < 0.1


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(0, 3), st.floats(0, 6.28), st.booleans())
def test_spikes_and_repeated_corners_never_change_the_ground(seed, spikes, repeats, turn, backwards):
    rng = np.random.default_rng(seed)
    angle = np.sort(rng.uniform(0, 2 * np.pi, 9)) + turn
    corners = list(np.stack([np.cos(angle), np.sin(angle)], axis=1) * rng.uniform(4, 12, (9, 1)))
    ground = shapely.Polygon(corners)
    if ground.area < 5 or not ground.is_valid:
        return
    for _ in range(spikes):
        at = int(rng.integers(0, len(corners)))
        corners[at + 1 : at + 1] = [corners[at] + rng.uniform(-15, 15, 2), corners[at]]
    for _ in range(repeats):
        at = int(rng.integers(0, len(corners)))
        corners.insert(at, corners[at])
    drawn = shapely.Polygon(corners[::-1] if backwards else corners)
    repaired, doubt, certain = repair(drawn)
    assert certain
    assert doubt < 1e-3
    assert repaired.symmetric_difference(ground).area < 1e-3
