"""The lint of docstrings finds riddles, and lets plain sentences pass."""

import pytest

from tests.docs.first_lines import riddles

BAD = [
    "Whose a scatterer is.",
    "No GPU is no fault, unless one is needed.",
    "Return what files say so.",
    "Draw crops anew.",
    "Find\n    such points.",
    "Check locks; no lock is held.",
    "Keep so many of each.",
]
GOOD = ["Return points, such as corners.", "Use `told` here.", "Return 1 if no lock is held.", "Test.\n\n    Anew."]


@pytest.mark.parametrize("text", BAD)
def test_a_riddle_is_found(text):
    ((line, _, advice),) = riddles(f'def function():\n    """{text}"""\n')
    assert line == 2
    assert advice


@pytest.mark.parametrize("text", GOOD)
def test_a_plain_sentence_passes(text):
    assert not list(riddles(f'def function():\n    """{text}"""\n'))
