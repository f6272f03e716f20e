"""Servers, asked over HTTP with a time limit."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

SECONDS = 5.0
"""A server that takes longer to say that it is well is not."""


@dataclass(frozen=True)
class Answer:
    """What a server said."""

    content: Any
    """Its JSON, or text where it is none."""
    headers: Mapping[str, str]


def ask(url: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
    """GET an address, or POST `body` as JSON.

    Raises:
        OSError: nobody answers, or with an error; the message says which.
        ValueError: it is no address of the web.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"{url}: no address that begins with http:// or https://")
    sent = {"Accept": "application/json", **(headers or {})}
    if parts.password is not None:  # urllib takes a name and password in the address for a part of the host's name
        sent.setdefault("Authorization", basic(f"{parts.username}:{parts.password}"))
        url = url.replace(f"{parts.netloc}", parts.netloc.rpartition("@")[2], 1)
    data = None if body is None else json.dumps(body).encode()
    if data is not None:
        sent["Content-Type"] = "application/json"
    try:
        with urlopen(Request(url, data, sent), timeout=SECONDS) as answer:  # noqa: S310  # the scheme was looked at
            text = answer.read().decode("utf-8", "replace")
            kept = {key.lower(): value for key, value in answer.headers.items()}
    except HTTPError as error:
        raise OSError(f"HTTP status {error.code}, {error.reason}") from None
    try:
        return Answer(json.loads(text), kept)
    except ValueError:
        return Answer(text, kept)


def basic(name_and_password: str) -> str:
    """The header of basic authentication (RFC 7617)."""
    return "Basic " + base64.b64encode(name_and_password.encode()).decode()


def prefect_api() -> tuple[str, dict[str, str]] | None:
    """Address of the Prefect server, and the headers it wants, as the environment names them; None without a server."""
    url = os.environ.get("PREFECT_API_URL", "").rstrip("/")
    if not url:
        return None
    headers = {}
    if key := os.environ.get("PREFECT_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    elif given := os.environ.get("PREFECT_API_AUTH_STRING"):
        headers["Authorization"] = basic(given)
    return url, headers
