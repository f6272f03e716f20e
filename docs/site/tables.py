"""Write rows of tables, plain text and types for generated Markdown."""

from __future__ import annotations

import re
import typing
from typing import Any

from plumbline.params.section import Section


def row(*cells: str) -> str:
    """Return a row of a table; bars in cells are escaped."""
    return "| " + " | ".join(plain(cell).replace("|", "\\|") for cell in cells) + " |"


def plain(text: str | None) -> str:
    """Return one line, with nothing outside of code that Markdown or HTML would take for its
    own."""
    parts = re.split(r"(`+[^`]*`+)", " ".join((text or "").split()))
    return "".join(
        part if part.startswith("`") else re.sub(r"([*_\[\]<>])", r"\\\1", part) for part in parts
    )


def in_words(kind: Any) -> str:
    """Return a type in words."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if kind is type(None):
        return "`null`"
    if origin is typing.Annotated:
        return in_words(parts[0])
    if origin is typing.Literal:
        return ", ".join(f"`{part}`" for part in parts)
    if origin is dict:
        return f"map of {in_words(parts[1])}"
    if origin in (list, tuple):
        return f"list of {in_words(parts[0])}"
    if parts:
        return " or ".join(dict.fromkeys(in_words(part) for part in parts))
    if isinstance(kind, type) and issubclass(kind, Section):
        return "section"
    return {
        "str": "text",
        "int": "whole number",
        "float": "number",
        "bool": "`true` or `false`",
        "Path": "path",
    }.get(getattr(kind, "__name__", ""), getattr(kind, "__name__", str(kind)))
