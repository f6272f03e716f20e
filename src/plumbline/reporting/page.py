"""Write one HTML page for a screen or a phone, offline: its skeleton, and texts, figures
and tables within."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

LOGO = Path(__file__).with_name("logo.svg")
_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    keep_trailing_newline=True,
    undefined=StrictUndefined,
)


def html_page(title: str, style: str, parts: Sequence[str]) -> str:
    """Put `parts`, which are HTML, and a style sheet into a page; the title is text."""
    return render("page.html", title=title, style=style, parts=parts)


def render(template: str, **content: Any) -> str:
    """Fill a template of this folder, in which all content is text but what the template
    calls safe.

    Templates have the functions `table` and `number`, whose results are safe.
    """
    return _TEMPLATES.get_template(template).render(content)


def icon() -> str:
    """Return the logo as an address that holds the picture itself, for the icon of a page."""
    return f"data:image/svg+xml;base64,{base64.b64encode(LOGO.read_bytes()).decode()}"


def say(text: object) -> str:
    """Make text safe in HTML."""
    return html.escape(str(text), quote=True)


def number(value: Any) -> str:
    """Format a figure with four digits, or all digits before the point; return an empty
    text for None."""
    if value is None:
        return ""
    is_figure = isinstance(value, float) and abs(value) < 1e15
    if isinstance(value, int) or (is_figure and (value.is_integer() or abs(value) >= 1e4)):
        return f"{round(value):,}"
    return say(f"{value:.4g}" if isinstance(value, float) else value)


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Write a table; the first column is text, the others are figures."""
    head = "".join(
        f"<th{' class=n' if i else ''}>{say(title)}</th>" for i, title in enumerate(heads)
    )
    body = "".join(
        f"<tr><td>{say(row[0])}</td>"
        + "".join(f'<td class="n">{number(value)}</td>' for value in row[1:])
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></'
        "table></div>"
    )


_TEMPLATES.globals |= {"table": table, "number": number}
