"""Write the table of columns into docs/answers.md: `python -m tests.docs.answers`."""

import re
from pathlib import Path

from plumbline.serve.columns import markdown_table

PAGE = Path(__file__).parents[2] / "docs" / "answers.md"

if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(
        re.sub(r"\| column \| .*?\n(?=\n)", lambda _: markdown_table() + "\n", text, count=1, flags=re.S), "utf-8"
    )
