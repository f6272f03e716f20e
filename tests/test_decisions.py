"""Each decision has a date, a state and a line in the index, and every link to one leads there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
DECISIONS = ROOT / "docs" / "decisions"
LINK = re.compile(r"\((?:[^()\s]*decisions/)?(\d{4}-[a-z][a-z0-9-]+\.md)(?:#([^)]+))?\)")
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
    assert len(files) > 15


def test_links_to_decisions_lead_to_a_page_and_a_heading_of_it():
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for name, heading in LINK.findall(page.read_text("utf-8")):
            assert (DECISIONS / name).is_file(), (page, name)
            if heading:
                heads = re.findall(r"^#+ (.+)$", (DECISIONS / name).read_text("utf-8"), re.MULTILINE)
                assert heading in {re.sub(r"[^a-z0-9 -]", "", head.lower()).replace(" ", "-") for head in heads}, page
    code = [path for folder in ("src", "tests", "flows", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    for path in code:
        for number in re.findall(r"docs/decisions/(\d{4})", path.read_text("utf-8")):
            assert list(DECISIONS.glob(f"{number}-*.md")), (path, number)
