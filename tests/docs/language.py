"""Find what STYLE forbids in names, docstrings and notes of `src` and `flows`: `python -m tests.docs.language`."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

FOLDERS = ("src", "flows")
EMPTY_NAMES = re.compile(
    "found|one|own|told|said|known|kept|given|left|others?|these|those|asked|made|taken|seen|rest|both|what|which|again"
)
"""Names that say nothing of the value; in functions of more than `SHORT_LINES` lines they are refused."""
SHORT_LINES = 10
MAX_BY_POSITION = 5
RIDDLES = {
    r"such(?! as)": "name the thing or the condition",
    r"so many|so much": "give the number or the argument's name",
    r"told|tells?|said|says?": "use report, log, return, know, contain, list, state or estimate",
    r"anew": "use again, or new",
    r"whose|thereof": "use of, with or its, or two sentences",
    r"stands?|lies?|held(?!-)": "use is, are, has or contain",
    r"none (?:is|are)|(?:^|(?<=[.:;,] ))no \w+ (?:is|are)": "say what is checked or done",
    r"them that|those of them": "repeat the noun",
    r"what is \w+ is": "use a noun",
}
"""Pattern of words -> what to do instead."""
SEARCH = re.compile("|".join(rf"(?P<r{number}>\b(?:{words})\b)" for number, words in enumerate(RIDDLES)), re.IGNORECASE)
NOUNLESS = re.compile(
    r"(Of|Where|The same|As|By|In|At|From|For|Whether|How|What|So|Beyond|Below|Above|Until|Since|With)\b"
)
Function = ast.FunctionDef | ast.AsyncFunctionDef
Finding = tuple[int, str]
"""Line and advice."""


def riddles(tree: ast.AST) -> Iterator[Finding]:
    """Yield each docstring with a riddle in its first paragraph."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | Function):
            continue
        docstring = ast.get_docstring(node) or ""
        paragraph = re.sub(r"`[^`]*`", "``", " ".join(docstring.split("\n\n")[0].split()))
        if match := SEARCH.search(paragraph):
            advice = list(RIDDLES.values())[int(str(match.lastgroup)[1:])]
            yield node.body[0].lineno, f"a docstring begins with a riddle ({match[0]!r}): {advice}"


def empty_names(tree: ast.AST) -> Iterator[Finding]:
    """Yield each value of a long function with a name that says nothing of it."""
    for function in (node for node in ast.walk(tree) if isinstance(node, Function)):
        if (function.end_lineno or 0) - function.lineno + 1 <= SHORT_LINES:
            continue
        for node in ast.walk(function):
            name = node.arg if isinstance(node, ast.arg) else node.id if isinstance(node, ast.Name) else ""
            if EMPTY_NAMES.fullmatch(name) and not isinstance(getattr(node, "ctx", None), ast.Load):
                yield node.lineno, f"{name}: name the value by what it holds"


def nounless_notes(tree: ast.AST) -> Iterator[Finding]:
    """Yield each note under a constant or field that begins without its noun."""
    bodies = (node.body for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef))
    for before, after in (pair for body in bodies for pair in pairwise(body)):
        if not isinstance(before, ast.Assign | ast.AnnAssign) or not isinstance(after, ast.Expr):
            continue
        note = after.value.value if isinstance(after.value, ast.Constant) else None
        if isinstance(note, str) and NOUNLESS.match(note):
            yield after.lineno, f"a note begins with {note.split()[0]!r}: begin with the noun of the constant"


def long_signatures(tree: ast.AST) -> Iterator[Finding]:
    """Yield each function, other than decorated ones, with more than `MAX_BY_POSITION` parameters by position."""
    for node in (node for node in ast.walk(tree) if isinstance(node, Function)):
        if node.decorator_list or node.name == "forward":  # called by typer, Prefect or torch, with names of their own
            continue
        by_position = [a for a in (*node.args.posonlyargs, *node.args.args) if a.arg not in ("self", "cls")]
        if len(by_position) > MAX_BY_POSITION:
            yield (
                node.lineno,
                f"{node.name}: {len(by_position)} parameters by position; make the last ones keyword-only",
            )


def main() -> int:
    """Print the findings; return 1 if there are any, else 0."""
    classes: dict[str, Path] = {}
    count = 0
    for path in sorted(path for folder in FOLDERS for path in Path(folder).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        findings = {*riddles(tree), *empty_names(tree), *nounless_notes(tree), *long_signatures(tree)}
        for node in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
            if classes.setdefault(node.name, path) != path:
                findings.add(
                    (node.lineno, f"{node.name}: {classes[node.name]} has a class of this name; say what this is")
                )
        for line, advice in sorted(findings):
            print(f"{path}:{line}: {advice}")
        count += len(findings)
    if count:
        print(f"{count} places. See CONTRIBUTING.md, Names.")
    return int(bool(count))


if __name__ == "__main__":
    sys.exit(main())
