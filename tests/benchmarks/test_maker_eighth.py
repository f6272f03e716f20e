import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import shapely

from benchmarks.heldout.judge import examine
from benchmarks.makers.eighth.__main__ import main
from benchmarks.makers.eighth.city import make_city
from benchmarks.makers.eighth.courses import course, draw_courses, passing_course
from benchmarks.makers.eighth.failure import draw_failure, draw_hinge, draw_sag
from benchmarks.makers.eighth.frame import frame_of
from benchmarks.makers.eighth.labels import lay_bays
from benchmarks.makers.eighth.residuals import Borrowed, explained_spread, read_residuals, robust_fit
from benchmarks.makers.eighth.scatterers import draw_scatterers
from benchmarks.makers.eighth.tunnels import Tunnel, find_trough
from plumbline.core.errors import InputError
from plumbline.params import Ingest
from plumbline.sources.city.ingest import ingest
from plumbline.sources.points.read import read_points

BUILDINGS, SEED = 40, 5
HOUSE = shapely.affinity.rotate(shapely.box(500_000, 600_000, 500_020, 600_012), 30, origin="centroid")
FRAME = frame_of(HOUSE)
OWN = shapely.transform(HOUSE, FRAME.to_own)
BAYS = lay_bays(OWN, FRAME)
X, Y = BAYS.place.T


def label(up, along_x=0.0, along_y=0.0, bays=BAYS):
    x = bays.place[:, 0]
    return bays.label(up + 0 * x, np.column_stack([along_x + 0 * x, along_y + 0 * x]))


def test_rigid_motion_is_no_damage():
    assert label(-0.05 + 4e-3 * X - 2e-3 * Y, 0.03, -0.02).severity == pytest.approx(0, abs=1e-9)


def test_a_stretch_is_its_own_strain_and_compression_is_none():
    assert label(0, 1e-3 * X).severity == pytest.approx(1)
    assert label(0, 0, 1e-3 * Y).severity == pytest.approx(1)
    assert label(0, -1e-3 * X, -1e-3 * Y).severity == pytest.approx(0, abs=1e-9)


def test_a_slope_and_a_stretch_combine_as_boscardin_and_cording():
    # The plane through a parabola about the centre is level, so the outermost bay, 6 to 10 m, has the parabola's slope.
    beta, stretch = 1e-4 * 16, 5e-4
    assert label(1e-4 * X**2).severity == pytest.approx(1e3 * beta / 2, rel=1e-4)
    expected = 1e3 * (stretch / 2 + np.hypot(stretch / 2, beta / 2))
    assert label(1e-4 * X**2, stretch * X).severity == pytest.approx(expected, rel=1e-4)


def test_bays_stay_on_the_footprint_and_are_half_of_a_short_side():
    corner = shapely.Polygon([(-15, -12), (15, -12), (15, -2), (-5, -2), (-5, 12), (-15, 12)])
    bays = lay_bays(corner, frame_of(corner))
    assert shapely.dwithin(corner, shapely.points(bays.place), 0.002).all()
    small = shapely.box(-3, -3.5, 3, 3.5)
    bays = lay_bays(small, frame_of(small))
    assert [set(bays.length[bays.axis == axis]) for axis in (0, 1)] == [{3.0}, {3.5}]


@pytest.mark.parametrize("turn", [45, -44, 30, 100])
def test_the_x_axis_is_the_side_nearest_to_east(turn):
    frame = frame_of(shapely.affinity.rotate(shapely.box(0, 0, 20, 12), turn))
    assert np.degrees(np.arctan2(*frame.axes[0][::-1])) == pytest.approx(turn if turn < 50 else turn - 90)
    np.testing.assert_allclose(frame.side, (20, 12) if turn < 50 else (12, 20))


def test_a_failing_corner_is_found_in_its_quadrant_with_the_strain_asked_for():
    # Of the second house a corner is missing, so that what fails there strains other quadrants.
    notched = shapely.Polygon([(-15, -12), (15, -12), (15, 5), (7, 5), (7, 12), (-15, 12)])
    shapes = set()
    for own, seeds in ((OWN, 100), (notched, 40)):
        frame = frame_of(own)
        bays = lay_bays(own, frame)
        for seed in range(seeds):
            hinge = draw_failure(np.random.default_rng(seed), own, frame, bays, 2.5)
            found = bays.label(*hinge.move(bays.place))
            east, north = hinge.corner > 0
            assert found.severity == pytest.approx(2.5)
            assert found.quadrant == f"{'N' if north else 'S'}{'E' if east else 'W'}"
            assert found.rival < 0.8
            shapes.add(hinge.shape)
    assert len(shapes) == 5


def test_a_corner_drops_all_the_way_and_the_opposite_one_stays():
    for seed in range(25):
        hinge = draw_hinge(np.random.default_rng(seed), FRAME.side, "SE")
        up, sideways = hinge.move(np.array([[10.0, -6.0], [-10.0, 6.0]]))
        assert up[0] == pytest.approx(hinge.drop)
        np.testing.assert_allclose(sideways[0], hinge.outwards * [1, -1], rtol=1e-6)
        assert abs(up[1]) < 0.05


def test_a_sag_is_harmless():
    for seed in range(5):
        sag = draw_sag(np.random.default_rng(seed), FRAME, BAYS)
        assert 0 < BAYS.label(*sag.move(BAYS.place)).severity < 0.1


def test_a_trough_is_the_textbooks_and_a_stiff_house_bends_less():
    # Peck's trough: D 6 m, volume loss 1.5 %, z0 15 m, K 0.5 gives 22.5 mm and a largest slope of 1.8e-3.
    tunnel = Tunnel(FRAME.centre, np.array([0.0, 1.0]), 15.0, 7.5, 0.313 * 0.015 * 6**2 / 7.5, 0.5, 4000.0)
    across = np.linspace(-30, 30, 601)
    up, sideways = tunnel.greenfield(FRAME.centre + np.column_stack([across, 0 * across]))
    assert up.min() == pytest.approx(-0.0225, abs=1e-4)
    assert np.gradient(up, across).max() == pytest.approx(1.8e-3, abs=5e-5)
    np.testing.assert_allclose(sideways[:, 0], across * up / 15, atol=1e-12)
    free, stiff = (
        BAYS.label(*find_trough([tunnel], FRAME, BAYS, *shares).move(BAYS.place))
        for shares in ((1.0, 1.0), (0.1, 0.01))
    )
    assert 0 < stiff.severity < 0.3 * free.severity
    assert find_trough([replace(tunnel, point=FRAME.centre + 60)], FRAME, BAYS, 1.0, 1.0) is None


def test_every_course_goes_from_none_to_all():
    drawn = draw_courses(np.random.default_rng(0), 100)
    share = np.linspace(0, 1, 40)
    passing = passing_course(np.array([[0.12, 0.05], [0.85, 0.05]]), share)
    assert set(drawn[:, 0]) == {0, 1, 2, 3}
    for values in (course(drawn, share), passing):
        np.testing.assert_allclose(values[:, [0, -1]], [[0, 1]] * len(values), atol=1e-12)
        assert (np.diff(values, axis=1) >= -1e-12).all()
    assert passing[0, 10] > 0.9 > 0.1 > passing[1, 20]


def test_scatterers_are_on_their_house_and_low_ones_where_the_satellite_sees_them():
    found = draw_scatterers(np.random.default_rng(0), HOUSE, 9.0, np.array([-1.0, 0.0]), 20, (2.0, 5.0))
    x, y = FRAME.to_own(found.east_north).T
    assert shapely.dwithin(HOUSE, shapely.points(found.east_north), 1e-6).all()
    low = found.height < 7.9
    assert 3 < low.sum() < 17
    # From the west: of a house turned by 30 degrees, the walls to its west and north.
    assert (np.minimum(abs(x + 10), abs(y - 6))[low] < 0.3).all()
    cells = np.floor(np.column_stack([found.east_north[:, 1] / 2, (1.3 * found.height - found.east_north[:, 0]) / 5]))
    assert len(np.unique(cells, axis=0)) == 20


@pytest.fixture(scope="module")
def city(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("makers") / "sentinel_eighth"
    make_city(folder, "sentinel", BUILDINGS, SEED)
    return folder


def test_a_seed_says_everything(city, tmp_path):
    make_city(tmp_path / "again", "sentinel", BUILDINGS, SEED)
    for path in city.iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()


def test_a_city_is_what_the_maker_wrote(city):
    # Of the script that the judged cities were made with: whatever is drawn in another order gives another city.
    labels = pd.read_csv(city / "labels.csv", keep_default_na=False)
    np.testing.assert_allclose(
        labels["severity_permille"][:6], [0.8005, 0.11396, 4.329, 0.42863, 0, 0.62328], atol=1e-5
    )
    assert "".join(labels["quadrant"].str.ljust(2, "-")) == (
        "SE--NW----SE----NW--NE--SWNWNW------NWSWNENW--NE--NENE--NE----SE----------NENWNW"
    )
    for track, pid, points, epochs, easting, moved in (
        ("A", "WPc3kt6VmH", 256, 236, 1105729723.0, -826858.6),
        ("D", "VNGHQKFBCX", 226, 230, 976153144.31, -779951.6),
    ):
        table = pd.read_csv(city / f"EGMS_L2b_{track}.csv")
        series = table.filter(regex=r"^\d{8}$")
        assert (table["pid"][0], *series.shape) == (pid, points, epochs)
        assert table["easting"].sum() == pytest.approx(easting, abs=0.1)
        assert series.sum().sum() == pytest.approx(moved, abs=2)


def test_a_city_is_read_and_its_damage_can_be_found(city, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ingest([city], Ingest(), tmp_path / "ingest", 1)
    for track, heading in (("A", 349.0), ("D", 190.9)):
        los = read_points(city / f"EGMS_L2b_{track}.csv").los
        assert np.degrees(np.arctan2(los[:, 1], -los[:, 0])).mean() % 360 == pytest.approx(heading, abs=0.2)
    ((_, kind, _, scores),) = examine(city, None).rows
    assert (kind, scores.buildings) == ("sentinel", BUILDINGS)
    assert scores.quadrant > 0.3


def test_days_may_be_asked_for(tmp_path):
    make_city(tmp_path / "c", "sentinel", 3, 0, revisit_days=12, years=1.5)
    days = read_points(tmp_path / "c/EGMS_L2b_A.csv").epochs
    assert np.diff(days).min() == np.timedelta64(12, "D")
    assert 450 < (days[-1] - days[0]) / np.timedelta64(1, "D") < 548


def write_product(path: Path, series: np.ndarray, place: np.ndarray, heading: float) -> Path:
    days = pd.date_range("2020-01-05", periods=series.shape[1], freq="6D").strftime("%Y%m%d")
    columns = {"easting": place[:, 0], "northing": place[:, 1], "incidence_angle": 38.0, "track_angle": heading}
    table = pd.DataFrame(columns)
    table.join(pd.DataFrame(series, columns=days)).to_csv(path, index=False)
    return path


def test_borrowed_noise_has_what_points_do_alone_and_not_what_the_ground_does(tmp_path):
    generator = np.random.default_rng(0)
    years = np.arange(150) * 6 / 365.25
    place = generator.uniform(0, 60, (80, 2))
    ground = 30 * years + 10 * np.cos(2 * np.pi * years) + 4 * years**2
    white, line = generator.normal(0, 1, (80, 150)), generator.normal(0, 2, 80)
    still = write_product(tmp_path / "still.csv", ground + white, place, 349.0)
    residuals = read_residuals(still, "ascending").series
    assert abs(residuals.mean(0)).max() < 0.6
    assert residuals.std() == pytest.approx(1, abs=0.05)
    # Of lines that noise does not explain a part is left; that of points that move alone.
    moving = write_product(tmp_path / "moving.csv", ground + white + line[:, None] * years, place, 191.0)
    kept = np.polyfit(years, read_residuals(moving, "descending").series.T, 1)[0]
    assert np.corrcoef(kept, line)[0, 1] > 0.95
    t = years - years.mean()
    columns = np.array([np.ones_like(t), t, t**2, np.cos(2 * np.pi * t), np.sin(2 * np.pi * t)])
    explained = np.sqrt(np.linalg.inv(columns @ columns.T)[1, 1])  # white noise of 1 mm
    assert np.polyfit(line, kept, 1)[0] == pytest.approx(np.sqrt(explained / line.std()), rel=0.2)

    borrowed = Borrowed([still, moving])
    borrowed.settle(generator, 2)
    owner, offset = np.array([0] * 12 + [1] * 3), generator.uniform(-9, 9, (15, 2))
    noise = borrowed.noise(0, owner, offset)
    assert len(np.unique(abs(noise[:12, 0]))) == 12
    for series in noise:
        assert (np.isclose(series, residuals).all(1) | np.isclose(-series, residuals).all(1)).any()
    with pytest.raises(InputError, match=r"--residuals: .* have no place with"):
        Borrowed([still, write_product(tmp_path / "far.csv", white, place + 1000, 191.0)])


def test_a_robust_fit_passes_outliers_by():
    generator = np.random.default_rng(0)
    design = np.column_stack([np.ones(150), np.linspace(-1, 1, 150)])
    series = design @ np.array([[3.0], [5.0]]) + generator.normal(0, 1, (150, 40))
    series[-8:] += 30
    assert abs(robust_fit(design, series).mean(1) - [3, 5]).max() < 0.8  # plain least squares: 4


def test_noise_explains_what_it_does_to_fits():
    years = np.arange(150) * 6 / 365.25
    years -= years.mean()
    turn = 2 * np.pi * years
    design = np.column_stack([np.ones(150), years, years**2 - (years**2).mean(), np.cos(turn), np.sin(turn)])
    noise = np.random.default_rng(0).normal(0, 2, (150, 300))
    fitted = np.linalg.pinv(design) @ noise
    found = explained_spread(design, years, noise - design @ fitted)
    np.testing.assert_allclose(found[1:], fitted.std(1)[1:], rtol=0.35)  # the slower, the less is told by what is left


def test_real_noise_is_that_of_the_files(tmp_path):
    generator = np.random.default_rng(0)
    files = [
        write_product(
            tmp_path / f"{name}.csv", generator.normal(0, 2, (60, epochs)), generator.uniform(0, 50, (60, 2)), heading
        )
        for name, epochs, heading in (("up", 100, 349.0), ("down", 90, 191.0))
    ]
    with zipfile.ZipFile(tmp_path / "up.zip", "w") as archive:
        archive.writestr("up.xml", "")
        archive.write(files[0], "up.csv")
    make_city(tmp_path / "c", "sentinel_real", 3, 0, [tmp_path / "up.zip", files[1]])
    assert [len(read_points(tmp_path / f"c/EGMS_L2b_{track}.csv").epochs) for track in "AD"] == [100, 90]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--kind sentinel_real", "--residuals: two EGMS"),
        ("--kind xband --residuals a.csv b.csv", "--residuals: two EGMS"),
        ("--kind sentinel_real --residuals a.csv b.csv", "--residuals: a.csv: no such file"),
        ("--kind sentinel_real --residuals a.csv b.csv --years 3", "--years: 3.0 found, but sentinel_real"),
        ("--kind xband --revisit-days 1", "--revisit-days: 1 found"),
        ("--kind xband --years 0.8", "--years: 0.8 found, 0.9 to"),
        ("--kind xband --buildings 0", "--buildings: 0 found"),
        ("--kind xband --seed -1", "--seed: -1 found"),
    ],
)
def test_the_command_says_what_is_wrong(options, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["eighth", "city", *options.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(f"ERROR {said}")
    assert not list(tmp_path.iterdir())
