"""The judge of restored fields: its figures in closed form, the Gaussian process, and what is left out of products."""

import zipfile

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import ndtr

from benchmarks.makers.fields.scene import make_scene
from benchmarks.restoration import __main__ as judging
from benchmarks.restoration import fields, left_out
from benchmarks.restoration.changes import Changes, take_changes
from benchmarks.restoration.fields import Field, Truth, read_truth
from benchmarks.restoration.gaussian_process import CORRELATIONS, _badness, _Block, fit, predict, predict_grid, split
from benchmarks.restoration.hold_out import HOLD_OUTS, cut_window, read_lines
from benchmarks.restoration.metrics import Estimate, Scores, crps, gaussian, score, slope, ssim
from benchmarks.restoration.report import DEFAULT, PROCESS, Row, bars, markdown
from plumbline.core.errors import InputError
from plumbline.sources.city.in_memory import read_tracks

LOS = np.array([[-0.62, -0.11, 0.777], [0.62, -0.11, 0.777]])


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
    part = score(gaussian(truth + 2.0, truth * 0 + 1).at(column < 15), truth, 10.0)
    assert part.rmse == pytest.approx(2)
    assert np.isnan(score(gaussian(truth * np.nan, truth), truth, 10.0).rmse)


def drawn(generator, count, kind, std, span, scale, nugget):
    """Points of two tracks over two drawn fields, with noise."""
    place = generator.uniform(0, 800, (count, 2)) + np.array([4_321_000, 3_210_000])
    root = [
        np.linalg.cholesky(s**2 * CORRELATIONS[kind](cdist(place, place) / r)[0] + 1e-6 * np.eye(count))
        for s, r in zip(std, span, strict=True)
    ]
    up, east = (one @ generator.standard_normal(count) for one in root)
    los = LOS[generator.integers(2, size=count)]
    error = generator.uniform(0.5, 1.5, count)
    noise = np.hypot(scale * error, nugget) * generator.standard_normal(count)
    points = Changes(place, los, los[:, 2] * (up - 3) + los[:, 0] * (east + 2) + noise, error, error)
    return points, np.column_stack([up - 3, east + 2])


def test_the_process_recovers_what_a_field_was_drawn_with():
    points, truth = drawn(np.random.default_rng(3), 900, "matern32", (12.0, 7.0), (120.0, 200.0), 1.5, 0.5)
    found = fit(points, "matern32", 300)
    np.testing.assert_allclose(found.std, [12, 7], rtol=0.35)
    np.testing.assert_allclose(found.range_m, [120, 200], rtol=0.4)
    assert found.scale == pytest.approx(1.5, rel=0.25)
    assert found.likelihood > fit(points, "exponential", 300).likelihood
    # Out of sample, the errors are as large as it says.
    others = points.take(np.arange(900) % 6 != 0)
    asked = np.repeat(np.eye(2), 150, axis=0)
    mean, std = predict(found, others, np.tile(points.place[::6], (2, 1)), asked, neighbours=800)
    error = mean - truth[::6].T.ravel()
    assert np.sqrt(np.mean(error[:150] ** 2)) < 3
    assert (np.abs(error) < 1.645 * std).mean() == pytest.approx(0.9, abs=0.06)
    # Few neighbours say nearly what all of them say.
    corner = points.place[:1]
    near = predict(found, others, corner, np.eye(2)[:1], neighbours=250)
    assert near[0] == pytest.approx(predict(found, others, corner, np.eye(2)[:1], neighbours=800)[0], abs=0.5)


def test_the_likelihoods_gradient_is_that_of_differences():
    points, _ = drawn(np.random.default_rng(0), 60, "exponential", (5.0, 3.0), (100.0, 60.0), 1.0, 0.3)
    parts = [points.take(rows) for rows in split(points.place, 30)]
    assert sorted(len(part.change) for part in parts) == [30, 30]
    data = [_Block(part, part.los[:, [2, 0]], cdist(part.place, part.place)) for part in parts]
    theta = np.log([4.0, 2.0, 80.0, 70.0, 1.2, 0.4])
    for kind in CORRELATIONS:
        _, gradient = _badness(theta, kind, data)
        for number, axis in enumerate(np.eye(6) * 1e-5):
            ahead, behind = _badness(theta + axis, kind, data)[0], _badness(theta - axis, kind, data)[0]
            assert gradient[number] == pytest.approx((ahead - behind) / 2e-5, rel=1e-4, abs=1e-4)


def test_one_side_has_one_field():
    points, _ = drawn(np.random.default_rng(0), 80, "matern32", (5.0, 3.0), (100.0, 60.0), 1.0, 0.3)
    one_side = points._replace(los=np.tile(LOS[0], (80, 1)))
    found = fit(one_side, "matern32", 80)
    (estimate,) = predict_grid(found, one_side, 4_321_000, 3_210_800, 40.0, (20, 20))
    assert estimate.mean.shape == (20, 20)
    assert np.isfinite(estimate.std).all()


def test_a_short_series_has_no_season(tmp_path):
    generator = np.random.default_rng(0)
    make_scene(tmp_path / "s", "sparse", 1, tracks=1)
    (track,) = read_tracks([tmp_path / "s" / "EGMS_L2b_A_IW2_VV.csv"])
    short = track.at(np.arange(len(track.epochs)) < 20)
    when = (short.epochs - short.epochs[0]) / (short.epochs[-1] - short.epochs[0])
    true = generator.normal(0, 20, len(short))
    series = true[:, None] * when + generator.normal(0, 1, short.displacement.shape)
    series[:, 5] += 40
    found = take_changes([type(short)(**{**vars(short), "displacement": series.astype(np.float32)})])
    z = (found.change - true) / found.error
    assert np.std(z) == pytest.approx(1.05, abs=0.15)


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
    place = np.array([[4_321_015.0, 3_210_025.0], [4_321_005.0, 3_210_025.0], [4_320_995.0, 3_210_025.0]])
    np.testing.assert_array_equal(field.at("east", place).mean, [501, np.nan, np.nan])
    same = Truth({"up": np.zeros((3, 5))}, 4_321_000, 3_210_030, 10.0)
    np.testing.assert_array_equal(field.on("up", same).low[1], [304, 305, 306, 307, np.nan])
    shifted = Truth({"up": np.zeros((1, 2))}, 4_321_015, 3_210_020, 10.0)
    np.testing.assert_allclose(field.on("up", shifted).mean, [[105.5, 106.5]])


def test_a_command_is_run_and_what_it_takes_is_seen(tmp_path, monkeypatch):
    made, command = write_field(tmp_path / "made.tif"), tmp_path / "python"
    # In place of Python: keeps its words, and copies the field to what stands behind --output.
    command.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/words\nsleep 0.3\n'
        f'while [ "$1" != --output ]; do shift; done\ncp {made} "$2"\n'
    )
    command.chmod(0o755)
    monkeypatch.setattr(fields.sys, "executable", str(command))
    run = fields.restore([tmp_path / "a.csv", tmp_path / "b.csv"], ["--steps", "50"])
    words = (tmp_path / "words").read_text().split()
    assert words[:7] == ["-m", "plumbline", "restore", "--points", f"{tmp_path}/a.csv", "--points", f"{tmp_path}/b.csv"]
    assert words[-2:] == ["--steps", "50"]
    assert run.field.names() == ["up", "east"]
    assert 0.3 <= run.seconds < 30
    assert 0.1 < run.peak_mb < 100


def test_a_field_without_a_complete_component_is_refused(tmp_path):
    rasterio = pytest.importorskip("rasterio")
    profile = {"driver": "GTiff", "width": 4, "height": 3, "count": 1, "dtype": "float32", "crs": "EPSG:3035"}
    with rasterio.open(tmp_path / "a.tif", "w", **profile, transform=rasterio.Affine(10, 0, 0, 0, -10, 0)) as target:
        target.write(np.zeros((3, 4), np.float32), 1)
    with pytest.raises(InputError, match="up_mm"):
        fields.read_field(tmp_path / "a.tif")


def test_bars_are_those_of_the_issue():
    better, base = Scores(1.0, 22.5, 0.6, 0.04, 0.8, 0.9), Scores(1.5, 20.0, 0.5, 0.06, 1.0, 0.7)
    rows = [
        Row("plain-1", "plain", DEFAULT, 1.0, better, better, 30.0, 500.0),
        Row("plain-1", "plain", PROCESS, 1.0, base, base, 1.0, 1.0),
    ]
    assert all(bar.met for bar in bars(rows))
    nan = Scores(2.0, float("nan"), float("nan"), 0.07, 1.1, 0.95)
    rows[0] = rows[0]._replace(up=nan, east=nan, seconds=61.0)
    found = bars(rows)
    assert not any(bar.met for bar in found)
    assert "plain-1 psnr" in markdown(rows)


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    folder = tmp_path_factory.mktemp("judged") / "sparse-4"
    make_scene(folder, "sparse", 4)
    return folder


def test_a_restored_scene_is_judged_beside_the_process(scene, monkeypatch, capsys):
    truth = read_truth(scene)

    def restored(points, options=()):
        assert [path.parent for path in points] == [scene, scene]
        error = 0.5 if "--good" in options else 1.5
        bands = {}
        for name in ("up", "east"):
            mean = truth.component[name] + error
            mean[:20] = np.nan
            parts = Estimate(mean, mean * 0 + 1, mean - 1.6, mean + 1.6)
            bands |= {name + suffix: values for suffix, values in zip(fields.SUFFIXES, parts, strict=True)}
        return fields.Run(Field(bands, truth.left, truth.top, truth.cell_m), 12.0, 345.0)

    monkeypatch.setattr(judging, "restore", restored)
    arguments = [
        "--scenes",
        str(scene),
        "--variant",
        "good=--good",
        "--covariance",
        "matern32",
    ]
    judging.main(arguments)
    said = capsys.readouterr().out
    assert "| sparse-4 | restore | up | 1.50 |" in said
    assert "| sparse-4 | good | up | 0.50 |" in said
    assert "| sparse-4 | restore | 84.4% | 12.0 | 345 |" in said


@pytest.mark.slow
def test_a_restoration_that_fails_is_said(tmp_path):
    with pytest.raises(InputError, match="plumbline restore ended with"):
        fields.restore([tmp_path / "none.csv"])


def test_what_is_wrong_is_said(tmp_path, capsys):
    for arguments, said in (
        (["--scenes", str(tmp_path / "nameless")], "Name it DOMAIN-SEED"),
        (["--scenes", str(tmp_path)], "truth.npz: no such file"),
        (["--scenes", str(tmp_path), "--variant", "nothing"], "write NAME=OPTIONS"),
    ):
        with pytest.raises(SystemExit) as ended:
            judging.main(arguments)
        assert (ended.value.code, said in capsys.readouterr().err) == (2, True)


def test_what_is_left_out_is_the_rest_of_the_product(scene, tmp_path):
    paths = sorted(scene.glob("*.csv"))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(paths[0], "a.csv")
        archive.writestr("a.xml", "<about/>")
    products = read_lines([tmp_path / "a.zip", paths[1]])
    assert [one.name for one in products] == ["a.csv", paths[1].name]
    assert "".join([*products[1].head, *products[1].body]) == paths[1].read_text()
    for name, choose in HOLD_OUTS.items():
        chosen = choose(np.random.default_rng(0), products)
        share = np.concatenate(chosen).mean()
        assert share == pytest.approx(0.2, abs=0.08 if name == "blocks of 50 m" else 0.005)
        one, rows = products[0], chosen[0]
        kept, left = one.take(~rows).write(tmp_path / name / "kept"), one.take(rows).write(tmp_path / name / "left")
        ids = [list(read_tracks([path])[0].point_id) for path in (kept, left, paths[0])]
        assert sorted(ids[0] + ids[1]) == sorted(ids[2])
        if name == "blocks of 50 m":
            blocks = [set(map(tuple, (one.place[part] // 50).astype(int))) for part in (rows, ~rows)]
            assert not blocks[0] & blocks[1]
    window = cut_window(products, 300.0)
    assert all((np.ptp(one.place, axis=0) <= 300).all() for one in window)
    assert sum(len(one.body) for one in window) > 300**2 / 1280**2 * sum(len(one.body) for one in products)
    (tmp_path / "odd.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="known columns of position"):
        read_lines([tmp_path / "odd.csv"])


def test_a_field_is_projected_to_the_line_of_sight():
    cell = np.ones((1, 1))
    bands = {}
    for name, mean, std in (("up", -10.0, 3.0), ("east", 5.0, 4.0)):
        half = 2 * std
        for suffix, value in zip(fields.SUFFIXES, (mean, std, mean - half, mean + half), strict=True):
            bands[name + suffix] = value * cell
    asked = Changes(np.array([[5.0, 5.0], [25.0, 5.0]]), LOS, np.zeros(2), np.ones(2), np.ones(2))
    said = left_out.by_field(Field(bands, 0.0, 10.0, 10.0), asked)
    assert said.mean[0] == pytest.approx(-10 * 0.777 - 5 * 0.62)
    assert said.std[0] == pytest.approx(np.hypot(3 * 0.777, 4 * 0.62))
    assert said.half[0] == pytest.approx(2 * said.std[0])
    assert np.isnan(said.mean[1])


def test_left_out_points_of_a_scene_are_judged(scene, monkeypatch, tmp_path):
    truth = read_truth(scene)

    def restored(points, options):
        assert options == ["--steps", "10"]
        bands = {}
        for name in ("up", "east"):
            mean = truth.component[name]
            for suffix, value in zip(fields.SUFFIXES, (mean, mean * 0 + 0.3, mean - 0.5, mean + 0.5), strict=True):
                bands[name + suffix] = value
        return fields.Run(Field(bands, truth.left, truth.top, truth.cell_m), 1.0, 1.0)

    monkeypatch.setattr(left_out, "restore", restored)
    results = left_out.judge(
        sorted(scene.glob("*.csv")), "random", tmp_path, options=["--steps", "10"], kind="matern32", window=900.0
    )
    assert [(one.who, one.noise) for one in results] == [
        (who, noise) for who in (DEFAULT, PROCESS) for noise in (left_out.SERIES, left_out.FITTED)
    ]
    assert len({one.points for one in results}) == 1
    assert results[0].answered > 0.97
    assert results[0].crps < results[2].crps
    assert "**" in left_out.markdown(["a.csv"], [results[0]._replace(coverage=0.5)])
