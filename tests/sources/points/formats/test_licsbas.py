"""LiCSBAS's HDF5: days as whole numbers, the middle of the first pixel, and the vector beside the series."""

import h5py
import numpy as np
import pytest

from plumbline.params import Product
from plumbline.sources.points.read import is_product
from plumbline.sources.points.recognise import recognise
from tests.refusals import refuses
from tests.sources.points.opening import open_points, read_points
from tests.sources.points.write_mintpy import NORTH, SHAPE, STEP, WEST, Stack, metres
from tests.sources.points.write_points import ANGLES, DAYS, line_of_sight


def write(path, **changes):
    """The same pixels as MintPy's stack of the tests; what is None is left out."""
    arrays = {
        "cum": (metres() * 1000).astype(np.float32),
        "imdates": np.array([int(day) for day in DAYS], np.int32),
        "corner_lat": NORTH - STEP / 2,
        "corner_lon": WEST + STEP / 2,
        "post_lat": -STEP,
        "post_lon": STEP,
        "hgt": np.arange(12, dtype=np.float32).reshape(SHAPE),
        "coh_avg": np.full(SHAPE, 0.3, np.float32),
        "vel": np.zeros(SHAPE, np.float32),
        "refarea": "0:1/0:1",
        **{f"{name}.geo": np.full(SHAPE, part, np.float32) for name, part in zip("ENU", line_of_sight(), strict=True)},
    }
    with h5py.File(path, "w") as file:
        for name, values in (arrays | changes).items():
            if values is not None:
                file[name] = values
    return path


def test_a_stack_is_that_of_mintpy(tmp_path):
    path = write(tmp_path / "cum.h5")
    assert recognise(path).format == "licsbas"
    assert is_product(path)
    track, wanted = read_points(path), read_points(Stack().write(tmp_path / "timeseries.h5"))
    assert (track.crs, track.point_id.tolist()) == (wanted.crs, wanted.point_id.tolist())
    assert track.epochs.tolist() == wanted.epochs.tolist()
    np.testing.assert_allclose(track.easting, wanted.easting, atol=1e-6)
    np.testing.assert_allclose(track.northing, wanted.northing, atol=1e-6)
    np.testing.assert_allclose(track.los, wanted.los, atol=1e-6)
    np.testing.assert_allclose(track.displacement, wanted.displacement, rtol=1e-5)
    np.testing.assert_array_equal(track.height, wanted.height)
    assert track.coherence is None


def test_days_out_of_order_and_as_text_are_sorted_and_heights_may_be_absent(tmp_path):
    order = [2, 0, 3, 1]
    days = np.array([DAYS[index].encode() for index in order])
    path = write(tmp_path / "c.h5", imdates=days, cum=(metres() * 1000).astype(np.float32)[order], hgt=None)
    assert "no /hgt in it; all points are taken to be of one height" in open_points(path).notes
    track = read_points(path)
    np.testing.assert_array_equal(track.displacement, read_points(write(tmp_path / "d.h5")).displacement)


def test_the_line_of_sight_is_asked_where_the_file_has_none(tmp_path):
    path = write(tmp_path / "cum_filt.h5", **{"E.geo": None})
    with refuses("products.unstated", path, "incidence_deg"):
        read_points(path)
    track = read_points(path, {"*": Product(**ANGLES)})
    np.testing.assert_allclose(track.los, np.tile(line_of_sight(), (len(track), 1)), atol=1e-12)


@pytest.mark.parametrize(
    ("change", "key", "place"),
    [
        ({"post_lat": None}, "stack.not_geocoded", "post_lat"),
        ({"post_lat": 0.0}, "stack.no_step", "post_lat"),
        ({"imdates": np.array([1, 2, 3, 4])}, "stack.not_a_day", "/imdates, number 1: '1'"),
        ({"U.geo": np.full(SHAPE, -0.79, np.float32)}, "geometry.out_of_range", "/U.geo, row 0, column 0: -0.79"),
        ({"cum": metres() * 1e9}, "points.impossible_displacement", "/cum, epoch 2016-04-07, row 0, column 0: 1e+06"),
    ],
)
def test_what_cannot_be_is_named_by_its_place(tmp_path, change, key, place):
    with refuses(key, "c.h5", place):
        read_points(write(tmp_path / "c.h5", **change))
