"""Complete the OpenAPI document, and write it as a page."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from jinja2 import Environment

from plumbline.serve.columns import json_schema
from plumbline.service.guard import OPEN
from plumbline.service.problems import Details, refusals

BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token of the service. One that was started without tokens needs none.",
}
FILE = "application/octet-stream"
BUILDING = "Building"
"""Schema of the columns of `predict`."""
GEOJSON = {
    "type": "object",
    "properties": {
        "type": {"const": "FeatureCollection"},
        "features": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "type": {"const": "Feature"},
                    "geometry": {"type": "object"},
                    "properties": {"$ref": f"#/components/schemas/{BUILDING}"},
                },
            },
        },
    },
}
"""Schema of a table of buildings as GeoJSON."""


class Documented(FastAPI):
    """An application that documents what FastAPI does not: files, columns, tokens and problem details."""

    def openapi(self) -> dict[str, Any]:
        """Return the document. What is there already is left as it is: FastAPI keeps one document."""
        document = super().openapi()
        parts = document["components"]
        parts["securitySchemes"] = {"bearer": BEARER}
        parts["schemas"] |= {"Details": Details.model_json_schema(), BUILDING: json_schema()}
        for unused in ("HTTPValidationError", "ValidationError"):
            parts["schemas"].pop(unused, None)
        _name_files(parts["schemas"])
        for path, methods in document["paths"].items():
            for about in methods.values():
                _add_refusals(about["responses"], path in OPEN)
                if path not in OPEN:
                    about["security"] = [{"bearer": []}]
        return document


def _add_refusals(responses: dict[str, Any], is_open: bool) -> None:
    if "HTTPValidationError" in str(responses.get("422")):  # FastAPI's own, which the service never answers with
        del responses["422"]
    if not is_open:
        responses |= {str(status): about for status, about in refusals(401).items()}


def _name_files(part: Any) -> None:
    """Write `format: binary` at each file: FastAPI writes `contentMediaType` alone, which makers of clients pass by."""
    if isinstance(part, dict) and part.get("contentMediaType") == FILE:
        part["format"] = "binary"
    for one in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        _name_files(one)


_PAGE = Environment(autoescape=True).from_string(
    """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{{ title }}: operations</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
code{background:#f0f0f0;padding:0 .3em}table{border-collapse:collapse;margin:.5rem 0}
td,th{border:1px solid #ccc;padding:.2rem .6rem;text-align:left;vertical-align:top}
summary{cursor:pointer;font-weight:600}details{margin:.6rem 0}</style></head><body>
<h1>{{ title }}</h1><p>{{ description }}</p>
<p>For programs: <a href="openapi.json">openapi.json</a>. How to: docs/service.md.
This page only lists the operations.
Pages that try them out load scripts from the internet, which this service does without.</p>
{% for one in operations %}<details><summary><code>{{ one.method }} {{ one.path }}</code> {{ one.summary }}</summary>
{% if one.fields %}<table><tr><th>field</th><th>in</th><th>needed</th><th>type</th><th>meaning</th></tr>
{% for field in one.fields %}<tr><td><code>{{ field.name }}</code></td><td>{{ field.where }}</td>
<td>{{ "yes" if field.needed else "no" }}</td><td>{{ field.type }}</td><td>{{ field.text }}</td></tr>
{% endfor %}</table>{% endif %}
<p>Answers:
{% for status, text in one.answers %}<code>{{ status }}</code> {{ text }}{{ "; " if not loop.last }}{% endfor %}
</p></details>
{% endfor %}</body></html>"""
)


def api_page(document: dict[str, Any]) -> str:
    """Return the page for an OpenAPI document."""
    operations = []
    for path, methods in document["paths"].items():
        for method, about in methods.items():
            operations.append(
                {
                    "method": method.upper(),
                    "path": path,
                    "summary": about.get("summary", ""),
                    "fields": [*_parameters(about), *_body(about, document)],
                    "answers": [(status, one.get("description", "")) for status, one in about["responses"].items()],
                }
            )
    about = document["info"]
    return _PAGE.render(title=about["title"], description=about.get("description", ""), operations=operations)


def _parameters(about: dict[str, Any]) -> list[dict[str, Any]]:
    return [_field(one["name"], one["in"], one.get("required", False), one) for one in about.get("parameters", [])]


def _body(about: dict[str, Any], document: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for kind, content in about.get("requestBody", {}).get("content", {}).items():
        schema = content.get("schema", {})
        if "$ref" in schema:
            schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        needed = schema.get("required", [])
        fields = schema.get("properties", {})
        found += [_field(name, kind, name in needed, {"schema": one, **one}) for name, one in fields.items()]
    return found


def _field(name: str, where: str, needed: bool, about: dict[str, Any]) -> dict[str, Any]:
    schema = about.get("schema", {})
    kinds = [schema, *schema.get("anyOf", [])]
    named = [str(kind["type"]) for kind in kinds if kind.get("type") not in (None, "null")]
    keys = ("minimum", "maximum", "default")
    bounds = [f"{key} {kind[key]}" for kind in kinds for key in keys if kind.get(key, "") != ""]
    text = "; ".join([about.get("description", ""), *bounds]).strip("; ")
    return {"name": name, "where": where, "needed": needed, "type": " or ".join(named), "text": text}
