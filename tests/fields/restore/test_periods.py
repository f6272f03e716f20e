"""A field of each calendar year: which years count, and that their files are those of a run over that year alone."""

from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from plumbline.core.errors import InputError
from plumbline.fields.prepare.grid import Grid
from plumbline.fields.restore.periods import PartOfTime, calendar_years, cut_to_year
from plumbline.fields.restore.plan import RestoreOptions
from plumbline.fields.restore.restore import restore
from plumbline.fields.simulate.scene import SceneAbout, make_scene, write_scene
from plumbline.sources.city.in_memory import Reading
from plumbline.sources.city.window import ALL_TIME, Window
from tests.fields.prepare.made import make_observations, make_track
from tests.refusals import refuses, warned

rasterio = pytest.importorskip("rasterio")
QUICK = RestoreOptions(steps=2, samples=2)


def year(number):
    return Window(date(number, 1, 1), date(number, 12, 31))


def track(first, epochs, days=12):
    made = make_track(np.zeros((3, 2)), np.zeros((3, epochs)), days=days)
    return replace(made, epochs=np.datetime64(first) + days * np.arange(epochs))


@pytest.mark.parametrize(
    ("window", "years"),
    [
        (ALL_TIME, [2019, 2020, 2021]),
        (Window(date(2019, 1, 1)), [2019, 2020, 2021]),
        (Window(date(2019, 1, 2), date(2021, 12, 30)), [2020]),
        (Window(None, date(2020, 12, 31)), [2019, 2020]),
        (Window(date(2020, 6, 1), date(2021, 6, 1)), []),
    ],
)
def test_years_of_the_tracks_count_if_they_lie_in_the_window(window, years):
    tracks = [track("2019-11-05", 40), track("2020-03-01", 30)]
    assert calendar_years(tracks, window) == {number: year(number) for number in years}


def test_a_year_needs_epochs_of_every_track_and_half_of_its_days():
    whole, late = track("2019-11-05", 60), track("2020-06-20", 60)
    assert [str(one.epochs[0]) for one in cut_to_year([whole, late], year(2020))] == ["2020-01-04", "2020-06-20"]
    with pytest.raises(InputError, match="0 of its 60"):
        cut_to_year([whole, late], year(2019))
    with refuses("year.too_short", "2019-11-05", "2019-12-23", "48 days", "183"):
        cut_to_year([whole], year(2019))


def test_a_year_without_one_of_two_directions_is_refused():
    both = make_observations(np.random.default_rng(0), 20)

    class Whole:
        observations = both
        full_grid, grid = Grid(0.0, 0.0, 10.0, 4, 4), Grid(10.0, 0.0, 10.0, 4, 2)

    part = PartOfTime([], Whole())
    assert part.extent(both) == (Whole.full_grid, Whole.grid)
    with refuses("year.missing_direction", "1 of 2"):
        part.extent(both.take(both.side == 0))


@pytest.fixture(scope="module")
def products(tmp_path_factory):
    """Two products from January 2019 to March 2021."""
    folder = tmp_path_factory.mktemp("products")
    write_scene(make_scene(SceneAbout("plain-00003", "plain", "easy", 3, 2, 32, 10.0)), folder)
    return sorted(folder.glob("*.csv"))


def read(path):
    with rasterio.open(path) as source:
        return source.read(), source.descriptions, source.bounds, source.tags()


def test_years_are_written_as_runs_over_a_year_are(products, tiny_fields, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    restore(products, tiny_fields.package, tmp_path / "field.tif", QUICK, yearly=True)
    names = [f"field{end}.{suffix}" for end in ("", "_2019", "_2020") for suffix in ("qml", "tif")]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    assert warned(caplog, "year.left_out", "2021: ", "2021-01-")
    whole, bands, bounds, _ = read(tmp_path / "field.tif")
    found = {number: read(tmp_path / f"field_{number}.tif") for number in (2019, 2020)}
    for values, own_bands, own_bounds, tags in found.values():
        assert (own_bands, own_bounds) == (bands, bounds)
        assert not np.array_equal(values, whole, equal_nan=True)
        assert tags["PLUMBLINE_PERIOD"].startswith(("2019-01-", "2020-01-"))
    assert (tmp_path / "field_2019.qml").read_text() == (tmp_path / "field_2020.qml").read_text()
    reading = Reading(window=year(2020))
    restore(products, tiny_fields.package, tmp_path / "alone.tif", QUICK, reading)
    alone, _, own_bounds, _ = read(tmp_path / "alone.tif")
    assert own_bounds == bounds
    np.testing.assert_array_equal(alone, found[2020][0])


def test_a_year_does_not_replace_what_is_read(products, tiny_fields, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with refuses("output.repeated_name", "field_2020.tif"):
        restore(
            products, tiny_fields.package, tmp_path / "field.tif", QUICK,
            picture=tmp_path / "field_2020.tif", yearly=True,
        )  # fmt: skip
    assert not list(tmp_path.glob("field*"))
