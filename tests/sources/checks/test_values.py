"""Places with too few decimals."""

from pathlib import Path

import numpy as np
import pytest

from plumbline.sources.points.missing import step_of, warn_of_rounding
from tests.refusals import warned, warning_keys
from tests.sources.make import EAST, NORTH, rows, text
from tests.sources.points.opening import read_points
from tests.sources.points.write_ortho import cells as cells_of_grid

PLACES = np.random.default_rng(0).uniform(0, 300, (2, 60))


def test_few_places_and_exact_ones_have_no_step() -> None:
    assert step_of(np.full(100, 500.0)) is None
    assert step_of(np.array([10.0, 20.0, 30.0])) is None
    assert step_of(np.zeros(0)) is None
    assert step_of(PLACES[0]) is None
    assert step_of(0.01 * np.random.default_rng(0).random(50)) is None  # about longitude 0


@pytest.mark.parametrize(
    ("decimals", "degrees", "wanted"),
    [(4, True, ["longitudes", "latitudes"]), (5, True, []), (-1, False, ["eastings", "northings"]), (0, False, [])],
)
def test_it_is_said_where_points_may_lie_on_other_buildings(
    caplog: pytest.LogCaptureFixture, decimals: int, degrees: bool, wanted: list[str]
) -> None:
    corner = np.array([[11.4], [48.77]] if degrees else [[676_000], [5_404_000]])
    x, y = corner + PLACES / (111_000 if degrees else 1)
    warn_of_rounding("a.csv", np.round(x, decimals), np.round(y, decimals), degrees)
    assert warning_keys(caplog) == ["points.rounded_places"] * len(wanted)
    assert all(warned(caplog, "points.rounded_places", "a.csv", name) for name in wanted)
    if degrees and wanted:
        assert warned(caplog, "points.rounded_places", "longitudes", "0.0001 degrees", "3.7 m")


def test_a_spreadsheet_s_six_digits_are_told_of_and_cells_of_a_grid_are_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cells = rows(40)
    for number, row in enumerate(cells):
        row |= {"easting": f"{EAST + 7.3 * number:.2f}", "northing": f"{NORTH + 3.1 * number:.2f}"}
        row["temporal_coherence"] = "0.9"
    (tmp_path / "t.csv").write_text(text(cells))
    read_points(tmp_path / "t.csv")
    assert not warning_keys(caplog)
    for row in cells:
        row["easting"] = f"{float(row['easting']):.5E}"
    (tmp_path / "t.csv").write_text(text(cells))
    read_points(tmp_path / "t.csv")
    assert warned(caplog, "points.rounded_places", "t.csv", "eastings", "10 m", "5.0 m")
    caplog.clear()
    (tmp_path / "L3_U.csv").write_text(text(cells_of_grid(40)))
    read_points(tmp_path / "L3_U.csv")
    assert not warned(caplog, "points.rounded_places")
