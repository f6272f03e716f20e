import json
from dataclasses import replace

import numpy as np
import pytest

from plumbline.errors import InputError
from plumbline.prepare.audit import audit_split
from plumbline.prepare.features import SLOPE, names
from tests.prepare.test_sequences import make


def test_counts_are_those_of_the_split():
    sequences = replace(
        make([4, 5, 9, 6]),
        severity=np.array([0.1, 0.6, 0.6, 4.0], np.float32),
        quadrant=np.array([-1, 0, 3, 3]),
        city=np.array(["a", "b", "b", "b"]),
    )
    found = audit_split(sequences)
    assert found["buildings"] == 4
    assert found["points"] == 24
    assert found["points_per_building"] == {"min": 4, "median": 5.5, "max": 9}
    assert found["categories"] == {"0": 1, "1": 2, "2": 0, "3": 0, "4": 1}
    assert found["quadrants"] == {"NE": 1, "NW": 0, "SW": 0, "SE": 2}
    assert found["severity_permille"] == {"median": 0.6, "max": 4.0}
    assert found["cities"] == {"a": 1, "b": 3}
    assert json.loads(json.dumps(found, allow_nan=False)) == found


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_no_number_is_refused_by_row_and_column(value):
    sequences = make([4, 5])
    sequences.slope[6, names(SLOPE).index("gradient_x")] = value
    with pytest.raises(InputError, match=r"prepare: slope, row 6, column gradient_x: -?(nan|inf) found .*|.*\(1 such"):
        audit_split(sequences)


@pytest.mark.parametrize("name", ["distance", "geometry"])
def test_every_table_is_looked_at(name):
    sequences = make([4, 5])
    getattr(sequences, name)[1, 0] = np.nan
    with pytest.raises(InputError, match=f"prepare: {name}, row 1, column "):
        audit_split(sequences)


def test_an_empty_split_is_refused():
    with pytest.raises(InputError, match="no building is left in a split"):
        audit_split(make([4]).take(np.array([], np.intp)))
