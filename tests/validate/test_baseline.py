"""The engineer's least squares on damage whose answer is known."""

import geopandas
import numpy as np
import pytest
import shapely

from plumbline.params import Prepare
from plumbline.prepare.buildings import prepare_buildings
from plumbline.prepare.response.shapes import ALL, CORNER, END, Shape, ShapeProfiles, displacement, strains_per_mm
from plumbline.sources.points.track import Track
from plumbline.validate.measure import least_squares

EAST, NORTH = 4_598_000.0, 1_739_000.0
ASCENDING, DESCENDING = (-0.6, -0.12, 0.79), (0.6, -0.12, 0.79)
SIDES = np.array([16.0, 12.0])
FIRST = [shape for shape in ALL if shape.mechanism == CORNER and shape.form == 0 and shape.pull == 0]
"""The plainest corner of each quadrant."""


def satellite(name, los, motion, position):
    """A track whose points move by `motion` (N, 3) mm east, north, up, evenly in two years."""
    epochs = np.arange("2020-01-01", "2022-01-01", 12, dtype="datetime64[D]")
    along = motion @ np.array(los)
    return Track(
        name=name,
        crs="EPSG:3035",
        epochs=epochs,
        point_id=np.array([f"{name}{i}" for i in range(len(position))], object),
        easting=EAST + position[:, 0],
        northing=NORTH + position[:, 1],
        height=np.full(len(position), 6.0),
        los=np.tile(los, (len(position), 1)),
        displacement=(along[:, None] * np.linspace(0, 1, len(epochs))).astype(np.float32),
    )


def judge(quadrant, drop_mm, tilt=(0.0, 0.0), settlement_mm=0.0):
    """Judge one house of 16 by 12 m whose corner dropped, seen without noise from both sides."""
    x, y = np.meshgrid(np.linspace(-7.5, 7.5, 9), np.linspace(-5.5, 5.5, 7))
    position = np.column_stack([x.ravel(), y.ravel()])
    shape = quadrant if isinstance(quadrant, Shape) else FIRST[quadrant]
    unit_drop, _ = displacement(shape, ShapeProfiles(*position.T[:, None], SIDES[None]))
    up = -drop_mm * unit_drop[0] - settlement_mm + position @ np.array(tilt)
    motion = np.column_stack([np.zeros_like(up), np.zeros_like(up), up])
    tracks = [satellite("a", ASCENDING, motion, position), satellite("d", DESCENDING, motion, position)]
    house = shapely.box(EAST - 8, NORTH - 6, EAST + 8, NORTH + 6)
    buildings = geopandas.GeoDataFrame({"building_id": ["house"]}, geometry=[house], crs="EPSG:3035")
    return least_squares(prepare_buildings(tracks, buildings, Prepare()).sequences)


@pytest.mark.parametrize("drop_mm", [5.0, 20.0, -10.0])
@pytest.mark.parametrize("quadrant", range(4))
def test_a_dropped_corner_is_found_and_its_strain_told(quadrant, drop_mm):
    said = judge(quadrant, drop_mm)
    assert said.probability.argmax(1) == [quadrant]
    assert said.probability.sum(1) == pytest.approx([1.0])
    assert np.isnan([said.low, said.high]).all()
    assert said.probability[0, quadrant] > 0.75  # a bowl, which is in more quadrants, is hardly less likely
    assert said.severity[0] == pytest.approx(abs(drop_mm) * strains_per_mm(SIDES[None])[0, 0].max(), rel=0.1)


def test_an_end_that_drops_is_told_in_one_of_its_quadrants_and_its_strain():
    east = next(shape for shape in ALL if shape[:5] == (END, 0, (1.0, 0.0), 0.45, 0.0))
    said = judge(east, 15.0, settlement_mm=10.0)
    np.testing.assert_allclose(said.probability[0, [0, 3]], 0.5, atol=0.02)
    wanted = 15 * strains_per_mm(SIDES[None])[0, ALL.index(east)].max()
    assert said.severity[0] == pytest.approx(wanted, rel=0.1)


def test_settlement_and_tilt_change_nothing():
    assert judge(0, 0.0, tilt=(2.0, 1.0), settlement_mm=60.0).severity[0] < 0.05
    plain, moved = judge(2, 10.0), judge(2, 10.0, tilt=(1.5, -0.8), settlement_mm=40.0)
    assert moved.probability.argmax(1) == [2]
    assert moved.severity[0] == pytest.approx(plain.severity[0], rel=0.05)
