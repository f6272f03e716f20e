import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.sources.city.profile_rows import looks_like_profiles, read_profiles
from tests.refusals import refuses
from tests.sources.city.write_profiles import profiles
from tests.sources.make import rows, text

BUILDINGS = [
    ([(0, 0.5), (3, -1.25), (7.5, 2)], [8, 5, 0.75, 2]),
    ([(1, 0.1), (1, 0.2)], [12, 6, 0, 0]),
    ([(-4, 1e-3), (-1, 0), (0, 0), (4, 3)], [8, 8, 3.5, 3]),
]
numbers = st.floats(-1000, 1000)


def read(tmp_path, content: str, labelled=True):
    (tmp_path / "p.csv").write_text(content, encoding="utf-8")
    return read_profiles(tmp_path / "p.csv", labelled)


def test_rows_without_labels_have_none(tmp_path):
    found = read_profiles(profiles(tmp_path / "p.csv", [(p, e[:2]) for p, e in BUILDINGS]), labelled=False)
    assert np.isnan(found.severity).all()
    assert found.location.tolist() == [-1, -1, -1]
    assert found.slope.tolist() == [slope for pairs, _ in BUILDINGS for _, slope in pairs]


def test_units_are_brought_to_m_and_mm_per_m(tmp_path):
    plain = read_profiles(profiles(tmp_path / "p.csv", BUILDINGS), True)
    other = [
        ([(100 * d, s / 1000) for d, s in pairs], [100 * span, 100 * width, severity, code])
        for pairs, (span, width, severity, code) in BUILDINGS
    ]
    found = read_profiles(profiles(tmp_path / "q.csv", other), True, slope_unit="m/m", distance_unit="cm")
    for name in ("distance", "slope", "span_m", "width_m", "severity", "location"):
        np.testing.assert_allclose(getattr(found, name), getattr(plain, name), rtol=1e-12)


def test_an_empty_label_does_not_turn_a_size_into_one(tmp_path):
    with refuses("profiles.ambiguous_end", "p.csv, line 2"):
        read(tmp_path, "0,0.5,3,1.25,8,2,1,1\n0,0.5,3,1.25,8,2,,\n")


def test_the_content_tells_profile_rows_from_a_table_without_its_header(tmp_path):
    for number, ends in enumerate((4, 2)):
        assert looks_like_profiles(profiles(tmp_path / f"{number}.csv", [(p, e[:ends]) for p, e in BUILDINGS]))
    points = [{**row, "pid": f"{n}"} for n, row in enumerate(rows(6))]
    for name, content in {
        "egms": text(rows()),
        "beheaded": text(points).partition("\n")[2],
        "even": "\n".join(line + ",1" for line in text(points).splitlines()[1:]),
        "labels": "building_id,severity_permille,quadrant\nH0,1,NE\n",
        "empty": "",
        "blank": "\n,,\n",
        "binary": "\x00\x01" * 50,
    }.items():
        (tmp_path / name).write_text(content)
        assert not looks_like_profiles(tmp_path / name), name
    assert not looks_like_profiles(tmp_path / "nowhere")


def test_blank_lines_windows_line_ends_and_empty_cells_at_the_end_are_no_part(tmp_path):
    found = read(tmp_path, "﻿0,1,2,3,5,4,0.5,1,,,\r\n\r\n,,,\r\n0,1,9,2,0,0\n")
    assert found.offsets.tolist() == [0, 2, 3]
    assert found.span_m.tolist() == [5, 9]
    assert found.line.tolist() == [1, 4]


FAULTS = {
    "odd": ("0,1,2,3,5,4,0.5", "cell_count", ": 7 cells"),
    "text": ("0,x,5,4,0.5,1", "not_a_number", ", cell 2: 'x'"),
    "empty": ("0,,5,4,0.5,1", "not_a_number", ", cell 2: ''"),
    "underscore": ("0,1_0,5,4,0.5,1", "not_a_number", ", cell 2: '1_0'"),
    "nan": ("0,nan,5,4,0.5,1", "not_a_number", ", cell 2: 'nan'"),
    "infinite": ("0,1e999,5,4,0.5,1", "not_a_number", ", cell 2: '1e999'"),
    "order": ("2,1,1,3,5,4,0.5,1", "not_ascending", ", cell 3: 1 "),
    "span": ("0,1,0,4,0.5,1", "not_positive", ", cell 3: 0 "),
    "width": ("0,1,5,-4,0.5,1", "not_positive", ", cell 4: -4 "),
    "beyond the span": ("0,1,6,3,5,4,0.5,1", "beyond_span", ", cell 5: 5 "),
    "severity": ("0,1,5,4,-0.5,1", "negative_severity", ", cell 5: -0.5 "),
    "location": ("0,1,5,4,0.5,1.5", "unknown_location", ", cell 6: 1.5 "),
    "slope": ("0,2000,5,4,0.5,1", "impossible_slope", ", cell 2: 2000 "),
    "length": ("0,1,5,4e6,0.5,1", "impossible_length", ", cell 4: 4e+06 "),
}
"""What is wrong -> a line, and problem, cell and figure that the message names."""


@pytest.mark.parametrize(("line", "problem", "place"), FAULTS.values(), ids=FAULTS)
def test_a_bad_line_is_named_by_line_and_cell(tmp_path, line, problem, place):
    with refuses(f"profiles.{problem}", f"p.csv, line 2{place}"):
        read(tmp_path, f"0,1,5,4,0.5,1\n{line}\n0,1,5,4,0.5,1\n")


BOTH = "0,1,5,4,0.5,1\n"
REFUSED = {
    "cut within its last line": ("0,0.5,3,-1.25,8,5\n0,0.5,3,1.25", False, "cut_off", ", line 2: "),
    "labels where none were stated": (BOTH.replace("0,1,", "0,1,2,3,"), False, "beyond_span", ", line 1, cell 7"),
    "none where they were stated": ("0,1,2,3,8,5\n", True, "unknown_location", ", line 1, cell 6"),
    "no lines": ("\n\n", True, "none", ""),
    "slope in another unit": ("0,2,5,4\n", False, "impossible_slope", ", line 1, cell 2: "),
    "distance in another unit": ("-1e9,1,5,4\n", False, "impossible_length", ", line 1, cell 1: "),
    "span in another unit": ("0,1,3,2,1e9,4\n", False, "impossible_length", ", line 1, cell 5: "),
}
UNITS = {"slope": ("m/m", "m"), "distance": ("mm/m", "mm"), "span": ("mm/m", "cm")}


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_that_is_not_what_was_stated_is_refused(tmp_path, case):
    content, labelled, problem, place = REFUSED[case]
    (tmp_path / "p.csv").write_text(content)
    with refuses(f"profiles.{problem}", f"p.csv{place}"):
        read_profiles(tmp_path / "p.csv", labelled, *UNITS.get(case.split()[0], ("mm/m", "m")))


@given(
    buildings=st.lists(
        st.tuples(
            st.lists(st.tuples(st.floats(0, 100), numbers), min_size=1, max_size=6).map(sorted),
            st.tuples(st.floats(100, 1000), st.floats(0.1, 1000), st.floats(0, 100), st.integers(0, 3)),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_what_is_written_is_read(tmp_path, buildings):
    found = read_profiles(profiles(tmp_path / "p.csv", buildings), labelled=True)
    assert [list(zip(*found.of(n), strict=True)) for n in range(len(found))] == [pairs for pairs, _ in buildings]
    ends = zip(found.span_m, found.width_m, found.severity, found.location, strict=True)
    assert list(ends) == [end for _, end in buildings]
