"""The ninth maker: its labels by brute force, its formulas, and what it writes."""

import geopandas
import numpy as np
import pandas as pd
import pytest
import shapely

from benchmarks.makers.ninth.city import make_city
from benchmarks.makers.ninth.failures import MECHANISMS, NONE
from benchmarks.makers.ninth.line import draw_line
from benchmarks.makers.ninth.strain import QUADRANTS
from benchmarks.makers.ninth.structure import draw_structures
from benchmarks.makers.ninth.town import draw_town
from plumbline.sources.city.files import find_files
from plumbline.sources.city.labels import read_labels
from tests.sources.points.opening import read_points

pytestmark = pytest.mark.slow
BUILDINGS, SEED = 40, 5


@pytest.fixture(scope="module")
def town():
    return draw_town(np.random.default_rng(1), 90)


@pytest.fixture(scope="module")
def structures(town):
    return draw_structures(np.random.SeedSequence(2), town, 0.2)


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ninth") / "city"
    make_city(folder, "X", BUILDINGS, SEED)
    return folder


def brute_force(structure, pitch):
    """Largest strain of each quadrant, permille: one bay after the other."""
    building = structure.building
    a, b = building.half
    grid = np.stack(np.meshgrid(np.arange(-a + pitch / 2, a, pitch), np.arange(-b + pitch / 2, b, pitch)), -1)
    cell = grid.reshape(-1, 2)
    cell = cell[building.holds(cell)]
    design = np.column_stack([np.ones(len(cell)), cell])
    plane = np.linalg.lstsq(design, structure.failing(cell)[:, 2], rcond=None)[0]
    worst = dict.fromkeys(QUADRANTS, 0.0)
    for axis, (side, other) in enumerate([(a, b), (b, a)]):
        across = np.append(np.arange(-other, other, pitch), other)
        for start in np.append(np.arange(-side, side - 4, pitch), side - 4):
            ends = np.zeros((2, len(across), 2))
            ends[:, :, 1 - axis] = across
            ends[0, :, axis], ends[1, :, axis] = start, start + 4
            first, last = structure.failing(ends[0]), structure.failing(ends[1])
            stretch = (last - first)[:, axis] / 4
            beta = (last - first)[:, 2] / 4 - plane[1 + axis]
            strain = 1e3 * (stretch / 2 + np.sqrt((stretch / 2) ** 2 + (beta / 2) ** 2))
            for value, middle in zip(strain, ends.mean(0), strict=True):
                name = ("N" if middle[1] >= 0 else "S") + ("E" if middle[0] >= 0 else "W")
                worst[name] = max(worst[name], value)
    return worst


def test_labels_are_those_of_a_finer_lattice_by_brute_force(structures):
    seen = set()
    for structure in structures:
        if structure.mechanism in (NONE, *seen) or structure.building.notch.any() or structure.label.severity < 0.5:
            continue
        seen.add(structure.mechanism)
        worst = brute_force(structure, 0.11)
        largest = max(worst.values())
        assert structure.label.severity == pytest.approx(largest, rel=0.01)
        assert worst[structure.label.quadrant] > 0.985 * largest
        # Save those at the bound itself.
        assert {name for name, own in worst.items() if own > 0.92 * largest} <= {*structure.label.accepted}
        assert {name for name, own in worst.items() if own < 0.88 * largest}.isdisjoint(structure.label.accepted)
    assert seen == {*MECHANISMS}


def test_a_seed_gives_the_city_that_it_always_gave(city, tmp_path):
    make_city(tmp_path / "city", "X", BUILDINGS, SEED)
    names = sorted(path.name for path in city.iterdir())
    assert names == ["EGMS_L2b_A.csv", "EGMS_L2b_D.csv", "footprints.geojson", "labels.csv"]
    for name in names:
        assert (city / name).read_bytes() == (tmp_path / "city" / name).read_bytes()
    # Numbers of the maker as it came: another order of random draws gives others.
    labels = pd.read_csv(city / "labels.csv", keep_default_na=False)
    before = ["building_id", "severity_permille", "quadrant", "accepted", "mechanism", "parts", "begins"]
    assert list(labels) == [*before, "settlement_mm", "tilt_mm_m", "tilt_towards"]
    np.testing.assert_allclose(labels["severity_permille"][-4:], [0.0, 3.73885, 0.16929, 4.81932], rtol=1e-4)
    means = labels[["severity_permille", "settlement_mm", "tilt_mm_m"]].mean()
    np.testing.assert_allclose(means, [1.22068, -40.8554, 2.04740], rtol=1e-4)
    for letter, shape, mean, sd in (("A", (922, 79), -12.0462, 21.4846), ("D", (917, 72), -15.0471, 18.6690)):
        moved = read_points(city / f"EGMS_L2b_{letter}.csv").displacement
        assert (moved.shape, np.nanmean(moved), np.nanstd(moved)) == (
            shape,
            pytest.approx(mean, abs=1e-3),
            pytest.approx(sd, abs=1e-3),
        )


def test_the_project_reads_a_city(city, tmp_path):
    files = find_files(city)
    assert len(read_labels(files.labels)) == BUILDINGS
    make_city(tmp_path / "C", "C", BUILDINGS, SEED, sound=0.0)
    labels = pd.read_csv(tmp_path / "C" / "labels.csv", keep_default_na=False)
    assert set(labels["mechanism"]) == {*MECHANISMS}
    for folder, mean, years in ((city, 46, (1.4, 3)), (tmp_path / "C", 12, (2.9, 5))):
        tracks = [read_points(path) for path in find_files(folder).products]
        assert sum(len(track.los) for track in tracks) == pytest.approx(mean * BUILDINGS, rel=0.03)
        for track in tracks:
            np.testing.assert_allclose(np.linalg.norm(track.los, axis=1), 1, atol=1e-3)
            assert years[0] < (track.epochs[-1] - track.epochs[0]) / np.timedelta64(1, "D") / 365.25 < years[1]


def test_failures_gather_along_a_line_and_everything_else_stays(tmp_path):
    town = draw_town(np.random.default_rng(1), 360)
    seed, line = np.random.SeedSequence(2), draw_line(np.random.default_rng(3), town, 0.8)
    anywhere = [one.mechanism for one in draw_structures(seed, town, 0.96)]
    along = [one.mechanism for one in draw_structures(np.random.SeedSequence(2), town, 0.96, line=line)]
    assert sorted(anywhere) == sorted(along)
    line.write(tmp_path / "line.geojson")
    shape = geopandas.read_file(tmp_path / "line.geojson").to_crs(3035).geometry[0]
    distance = shapely.distance(shape, shapely.points([one.centre for one in town]))
    near = np.argsort(distance, kind="stable")[:18]
    assert np.isin(np.flatnonzero(np.array(along) != NONE), near).sum() == 11  # of 14
