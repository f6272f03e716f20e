import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from plumbline.simulate.radar.egms_writer import history_cells, number_cells, rows


def plain(value, decimals):
    text = f"{value:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text


@given(arrays(np.int64, st.integers(1, 20), elements=st.integers(-(10**11), 10**11)), st.integers(0, 6))
def test_a_number_is_written_as_python_writes_it(scaled, decimals):
    values = scaled / 10**decimals
    lines = rows([number_cells(values, decimals)]).decode().splitlines()
    assert lines == [plain(value, decimals) for value in values]


@given(arrays(np.int64, (3, 4), elements=st.integers(-99_999, 99_999)))
def test_a_history_is_written_as_python_writes_it(tenths):
    lines = rows([history_cells(tenths / 10)]).decode().splitlines()
    assert lines == [",".join(plain(value, 1) for value in row) for row in tenths / 10]


def test_what_no_cell_holds_is_empty():
    values = np.array([[np.nan, 1.0, 10_000.0], [-10_000.0, np.inf, np.nan]])
    assert rows([history_cells(values)]) == b",1.0,\n,,\n"
