"""Each column is declared once, and what is made of the declarations holds."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.serve.columns import DECLARED, DTYPES, JUDGEMENT, OPTIONAL, WHEN, WHOLE, format_share, markdown_table

ANSWERS = Path(__file__).parents[2] / "docs" / "answers.md"


def test_the_page_of_the_answers_has_the_table_of_the_declarations():
    """`python -m tests.docs.answers` writes it."""
    assert markdown_table() in ANSWERS.read_text(encoding="utf-8")


def test_names_and_titles_are_unique():
    assert len(DTYPES) == len(DECLARED) == len({column.alias for column in DECLARED})


def test_groups_follow_one_another_in_the_table():
    names = list(DTYPES)
    assert names[names.index(JUDGEMENT[0]) : names.index(WHOLE[0])] == list(JUDGEMENT)
    assert names[names.index(WHOLE[0]) : names.index("model_version")] == list(WHOLE)
    assert JUDGEMENT[-len(WHEN) :] == WHEN
    assert set(OPTIONAL) <= set(JUDGEMENT)


@given(st.floats(0, 1))
def test_a_share_is_never_none_and_never_all(share):
    text = format_share(share)
    assert text not in ("0 %", "100 %")
    number = float(text.strip("<> %"))
    assert number == pytest.approx(100 * share, abs=1)
