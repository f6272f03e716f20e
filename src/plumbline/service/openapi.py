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
    """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{{ info.title }}: operations</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}</style>
</head><body><h1>{{ info.title }}</h1><p>{{ info.description }}</p>
<p>Fields and answers of each operation: <a href="openapi.json">openapi.json</a>. How to: docs/service.md.</p><ul>
{% for path, methods in paths.items() %}{% for method, about in methods.items() %}
<li><code>{{ method.upper() }} {{ path }}</code> {{ about.summary }}</li>
{% endfor %}{% endfor %}</ul></body></html>"""
)


def api_page(document: dict[str, Any]) -> str:
    """Return the page that lists the operations of an OpenAPI document."""
    return _PAGE.render(document)
