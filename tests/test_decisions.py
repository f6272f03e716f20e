"""Each decision has a date and a state, and the index has a line for each."""

from __future__ import annotations

import re
from pathlib import Path

DECISIONS = Path(__file__).parents[1] / "docs" / "decisions"
HEAD = re.compile(r"# (\d+)\. (.+)\n\nDate: \d{4}-\d\d-\d\d\. State: ([^.]+)\.")


def test_index_says_number_title_and_state_of_every_decision():
    files = sorted(DECISIONS.glob("[0-9]*.md"))
    lines = []
    for path in files:
        head = HEAD.match(path.read_text(encoding="utf-8"))
        assert head, f"{path.name}: begins with title, date and state"
        number, title, state = head.groups()
        assert path.name.startswith(f"{int(number):04d}-")
        lines.append(f"{number}. [{title}]({path.name}): {state}")
    index = (DECISIONS / "README.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in index if line[:1].isdigit()] == lines
    assert len(files) > 20
