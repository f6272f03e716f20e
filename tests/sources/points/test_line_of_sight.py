"""No line of sight is used that no satellite has, or that contradicts the name of its track."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.params import Product
from plumbline.sources.points.line_of_sight import check_pass, pass_in, pass_of
from plumbline.sources.points.track import los_from_heading
from tests.refusals import refuses
from tests.sources.make import text
from tests.sources.points import write_columns
from tests.sources.points.formats.write_layouts import rows as rows_of_layout
from tests.sources.points.opening import read_points

SENTINEL_1 = {"ascending": 348.0, "descending": 192.0}


def write(folder, name="track.csv"):
    path = folder / name
    path.write_text(text(rows_of_layout("depsi")))
    return path


@pytest.mark.parametrize(("given_deg", "likely"), [(80, 350), (280, 190), (258, 168), (-90, 180)])
def test_a_heading_to_the_east_or_west_is_refused_with_the_likely_one(tmp_path, given_deg, likely):
    about = {"*": Product(incidence_deg=38, heading_deg=given_deg)}
    with refuses("sight.not_east_or_west", "track.csv", f"heading_deg {given_deg} ", f"heading_deg is {likely}."):
        read_points(write(tmp_path), about)


def test_a_left_looking_satellite_sees_from_the_other_side(tmp_path):
    path = write(tmp_path)
    right, left = (
        read_points(path, {"*": Product(incidence_deg=38, heading_deg=348, look=side)}).los
        for side in ("right", "left")
    )
    np.testing.assert_allclose(left, right * [-1, -1, 1], atol=1e-12)
    np.testing.assert_allclose(right[0], los_from_heading(38, 348))


@given(st.floats(-60, 70), st.sampled_from([97.4, 97.9, 98.2, 98.5]), st.floats(-28, 28), st.booleans(), st.booleans())
def test_every_satellite_in_use_passes_up_to_70_degrees_of_latitude(latitude, inclination, north, rising, left):
    # Flight of a satellite over a turning Earth; `north` is by how much the axes of the grid are turned.
    azimuth = np.degrees(np.arcsin(np.cos(np.radians(inclination)) / np.cos(np.radians(latitude)))) - 4
    heading = (azimuth if rising else 180 - azimuth) + north + (180 if left else 0)
    los = los_from_heading(35.0, heading)
    assert abs(los[0]) >= np.sin(np.radians(30)) * np.hypot(*los[:2])


@pytest.mark.parametrize("name", ["asc", "S1_ASC_015", "ts-ascending", "Ascend.2020", "A_ascending_T44"])
def test_a_name_says_the_pass_as_a_word(name):
    assert pass_in(name) == "ascending"
    assert pass_in(name.lower().replace("asc", "desc")) == "descending"


@pytest.mark.parametrize("name", ["ascona", "descartes", "cascade", "track_015", "asc_and_desc", ""])
def test_other_words_say_none(name):
    assert pass_in(name) is None


def test_tracks_whose_headings_are_exchanged_are_refused_with_both_figures(tmp_path):
    for name, heading in SENTINEL_1.items():
        assert pass_of(heading) == name
        check_pass(f"ts_{name}", "f", Product(incidence_deg=38, heading_deg=heading))
        path, about = write(tmp_path, f"ts_{name}.csv"), Product(incidence_deg=38, heading_deg=(540 - heading) % 360)
        with refuses("sight.other_pass", path, name, f"heading_deg {about.heading_deg:g}", "by track"):
            read_points(path, {"*": about})
        assert read_points(path, {"*": about.model_copy(update={"track": "T1"})}).name == "T1"


def test_columns_of_angles_in_radians_are_refused_as_degrees(tmp_path):
    angles = {"INC": f"{np.radians(38):.6f}", "HEAD": f"{np.radians(192):.6f}"}
    path = tmp_path / "c.csv"
    path.write_text(text([row | angles for row in write_columns.rows()]))
    columns = write_columns.COLUMNS | {"incidence": "INC", "heading": "HEAD"}
    units = {"displacement": "mm", "angle": "deg"}
    about = write_columns.described(columns=columns, units=units, incidence_deg=None, heading_deg=None)
    with refuses("points.out_of_range", "c.csv, line 2, column INC", "units: {angle: rad}"):
        read_points(path, {"*": about})
