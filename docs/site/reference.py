"""Write the reference pages from the code: commands, parameters, operations of the service.

`python docs/site/reference.py FOLDER` writes them as files; the site makes them while it is built.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import typer
from parameters import params_pages
from tables import in_words, plain, row

from plumbline.cli import app


def cli_page() -> str:
    """Return the page of all commands, from the commands themselves."""
    lines = [
        "# Commands",
        "",
        "Made from the commands. `plumbline COMMAND --help` says the same.",
        "",
    ]
    for name, command in commands():
        lines += [f"## plumbline {name}", "", plain(command.help), ""]
        if command.epilog:
            lines += [plain(command.epilog), ""]
        options = [one for one in command.params if not one.hidden]
        if options:
            lines += ["| option | takes | default | meaning |", "|---|---|---|---|"]
            lines += [row(*_option(one)) for one in options] + [""]
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


def http_page() -> str:
    """Return the page of the service's operations, from its own OpenAPI document."""
    from plumbline.service.app import make_app
    from plumbline.service.settings import ServiceSettings

    kept = tempfile.tempdir  # the service sets a place of its own for uploads
    try:
        with tempfile.TemporaryDirectory() as folder:
            service: Any = make_app(ServiceSettings(folder=Path(folder)))
            document = service._app.openapi()
    finally:
        tempfile.tempdir = kept
    lines = [
        "# HTTP API",
        "",
        "Made from the service's OpenAPI document, which `/openapi.json` gives.",
        "",
    ]
    lines += [
        plain(document["info"]["description"]),
        "",
        "How to use it: [serve over HTTP](../service.md).",
        "",
    ]
    for path, methods in document["paths"].items():
        for method, about in methods.items():
            lines += [f"## {method.upper()} {path}", "", plain(about.get("summary", "")) + ".", ""]
            fields = [*_parameters(about), *_body(about, document)]
            if fields:
                lines += ["| field | in | type | needed | meaning |", "|---|---|---|---|---|"]
                for one in fields:
                    needed = "yes" if one["needed"] else ""
                    lines.append(
                        row(f"`{one['name']}`", one["where"], one["type"], needed, one["text"])
                    )
                lines.append("")
            lines += ["| answer | meaning |", "|---|---|"]
            lines += [
                row(status, one.get("description", ""))
                for status, one in about["responses"].items()
            ]
            lines.append("")
    return "\n".join(lines)


def _parameters(about: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        _field(one["name"], one["in"], one.get("required", False), one)
        for one in about.get("parameters", [])
    ]


def _body(about: dict[str, Any], document: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for kind, content in about.get("requestBody", {}).get("content", {}).items():
        schema = content.get("schema", {})
        if "$ref" in schema:
            schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        needed = schema.get("required", [])
        fields = schema.get("properties", {})
        found += [
            _field(name, kind, name in needed, {"schema": one, **one})
            for name, one in fields.items()
        ]
    return found


def _field(name: str, where: str, needed: bool, about: dict[str, Any]) -> dict[str, Any]:
    schema = about.get("schema", {})
    kinds = [schema, *schema.get("anyOf", [])]
    named = [str(kind["type"]) for kind in kinds if kind.get("type") not in (None, "null")]
    keys = ("minimum", "maximum", "default")
    bounds = [f"{key} {kind[key]}" for kind in kinds for key in keys if kind.get(key, "") != ""]
    text = "; ".join([about.get("description", ""), *bounds]).strip("; ")
    return {
        "name": name,
        "where": where,
        "needed": needed,
        "type": " or ".join(named),
        "text": text,
    }


PAGES: Mapping[str, Callable[[], str]] = {
    "reference/cli.md": cli_page,
    "reference/http.md": http_page,
    **{place: partial(str, page) for place, page in params_pages().items()},
}
"""Each generated page, by its path among the pages."""


def _option(one: Any) -> tuple[str, str, str, str]:
    """Names, what is taken, default and help of an option or an argument."""
    argument = one.param_type_name == "argument"
    names = (
        f"`{one.metavar or one.name.upper()}`"
        if argument
        else " ".join(f"`{name}`" for name in one.opts)
    )
    names += "".join(f" `{name}`" for name in one.secondary_opts)
    flag = getattr(one, "is_flag", False)
    takes = (
        ""
        if flag
        else f"`{one.metavar}`"
        if one.metavar
        else in_words(one.type_descriptor.annotation)
    )
    if one.min is not None:
        takes += f", {one.min} or more" if one.max is None else f", {one.min} to {one.max}"
    default = (
        "needed" if one.required else "" if one.default is None or flag else f"`{one.default}`"
    )
    return names, takes, default, one.help or ""


if __name__ == "__main__":
    for name, page in PAGES.items():
        path = Path(sys.argv[1]) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(), encoding="utf-8")
