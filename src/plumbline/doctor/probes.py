"""Servers, asked over HTTP with a time limit."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
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
    if parts.username is not None:  # urllib takes a name and password in the address for a part of the host's name
        url = url.replace(parts.netloc, parts.netloc.rpartition("@")[2], 1)
        if parts.password is not None:
            sent["Authorization"] = basic(f"{unquote(parts.username)}:{unquote(parts.password)}")
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
    if given := os.environ.get("PREFECT_API_AUTH_STRING"):  # where both are set, Prefect takes this one
        headers["Authorization"] = basic(given)
    elif key := os.environ.get("PREFECT_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    return url, headers


def mlflow_headers() -> dict[str, str]:
    """The headers that an MLflow server behind a login wants, as MLflow takes them from the environment."""
    name, password = (os.environ.get(f"MLFLOW_TRACKING_{what}") for what in ("USERNAME", "PASSWORD"))
    if name and password:
        return {"Authorization": basic(f"{name}:{password}")}
    token = os.environ.get("MLFLOW_TRACKING_TOKEN")
    return {"Authorization": f"Bearer {token}"} if token else {}
