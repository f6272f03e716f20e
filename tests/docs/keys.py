"""Find errors and warnings in `src` and `flows` without a key: `python -m tests.docs.keys`."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

FOLDERS = ("src", "flows")
BASE = "PlumblineError"
CONSOLE = Path("src/plumbline/core/console.py")
"""Module of `warn`, which alone calls `log.warning`."""
KEY = re.compile(r"[a-z0-9_]+\.[a-z0-9_]+")
"""Form of a key: `subject.problem`."""


def error_names(trees: Iterable[ast.Module]) -> set[str]:
    """Return the names of the classes of errors that take a key; a class whose `__init__` takes none gives its own."""
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    names, n_before = {BASE}, 0
    while len(names) > n_before:
        n_before = len(names)
        names |= {c.name for c in classes if any(ast.unparse(base).split(".")[-1] in names for base in c.bases)}
    return names - {c.name for c in classes if c.name != BASE and any(_is_init_without_key(item) for item in c.body)}


def _is_init_without_key(node: ast.stmt) -> bool:
    if not isinstance(node, ast.FunctionDef) or node.name != "__init__":
        return False
    return all(argument.arg != "key" for argument in node.args.kwonlyargs)


def faults(tree: ast.Module, names: set[str]) -> Iterator[tuple[int, str]]:
    """Yield line and fault of each error or warning of a module without a key, or with one of another form."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).split(".")[-1]
        key = next((keyword.value for keyword in node.keywords if keyword.arg == "key"), None)
        if ast.unparse(node.func) == "log.warning":
            yield node.lineno, "log.warning(...): write warn(..., key=...)"
        elif key is None and name in names | {"warn"}:
            yield node.lineno, f"{name}(...) has no key="
        for literal in (key.body, key.orelse) if isinstance(key, ast.IfExp) else (key,):
            if isinstance(literal, ast.Constant) and not KEY.fullmatch(str(literal.value)):
                yield node.lineno, f"{literal.value!r} is no key; write subject.problem in snake case"


def main() -> int:
    """Print the faults; return 1 if there are any, else 0."""
    paths = sorted(path for folder in FOLDERS for path in Path(folder).rglob("*.py") if path != CONSOLE)
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    names = error_names(trees.values())
    findings = [
        f"{path}:{line}: {fault}" for path, tree in trees.items() for line, fault in sorted(faults(tree, names))
    ]
    for finding in findings:
        print(finding)
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
