"""Find riddles at the start of docstrings in `src` and `flows`: `python -m tests.docs.first_lines`."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("src", "flows")
RIDDLES = {
    r"such(?! as)": "name the thing or the condition",
    r"so many|so much": "give the number or the argument's name",
    r"told|tells": "use report, log, return, know or estimate",
    r"anew": "use again, or new",
    r"whose": "use of, with or its, or two sentences",
    r"(?:files?|tracks?) (?:says?|tells?)|says? (?:itself|so)": "use contain, list, state or warn",
    r"none (?:is|are)|(?:^|(?<=[.:;,] ))no \w+ (?:is|are)": "say what is checked or done",
    r"them that|those of them": "repeat the noun",
    r"what is \w+ is": "use a noun",
}
"""Pattern of words -> what to do instead."""
SEARCH = re.compile("|".join(rf"(?P<r{number}>\b(?:{words})\b)" for number, words in enumerate(RIDDLES)), re.IGNORECASE)


def first_paragraph(docstring: str) -> str:
    """Return the first paragraph in one line, without code."""
    return re.sub(r"`[^`]*`", "``", " ".join(docstring.split("\n\n")[0].split()))


def riddles(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, words and advice for each docstring that begins with a riddle."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        docstring = ast.get_docstring(node)
        if docstring and (found := SEARCH.search(first_paragraph(docstring))):
            yield node.body[0].lineno, found[0], list(RIDDLES.values())[int(str(found.lastgroup)[1:])]


def main() -> int:
    """Print the riddles; return 1 if there are any, else 0."""
    count = 0
    for path in sorted(path for folder in FOLDERS for path in Path(folder).rglob("*.py")):
        for line, words, advice in sorted(riddles(path.read_text(encoding="utf-8"))):
            print(f"{path}:{line}: a docstring begins with a riddle ({words!r}): {advice}")
            count += 1
    if count:
        print(f"{count} docstrings. Begin with a verb (Return, Check, ...) and say what it does in usual words.")
    return int(bool(count))


if __name__ == "__main__":
    sys.exit(main())
