"""Read links and headings of Markdown pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

LINK = re.compile(r"(!?\[[^\[\]]*\]\()([^()\s]+)(\))")
"""Opening with text, target, closing; of a picture that is a link, the picture."""
_TARGET = re.compile(r"\]\(([^()\s]+)\)")
_FENCE = re.compile(r"^( *)(`{3,}|~{3,})")
_HEADING = re.compile(r"^(#{1,6}) +(.+?) *#*$")


def prose(text: str) -> Iterator[str]:
    """Yield the lines of a page outside of fenced and indented code, blank ones for those
    inside."""
    fence = ""
    blank = True
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[2].startswith(fence):
                fence = ""
            yield ""
        elif mark:
            fence = mark[2]
            yield ""
        elif blank and line.startswith("    "):
            yield ""
            # what follows an indented block belongs to it, unless a line begins at the
            # margin
            continue
        else:
            yield line
        blank = not line.strip() or line.startswith("#")


def slug(heading: str) -> str:
    """Return the anchor of a heading: lower case, hyphens for blanks, no punctuation, as
    GitHub and the site do."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")


def anchors(text: str) -> set[str]:
    """Return the anchors of a page; a second heading of the same words gets none, since
    sites name it differently."""
    return {slug(match[2]) for line in prose(text) if (match := _HEADING.match(line))}


def links(text: str) -> Iterator[tuple[int, str]]:
    """Yield line number and target of each link and picture that leads to no other host."""
    for number, line in enumerate(prose(text), 1):
        for match in _TARGET.finditer(re.sub(r"`[^`]*`", "``", line)):
            if not re.match(r"[a-z][a-z0-9+.-]*:", match[1]):
                yield number, match[1]


def dead(page: Path, root: Path) -> list[str]:
    """Return a message for each link of a page that leads to no file of the project, or to
    no heading of a page."""
    found = []
    for number, target in links(page.read_text(encoding="utf-8")):
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        where = f"{page.relative_to(root)}:{number}: {target}"
        if not path.is_relative_to(root) or not path.exists():
            found.append(f"{where}: no such file")
        elif (
            anchor
            and path.suffix == ".md"
            and anchor not in anchors(path.read_text(encoding="utf-8"))
        ):
            found.append(f"{where}: no such heading")
    return found
