"""The maker of held-out fields: closed forms, its points, its noise; and the project reads what it writes."""

import json

import numpy as np
import pytest

from benchmarks.makers.fields.edges import Embankment, Fault, Slide
from benchmarks.makers.fields.lines import Line
from benchmarks.makers.fields.noise import draw_noise, draw_patches, draw_screen, draw_screens
from benchmarks.makers.fields.satellites import draw_orbits, draw_scatterers
from benchmarks.makers.fields.scene import make_scene
from benchmarks.makers.fields.settings import CELL_M, DOMAINS, SIDE_M, WAVELENGTH_MM
from benchmarks.makers.fields.subsidence import Basin, PressureSource, Sinkhole, Trough, largest_settlement
from benchmarks.makers.fields.town import SIDE_RANGE_M, draw_moving_buildings, draw_town
from plumbline.sources.city.in_memory import read_tracks

MIDDLE = np.full(2, SIDE_M / 2)


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fields") / "sparse-4"
    make_scene(folder, "sparse", 4)
    return folder


def grid(step, half):
    along = np.arange(-half + step / 2, half, step)
    return np.stack(np.meshgrid(along, along), -1).reshape(-1, 2) + MIDDLE


def numeric_slope(form, place, column):
    """(N, 2) derivative of one component by place, mm/m."""
    step = 1e-3
    moves = [form(place + step * axis)[:, column] - form(place - step * axis)[:, column] for axis in np.eye(2)]
    return np.column_stack(moves) / (2 * step)


@pytest.mark.parametrize("radius", [np.inf, 400.0])
def test_a_trough_has_the_volume_that_is_lost(radius):
    diameter, loss, width, length = 6.0, 0.015, 7.5, 400.0
    form = Trough(Line(MIDDLE, 0.4, length, radius), 15.0, width, largest_settlement(loss, diameter, width))
    assert form.largest == pytest.approx(22.5, abs=0.1)
    step = 2.0
    volume = -form(grid(step, 400))[:, 2].sum() * step**2 / 1000
    assert volume == pytest.approx(loss * np.pi * diameter**2 / 4 * length, rel=0.003)
    across = form(MIDDLE + np.array([[-np.sin(0.4), np.cos(0.4)]]) * 7.5)
    assert across[0, 2] == pytest.approx(-form.largest * np.exp(-0.5), rel=1e-6)
    # Towards the axis, by distance and depth.
    assert np.hypot(*across[0, :2]) == pytest.approx(7.5 / 15 * -across[0, 2], rel=1e-6)
    assert across[0, :2] @ [-np.sin(0.4), np.cos(0.4)] < 0


def test_bowls_are_those_of_the_literature():
    place = MIDDLE + np.column_stack([np.linspace(0, 400, 4001), np.zeros(4001)])
    source = PressureSource(MIDDLE, 100.0, -30.0)(place)
    assert source[0].tolist() == [0, 0, -30]
    outmost = np.abs(source[:, 0]).argmax()
    assert place[outmost, 0] - MIDDLE[0] == pytest.approx(100 / np.sqrt(2), abs=0.2)
    assert source[outmost, 0] == pytest.approx(-30 * 2 / 3**1.5, rel=1e-4)  # 0.385 of the peak, inwards
    sinkhole = Sinkhole(MIDDLE, 30.0, 50.0, 0.4)
    np.testing.assert_allclose(sinkhole(place)[:, :2], -0.4 * 30 * numeric_slope(sinkhole, place, 2), atol=1e-5)


def test_a_basin_holds_the_panels_volume_and_moves_along_its_slope():
    half, radius = np.array([60.0, 110.0]), 90.0
    form = Basin(MIDDLE, half, 0.6, radius, 40.0)
    place = grid(5.0, 500)
    assert form(MIDDLE[None])[0].tolist() == pytest.approx([0, 0, -40], abs=1e-9)
    full = Basin(MIDDLE, half * 20, 0.6, radius, 40.0)(MIDDLE[None])[0, 2]
    assert full == pytest.approx(-40)
    slope = numeric_slope(form, place, 2)
    np.testing.assert_allclose(form(place)[:, :2], radius / np.sqrt(2 * np.pi) * -slope, atol=1e-4)


def test_steps_are_a_few_metres_wide_and_go_where_they_should():
    line = Line(MIDDLE, 0.0, 800.0)  # its `across` grows to the south
    beside = MIDDLE + np.array([[0, -12.0], [0, 12.0]])
    fault = Fault(line, 3.0, 1e9, np.radians(60), 50.0)(beside)
    np.testing.assert_allclose(fault[0], [0, -50 / np.tan(np.radians(60)), -50], atol=0.02)
    np.testing.assert_allclose(fault[1], 0, atol=0.02)
    strip = Embankment(line, 10.0, 4.0, 0.2, 30.0)
    # Under the middle of a strip: (2 b/z arctan + ...) of Boussinesq.
    alpha = 2 * np.arctan(10 / 4)
    assert strip.stress(np.zeros(1))[0] == pytest.approx((alpha + np.sin(alpha)) / np.pi)
    moved = strip(MIDDLE + np.array([[0, 0.0], [0, -10.0], [0, 10.0], [0, -60.0]]))
    assert moved[0, 2] == pytest.approx(-30)
    np.testing.assert_allclose(moved[1:3, 1], [-6, 6])
    assert abs(moved[3]).max() < 0.5
    slide = Slide(MIDDLE, np.array([100.0, 60.0]), np.pi / 2, np.radians(20), 5.0, 40.0)
    down = np.radians(20)
    np.testing.assert_allclose(slide(MIDDLE[None])[0], [0, 40 * np.cos(down), -40 * np.sin(down)], atol=1e-9)
    np.testing.assert_allclose(slide(MIDDLE + np.array([[0.0, 150.0]])), 0, atol=1e-6)


def test_buildings_move_as_wholes_and_nothing_beside_them():
    generator = np.random.default_rng(2)
    town = draw_town(generator)
    assert (2 * town.half >= SIDE_RANGE_M[0]).all()
    assert (2 * town.half <= SIDE_RANGE_M[1]).all()
    form, _ = draw_moving_buildings(generator, town)
    moved = form(town.centre)
    still = np.setdiff1d(np.arange(len(town.centre)), form.which)
    assert not moved[still].any()
    np.testing.assert_allclose(moved[form.which, 2], -form.settles)
    one = form.which[0]
    corner = town.centre[one] + (town.half[one] * 0.99) @ town.axes
    expected = -form.settles[0] + (town.half[one] * 0.99) @ form.tilt[0]
    assert form(corner[None])[0, 2] == pytest.approx(expected)
    assert not form(town.centre[one][None] + (town.half[one] * 1.01) @ town.axes).any()


def test_noise_screens_and_patches_have_their_sizes():
    generator, days = np.random.default_rng(0), np.arange(0, 600, 6)
    noise, size = draw_noise(generator, DOMAINS["plain"], 400, days)
    assert 2 <= size.min() < size.max() <= 5
    assert np.median(np.abs(noise)) / 0.6745 == pytest.approx(3.5, rel=0.1)
    screens = np.stack([draw_screen(generator) for _ in range(40)])
    assert np.sqrt(screens.var(axis=(1, 2)).mean()) == pytest.approx(1, rel=0.25)
    # Structure function of turbulence: lags of 2 and 8 cells differ by 4^(5/3), a little less on a finite square.
    structure = [((screens[:, lag:] - screens[:, :-lag]) ** 2).mean() for lag in (2, 8)]
    assert np.log(structure[1] / structure[0]) / np.log(4) == pytest.approx(5 / 3, abs=0.2)
    place = generator.uniform(0, SIDE_M, (3000, 2))
    delays = draw_screens(generator, DOMAINS["atmosphere"], days[:30], place[:300])
    assert 1.5 < delays.std() < 8
    jumps, patches = draw_patches(generator, DOMAINS["unwrapping"], len(days), place)
    assert 2 <= len(patches) <= 5
    off = np.abs(jumps[jumps != 0])
    assert off.min() == pytest.approx(WAVELENGTH_MM / 2)
    assert 0.002 < (jumps[:, -1] != 0).mean() < 0.3


def test_points_cluster_as_a_town_does():
    generator = np.random.default_rng(1)
    town, (up, down) = draw_town(generator), draw_orbits(generator, 2)
    assert up.los[0] < 0 < down.los[0]
    np.testing.assert_allclose(np.linalg.norm([up.los, down.los], axis=1), 1)
    seen = draw_scatterers(generator, town, up, 1500.0)
    assert len(seen.place) == pytest.approx(1500 * (SIDE_M / 1000) ** 2, rel=0.1)
    assert 0.5 < np.std(seen.reported - seen.place) < 4
    cells = np.unique((seen.place // CELL_M).astype(int), axis=0)
    assert len(cells) < 0.13 * (SIDE_M / CELL_M) ** 2  # an even spread would fill 14 %
    assert town.is_open(seen.place).mean() < 0.12 < 0.14 < town.open_cells.mean()


def test_a_seed_gives_the_scene_that_it_always_gave(scene, tmp_path):
    make_scene(tmp_path / "again", "sparse", 4)
    names = sorted(path.name for path in scene.iterdir())
    assert names == ["EGMS_L2b_A_IW2_VV.csv", "EGMS_L2b_D_IW2_VV.csv", "scene.json", "truth.npz"]
    for name in names[:3]:
        assert (scene / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    first, second = (np.load(folder / "truth.npz") for folder in (scene, tmp_path / "again"))
    assert all(np.array_equal(first[key], second[key]) for key in ("up_mm", "east_mm", "left", "top", "cell_m"))
    # The ground moves alike in all domains.
    make_scene(tmp_path / "plain", "noise", 4, tracks=1)
    np.testing.assert_array_equal(np.load(tmp_path / "plain" / "truth.npz")["up_mm"], first["up_mm"])


def test_the_project_reads_a_scene(scene):
    about = json.loads((scene / "scene.json").read_text())
    tracks = read_tracks(sorted(scene.glob("*.csv")))
    truth = np.load(scene / "truth.npz")
    left, top = float(truth["left"]), float(truth["top"])
    assert truth["up_mm"].shape == truth["east_mm"].shape == (128, 128)
    assert min(track.epochs[0] for track in tracks) == np.datetime64(about["first_day"])
    assert max(track.epochs[-1] for track in tracks) == np.datetime64(about["last_day"])
    for track, said in zip(tracks, about["tracks"], strict=True):
        assert (len(track), len(track.epochs)) == (said["points"], said["epochs"])
        assert 200 < len(track) < 540
        assert 55 <= len(track.epochs) <= 110
        assert track.crs == about["crs"] == "EPSG:3035"
        assert (track.easting > left - 15).all()
        assert (track.northing < top + 15).all()
        assert 0.01 < np.isnan(track.displacement).mean() < 0.1
