"""Outputs that pages show are found, compared and renewed; `test_blocks.py` runs the tutorials."""

from __future__ import annotations

import pytest

from tests.docs.outputs import OutputError, renewed, same


def test_figures_are_renewed_and_lines_left_out_stay_out():
    printed = "INFO a.csv: 12 points\nINFO other\nINFO 400 buildings: 339 ok\n  x  1.25\n"
    assert renewed("INFO a.csv: 7 points\n…\nINFO 400 buildings: 312 ok\n x 0.5\n", printed) == (
        "INFO a.csv: 12 points\n…\nINFO 400 buildings: 339 ok\n  x  1.25\n"
    )
    for shown, other in (("INFO 312 judged\n", "INFO 339 ok\n"), ("second 2\nfirst 1\n", "first 1\nsecond 2\n")):
        with pytest.raises(OutputError, match="no line is printed like"):
            renewed(shown, other)


@pytest.mark.parametrize(
    ("shown", "printed", "agree"),
    [
        ("339 of 400, 0.36", "339 of 400,  0.37", True),
        ("339 of 400, 0.36", "339 of 400, 0.38", False),
        ("339 of 400", "338 of 400", False),
        ("id_000315 1.0", "id_000316 1.0", False),
        ("339 ok", "339 fine", False),
        ("0.9 or more", "0.9 or more 1", False),
    ],
)
def test_decimals_may_differ_in_the_last_place(shown: str, printed: str, agree: bool):
    assert same(shown, printed) is agree
