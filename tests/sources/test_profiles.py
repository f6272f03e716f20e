import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plumbline.errors import InputError
from plumbline.sources.profiles import read_profiles

from .make import unless_refused
from .write_profiles import profiles

FUZZ = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
BUILDINGS = [
    ([(0, 0.5), (3, -1.25), (7.5, 2)], [8, 5, 0.75, 2]),
    ([(1, 0.1), (1, 0.2)], [12, 6, 0, 0]),
    ([(-4, 1e-3), (-1, 0), (0, 0), (4, 3)], [8, 8, 3.5, 3]),
]
numbers = st.floats(-1e6, 1e6)


def read(tmp_path, content: str, labelled=True):
    (tmp_path / "p.csv").write_text(content, encoding="utf-8")
    return read_profiles(tmp_path / "p.csv", labelled)


def test_rows_of_different_lengths_come_back(tmp_path):
    found = read_profiles(profiles(tmp_path / "p.csv", BUILDINGS), labelled=True)
    assert len(found) == 3
    assert found.offsets.tolist() == [0, 3, 5, 9]
    for number, (pairs, (span, width, severity, location)) in enumerate(BUILDINGS):
        np.testing.assert_array_equal(np.stack(found.of(number), axis=1), pairs)
        sizes = (found.span_m, found.width_m, found.severity, found.location)
        assert [values[number] for values in sizes] == [span, width, severity, location]


def test_rows_without_labels_have_none(tmp_path):
    found = read_profiles(profiles(tmp_path / "p.csv", [(p, e[:2]) for p, e in BUILDINGS]), labelled=False)
    assert np.isnan(found.severity).all()
    assert found.location.tolist() == [-1, -1, -1]
    assert found.slope.tolist() == [slope for pairs, _ in BUILDINGS for _, slope in pairs]


def test_slopes_in_m_per_m_become_mm_per_m(tmp_path):
    path = profiles(tmp_path / "p.csv", BUILDINGS)
    np.testing.assert_allclose(
        read_profiles(path, True, slope_unit="m/m").slope, 1000 * read_profiles(path, True).slope
    )


def test_blank_lines_windows_line_ends_and_empty_cells_at_the_end_are_no_part(tmp_path):
    found = read(tmp_path, "﻿0,1,2,3,5,4,0.5,1,,,\r\n\r\n,,,\r\n0,1,9,2,0,0")
    assert found.offsets.tolist() == [0, 2, 3]
    assert found.span_m.tolist() == [5, 9]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0,1,2,3,5,4,0.5", r"line 2: 7 cells found, an even number from 6 up is needed \(d0,s0"),
        ("5,4,0.5,1", "line 2: 4 cells found"),
        ("0,x,5,4,0.5,1", "line 2, cell 2: 'x' found, a number is needed"),
        ("0,,5,4,0.5,1", "line 2, cell 2: '' found, a number is needed"),
        ("0,nan,5,4,0.5,1", "line 2, cell 2: 'nan' found"),
        ("0,1e999,5,4,0.5,1", "line 2, cell 2: '1e999' found"),
        ("0,1_0,5,4,0.5,1", "line 2, cell 2: '1_0' found"),
        ("2,1,1,3,5,4,0.5,1", "line 2, cell 3: distance 1 m after 2 m found, distances ascend"),
        ("0,1,0,4,0.5,1", "line 2, cell 3: span of 0 m found"),
        ("0,1,5,-4,0.5,1", "line 2, cell 4: width of -4 m found"),
        ("0,1,6,3,5,4,0.5,1", "line 2, cell 5: distances over 6 m found, the span is 5 m"),
        ("0,1,5,4,-0.5,1", "line 2, cell 5: severity -0.5 found"),
        ("0,1,5,4,0.5,1.5", "line 2, cell 6: location 1.5 found"),
    ],
)
def test_a_bad_line_is_named_by_line_and_cell(tmp_path, line, message):
    with pytest.raises(InputError, match=rf"p\.csv, {message}"):
        read(tmp_path, f"0,1,5,4,0.5,1\n{line}\n0,1,5,4,0.5,1\n")


@pytest.mark.parametrize("labelled", [True, False])
def test_labels_where_none_were_said_and_none_where_they_were_are_seen(tmp_path, labelled):
    buildings = [(pairs, ends if not labelled else ends[:2]) for pairs, ends in BUILDINGS]
    with pytest.raises(InputError, match=r"p\.csv, line 1, cell"):
        read_profiles(profiles(tmp_path / "p.csv", buildings), labelled)


def test_no_file_and_no_lines_are_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_profiles(tmp_path / "p.csv", True)
    with pytest.raises(InputError, match="it has no lines"):
        read(tmp_path, "\n\n")


@FUZZ
@given(
    buildings=st.lists(
        st.tuples(
            st.lists(st.tuples(st.floats(0, 100), numbers), min_size=1, max_size=6).map(sorted),
            st.tuples(st.floats(100, 1000), st.floats(0.1, 1000), st.floats(0, 100), st.integers(0, 3)),
        ),
        min_size=1, max_size=5,
    )
)  # fmt: skip
def test_what_is_written_is_read(tmp_path, buildings):
    found = read_profiles(profiles(tmp_path / "p.csv", buildings), labelled=True)
    assert [list(zip(*found.of(n), strict=True)) for n in range(len(found))] == [pairs for pairs, _ in buildings]
    ends = zip(found.span_m, found.width_m, found.severity, found.location, strict=True)
    assert list(ends) == [end for _, end in buildings]


@FUZZ
@given(position=st.floats(0, 1, exclude_max=True), junk=st.binary(max_size=6), labelled=st.booleans())
def test_any_bytes_anywhere_are_refused_or_read(tmp_path, position, junk, labelled):
    path = profiles(tmp_path / "p.csv", BUILDINGS)
    content = path.read_bytes()
    at = int(position * len(content))
    path.write_bytes(content[:at] + junk + content[at + len(junk) :])
    found = unless_refused(lambda: read_profiles(path, labelled), path)
    if found is not None:
        assert np.isfinite(found.slope).all()
        assert (found.span_m > 0).all()
