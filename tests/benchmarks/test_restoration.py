"""The judge of restored fields: its figures in closed form, and how a field is read and judged."""

import numpy as np
import pytest
from scipy.special import ndtr

from benchmarks.restoration import fields
from benchmarks.restoration.fields import Truth
from benchmarks.restoration.metrics import Estimate, crps, score, slope, ssim


def gaussian(mean, std):
    return Estimate(mean, std, mean - 1.645 * std, mean + 1.645 * std)


def test_structural_similarity_is_that_of_its_definition():
    generator = np.random.default_rng(0)
    truth = generator.normal(-40, 5, (12, 9))
    field = truth + generator.normal(0, 2, truth.shape)
    field[0, 0] = np.nan
    extent, every = np.ptp(truth), []
    for row in range(6):
        for column in range(3):
            x, y = (values[row : row + 7, column : column + 7].ravel() for values in (field, truth))
            if np.isnan(x).any():
                continue
            both = np.cov(x, y)
            c1, c2 = (0.01 * extent) ** 2, (0.03 * extent) ** 2
            top = (2 * x.mean() * y.mean() + c1) * (2 * both[0, 1] + c2)
            every.append(top / (x.mean() ** 2 + y.mean() ** 2 + c1) / (both[0, 0] + both[1, 1] + c2))
    assert len(every) == 17
    assert ssim(field, truth, extent) == pytest.approx(np.mean(every), rel=1e-9)
    assert ssim(truth, truth, extent) == pytest.approx(1)
    assert np.isnan(ssim(np.full((9, 9), np.nan), truth[:9, :9], extent))


def test_crps_is_the_integral_of_its_definition():
    at = np.linspace(-80, 80, 160_001)
    for mean, std, truth in ((0.0, 1.0, 0.0), (3.0, 2.0, -1.0), (-5.0, 0.3, -5.2)):
        integral = np.trapezoid((ndtr((at - mean) / std) - (at >= truth)) ** 2, at)
        assert float(crps(np.array(mean), np.array(std), np.array(truth))) == pytest.approx(integral, abs=0.01)
    assert float(crps(np.array(2.0), np.array(0.0), np.array(5.0))) == pytest.approx(3)  # without spread: the error


def test_figures_of_a_plane_are_those_by_hand():
    row, column = np.mgrid[:20, :30]
    truth = -0.3 * column + 0.4 * row
    np.testing.assert_allclose(slope(truth, 10.0)[1:-1, 1:-1], 0.05)
    found = score(gaussian(truth + 2.0, np.full(truth.shape, 1.0)), truth, 10.0)
    assert found.rmse == pytest.approx(2)
    assert found.psnr == pytest.approx(20 * np.log10(np.ptp(truth) / 2))
    assert found.gradient == pytest.approx(0, abs=1e-12)
    assert (found.coverage, score(gaussian(truth + 1.6, truth * 0 + 1), truth, 10.0).coverage) == (0, 1)
    flat = score(gaussian(truth * 0 + 0.1, truth * 0 + 1), truth * 0, 10.0)
    assert np.isnan(flat.psnr)
    assert np.isnan(flat.ssim)
    part = score(gaussian(np.where(column < 15, truth + 2.0, np.nan), truth * 0 + 1), truth, 10.0)
    assert part.rmse == pytest.approx(2)
    assert np.isnan(score(gaussian(truth * np.nan, truth), truth, 10.0).rmse)


def write_field(path):
    """Write a field of 3 x 4 cells, whose first is empty; band n holds 100 n and the number of the cell."""
    rasterio = pytest.importorskip("rasterio")
    values = np.arange(12.0).reshape(3, 4)
    values[0, 0] = np.nan
    profile = {"driver": "GTiff", "width": 4, "height": 3, "count": 9, "dtype": "float32", "crs": "EPSG:3035"}
    transform = rasterio.Affine(10, 0, 4_321_000, 0, -10, 3_210_030)
    with rasterio.open(path, "w", **profile, transform=transform, nodata=np.nan) as target:
        names = [name + suffix for name in ("up", "east") for suffix in fields.SUFFIXES]
        for number, name in enumerate([*names, "gradient_mm_m"], 1):
            target.write((values + 100 * number).astype(np.float32), number)
            target.set_band_description(number, name)
    return path


def test_a_field_is_read_where_it_is(tmp_path):
    path = write_field(tmp_path / "field.tif")
    field = fields.read_field(path)
    assert field.names() == ["up", "east"]
    same = Truth({"up": np.zeros((3, 5))}, 4_321_000, 3_210_030, 10.0)
    np.testing.assert_array_equal(field.on("up", same).low[1], [304, 305, 306, 307, np.nan])
    shifted = Truth({"up": np.zeros((1, 2))}, 4_321_015, 3_210_020, 10.0)
    np.testing.assert_allclose(field.on("up", shifted).mean, [[105.5, 106.5]])
