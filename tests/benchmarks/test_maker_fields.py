"""The maker of held-out fields: closed forms, its points, its noise; and the project reads what it writes."""

import json

import numpy as np
import pytest

from benchmarks.makers.fields.edges import Embankment, Fault, Slide
from benchmarks.makers.fields.lines import Line
from benchmarks.makers.fields.scene import make_scene
from benchmarks.makers.fields.settings import SIDE_M
from benchmarks.makers.fields.subsidence import Basin, PressureSource, Sinkhole, Trough, largest_settlement
from plumbline.sources.city.in_memory import read_tracks

pytestmark = pytest.mark.slow
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


def test_a_seed_gives_the_scene_that_it_always_gave(scene, tmp_path):
    make_scene(tmp_path / "again", "sparse", 4)
    names = sorted(path.name for path in scene.iterdir())
    assert names == ["EGMS_L2b_A_IW2_VV.csv", "EGMS_L2b_D_IW2_VV.csv", "scene.json", "truth.npz"]
    for name in names[:3]:
        assert (scene / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    first, second = (np.load(folder / "truth.npz") for folder in (scene, tmp_path / "again"))
    assert all(np.array_equal(first[key], second[key]) for key in ("up_mm", "east_mm", "left", "top", "cell_m"))
    # Numbers of the maker as it came: another order of random draws gives others.
    figures = [(first[key].mean(), first[key].std()) for key in ("up_mm", "east_mm")]
    np.testing.assert_allclose(figures, [(-4.32840, 7.76183), (-0.949113, 3.40654)], rtol=1e-4)
    moved = [track.displacement for track in read_tracks(sorted(scene.glob("*.csv")))]
    figures = [(*one.shape, np.nanmean(one), np.nanstd(one)) for one in moved]
    np.testing.assert_allclose(figures, [(266, 75, -2.13745, 5.96729), (258, 73, 0.929323, 5.76512)], rtol=1e-4)
    # The ground moves alike in all domains.
    make_scene(tmp_path / "plain", "noise", 4, tracks=1)
    np.testing.assert_array_equal(np.load(tmp_path / "plain" / "truth.npz")["up_mm"], first["up_mm"])


def test_the_project_reads_a_scene(scene):
    about, truth = json.loads((scene / "scene.json").read_text()), np.load(scene / "truth.npz")
    tracks = read_tracks(sorted(scene.glob("*.csv")))
    assert min(track.epochs[0] for track in tracks) == np.datetime64(about["first_day"])
    assert max(track.epochs[-1] for track in tracks) == np.datetime64(about["last_day"])
    for track, said in zip(tracks, about["tracks"], strict=True):
        assert (len(track), len(track.epochs)) == (said["points"], said["epochs"])
        assert track.crs == about["crs"] == "EPSG:3035"
        assert (track.easting > truth["left"] - 15).all()
        assert (track.northing < truth["top"] + 15).all()
        assert 0.01 < np.isnan(track.displacement).mean() < 0.1
