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


@pytest.mark.parametrize("text", [*BAD, *GOOD])
def test_a_riddle_is_found_and_a_plain_sentence_passes(text):
    assert [line for line, _, _ in riddles(f'def function():\n    """{text}"""\n')] == ([2] if text in BAD else [])
