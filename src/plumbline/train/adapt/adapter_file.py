"""Reading the two files of an adapter, which may come from anywhere: never more of one than an adapter can have."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from plumbline.core.errors import InputError

MAX_BYTES = 100_000
"""Of either file."""
OWN_HASH = "about_sha256"
AGAIN = "Copy the adapter's folder again, or run `plumbline adapt` again."


def read_about(path: Path) -> Any:
    """The content of `adapter.json`.

    Raises:
        InputError: it is missing, larger than `MAX_BYTES`, no JSON, or says something else than was written.
    """
    try:
        content = json.loads(_bytes(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not readable as JSON ({error}). {AGAIN}") from None
    told = content.get(OWN_HASH) if isinstance(content, dict) else None
    if told is not None and told != about_hash(content):
        raise InputError(f"{path}: changed since it was written: its content has another hash than it says. {AGAIN}")
    return content


def about_hash(content: dict[str, Any]) -> str:
    """SHA-256 of what `adapter.json` says, but for this hash."""
    others = {key: value for key, value in content.items() if key != OWN_HASH}
    return hashlib.sha256(json.dumps(others, sort_keys=True).encode()).hexdigest()


def read_tensors(path: Path, sha256: str) -> dict[str, Tensor]:
    """The tensors of `adapter.safetensors`, whose content must have this hash.

    Raises:
        InputError: it is missing, larger than `MAX_BYTES`, another file than was written, or no file of tensors.
    """
    content = _bytes(path)
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise InputError(
            f"{path}: changed or cut off since it was written ({len(content)} bytes of SHA-256 {found[:12]}… found, "
            f"{sha256[:12]}… in adapter.json). {AGAIN}"
        )
    try:
        return load(content)
    except (SafetensorError, KeyError, ValueError, RuntimeError) as error:  # also of a type that torch does not know
        raise InputError(f"{path}: not a file of tensors ({error}). {AGAIN}") from None


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; an adapter has one. {AGAIN}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}). {AGAIN}") from None
    if len(content) > MAX_BYTES:
        raise InputError(f"{path}: more than {MAX_BYTES} bytes, which no adapter has. {AGAIN}")
    return content
