"""Write the reference pages from the code: commands, parameters, operations of the service.

`python docs/site/reference.py FOLDER` writes them as files; the site makes them while it is built.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import sys
import tempfile
import textwrap
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import typer
from links import slug
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from plumbline.cli import app
from plumbline.params.fields import RestorationParams
from plumbline.params.load import Params
from plumbline.params.section import Section

UNITS = (
    ("_mm_yr", "mm/year"),
    ("_mm_m", "mm/m"),
    ("_permille", "permille"),
    ("_mm", "mm"),
    ("_m", "m"),
    ("_deg", "degrees"),
    ("_years", "years"),
    ("years", "years"),
    ("_days", "days"),
    ("days", "days"),
    ("_hours", "hours"),
    ("_minutes", "minutes"),
    ("_seconds", "s"),
    ("_s", "s"),
    ("_mib", "MiB"),
    ("_mb", "MB"),
    ("_db", "dB"),
)
"""End of a parameter's name, and the unit that it stands for."""


def cli_page() -> str:
    """Return the page of all commands, from the commands themselves."""
    lines = ["# Commands", "", "Made from the commands. `plumbline COMMAND --help` says the same.", ""]
    for name, command in commands():
        lines += [f"## plumbline {name}", "", _text(command.help), ""]
        if command.epilog:
            lines += [_text(command.epilog), ""]
        options = [one for one in command.params if not one.hidden]
        if options:
            lines += ["| option | takes | default | meaning |", "|---|---|---|---|"]
            lines += [_row(*_option(one)) for one in options] + [""]
    return "\n".join(lines)


def commands() -> Iterator[tuple[str, Any]]:
    """Yield name and command of each, those of a group with the group's name before theirs."""

    def walk(group: Any, before: str) -> Iterator[tuple[str, Any]]:
        for name, command in group.commands.items():
            if getattr(command, "commands", None):
                yield from walk(command, f"{before}{name} ")
            elif not command.hidden:
                yield before + name, command

    yield from walk(typer.main.get_command(app), "")


def params_page() -> str:
    """Return the page of all parameters, from the typed sections."""
    lines = [
        "# Parameters",
        "",
        "Made from the typed sections in `src/plumbline/params`. A key without a default must be given.",
        "Unknown keys and values out of range are refused, with what is allowed.",
        "",
    ]
    shown: dict[type[Section], str] = {}
    for title, whole in FAMILIES.items():
        lines += [f"## {title}", ""]
        for path, section in sections(whole):
            heading = f"{title}: {path}" if path else f"{title}: the file"
            lines += [f"### {heading}", ""]
            if section in shown:
                lines += [f"The same keys as [{_text(shown[section])}](#{slug(shown[section])}).", ""]
                continue
            shown[section] = heading
            about = inspect.getdoc(section)
            lines += [_text(about), ""] if about else []
            lines += ["| key | type | range | default | unit | meaning |", "|---|---|---|---|---|---|"]
            told = _told(section)
            for name, field in section.model_fields.items():
                key = field.alias or name
                unit = next((unit for end, unit in UNITS if key.endswith(end)), "")
                about = told.get(name, "")
                lines.append(_row(f"`{key}`", _kind(field.annotation), _range(field), _default(field), unit, about))
            lines.append("")
    return "\n".join(lines)


FAMILIES: Mapping[str, type[Section]] = {"Diagnosis": Params, "Restoration": RestorationParams}


def sections(whole: type[Section], path: str = "") -> Iterator[tuple[str, type[Section]]]:
    """Yield path and class of each section of a file, the file itself first; NAME stands for keys that users choose."""
    plain = any(not _sections_of(field.annotation) for field in whole.model_fields.values())
    if plain or path:
        yield path, whole
    for name, field in whole.model_fields.items():
        for kind in _sections_of(field.annotation):
            origin = typing.get_origin(field.annotation)
            below = f"{path}.{field.alias or name}".lstrip(".") + {dict: ".NAME", list: "[]"}.get(origin, "")
            yield from sections(kind, below)


def http_page() -> str:
    """Return the page of the service's operations, from its own OpenAPI document."""
    from plumbline.service.app import make_app
    from plumbline.service.openapi import _body, _parameters
    from plumbline.service.settings import Settings

    kept = tempfile.tempdir  # the service sets a place of its own for uploads
    try:
        with tempfile.TemporaryDirectory() as folder:
            service: Any = make_app(Settings(folder=Path(folder)))
            document = service._app.openapi()
    finally:
        tempfile.tempdir = kept
    lines = ["# HTTP API", "", "Made from the service's OpenAPI document, which `/openapi.json` gives.", ""]
    lines += [_text(document["info"]["description"]), "", "How to use it: [serve over HTTP](../service.md).", ""]
    for path, methods in document["paths"].items():
        for method, about in methods.items():
            lines += [f"## {method.upper()} {path}", "", _text(about.get("summary", "")) + ".", ""]
            fields = [*_parameters(about), *_body(about, document)]
            if fields:
                lines += ["| field | in | type | needed | meaning |", "|---|---|---|---|---|"]
                for one in fields:
                    needed = "yes" if one["needed"] else ""
                    lines.append(_row(f"`{one['name']}`", one["where"], one["type"], needed, one["text"]))
                lines.append("")
            lines += ["| answer | meaning |", "|---|---|"]
            lines += [_row(status, one.get("description", "")) for status, one in about["responses"].items()]
            lines.append("")
    return "\n".join(lines)


PAGES: Mapping[str, Callable[[], str]] = {
    "reference/cli.md": cli_page,
    "reference/params.md": params_page,
    "reference/http.md": http_page,
}
"""Each generated page, by its path among the pages."""


def _row(*cells: str) -> str:
    return "| " + " | ".join(_text(cell).replace("|", "\\|") for cell in cells) + " |"


def _text(text: str | None) -> str:
    """One line, with nothing outside of code that Markdown or HTML would take for its own."""
    parts = re.split(r"(`+[^`]*`+)", " ".join((text or "").split()))
    return "".join(part if part.startswith("`") else re.sub(r"([*_\[\]<>])", r"\\\1", part) for part in parts)


def _option(one: Any) -> tuple[str, str, str, str]:
    """Names, what is taken, default and help of an option or an argument."""
    argument = one.param_type_name == "argument"
    names = f"`{one.metavar or one.name.upper()}`" if argument else " ".join(f"`{name}`" for name in one.opts)
    names += "".join(f" `{name}`" for name in one.secondary_opts)
    flag = getattr(one, "is_flag", False)
    takes = "" if flag else f"`{one.metavar}`" if one.metavar else _kind(one.type_descriptor.annotation)
    if one.min is not None:
        takes += f", {one.min} or more" if one.max is None else f", {one.min} to {one.max}"
    default = "needed" if one.required else "" if one.default is None or flag else f"`{one.default}`"
    return names, takes, default, one.help or ""


def _sections_of(kind: Any) -> list[type[Section]]:
    if isinstance(kind, type) and issubclass(kind, Section):
        return [kind]
    return [one for part in typing.get_args(kind) for one in _sections_of(part)]


def _told(section: type[Section]) -> dict[str, str]:
    """Return the text below each field of a class, those of its bases first."""
    told: dict[str, str] = {}
    for base in reversed(section.__mro__):
        if not (issubclass(base, Section) and base is not Section):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        body = typing.cast(ast.ClassDef, tree).body
        for field, text in itertools.pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and _is_text(text):
                told[field.target.id] = typing.cast(Any, text).value.value
    return told


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _kind(kind: Any) -> str:
    """Return the type in words."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if kind is type(None):
        return "`null`"
    if origin is typing.Annotated:
        return _kind(parts[0])
    if origin is typing.Literal:
        return ", ".join(f"`{part}`" for part in parts)
    if origin is dict:
        return f"map of {_kind(parts[1])}"
    if origin in (list, tuple):
        return f"list of {_kind(parts[0])}"
    if parts:
        return " or ".join(dict.fromkeys(_kind(part) for part in parts))
    if isinstance(kind, type) and issubclass(kind, Section):
        return "section"
    return {"str": "text", "int": "whole number", "float": "number", "bool": "`true` or `false`", "Path": "path"}.get(
        getattr(kind, "__name__", ""), getattr(kind, "__name__", str(kind))
    )


def _range(field: FieldInfo) -> str:
    """Return the bounds in words, also those of an optional number's own type."""
    said = []
    inner = [m for part in typing.get_args(field.annotation) for m in getattr(part, "__metadata__", ())]
    for one in [*field.metadata, *inner]:
        for bound in [*getattr(one, "metadata", []), one]:
            for key, word in (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<"), ("multiple_of", "multiple of")):
                if getattr(bound, key, None) is not None:
                    said.append(f"{word} {getattr(bound, key):,}".replace(",", " "))
            for key, word in (("min_length", "at least"), ("max_length", "at most")):
                if getattr(bound, key, None) is not None:
                    said.append(f"{word} {getattr(bound, key)} long")
            if getattr(bound, "pattern", None):
                said.append(f"`{bound.pattern}`")
    return ", ".join(dict.fromkeys(said))


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return ""
    if isinstance(value, Section):
        return "its own"
    return "`null`" if value is None else f"`{str(value).lower() if isinstance(value, bool) else value}`"


if __name__ == "__main__":
    for name, page in PAGES.items():
        path = Path(sys.argv[1]) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(), encoding="utf-8")
