"""Serve models over HTTP: `plumbline serve`."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Annotated

import typer
from pydantic import SecretStr, ValidationError

from plumbline.cli.options import Commands, Without
from plumbline.core.errors import InputError
from plumbline.core.extras import need
from plumbline.service.settings import ServiceLimits, ServiceSettings

app = Commands()


@app.command(
    epilog="Example: `plumbline serve --port 8000`, then open http://127.0.0.1:8000. A proxy "
    "that shows it under a "
    "path must name the path in X-Forwarded-Prefix."
)
def serve(
    settings: Annotated[ServiceSettings, Without({"tokens", "poll_seconds", "limits"})],
    limits: Annotated[
        ServiceLimits, Without({"files", "infer_at_once", "infer_mb", "tensor_buildings"})
    ],
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with tokens, one a line. A request must bring one, and sees its jobs only.",
            metavar="FILE",
        ),
    ] = None,
) -> None:
    """Serve judgements, fields and a web page over HTTP."""
    need("serve", "serve")
    from plumbline.service.app import run

    try:
        tokens = read_tokens(token_file) if token_file else ()
        checked = ServiceSettings(
            **vars(settings) | {"limits": ServiceLimits(**vars(limits)), "tokens": tokens}
        )
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise InputError(
            f"serve: {field + ': ' if field else ''}{first['msg'].removeprefix('Value error, ')}",
            key="settings.bad_value",
        ) from None
    run(checked)


def read_tokens(path: Path) -> tuple[SecretStr, ...]:
    """Return the tokens, one a line, in a file that its owner and this process's groups
    alone may read.

    Raises:
        InputError: the file is missing or empty, others may read it, or a line holds no
            single word.
    """
    shared = f"`chown :{os.getegid()} {path} && chmod 440 {path}` for a container"
    try:
        about = path.stat()
        words = [
            line.split() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()
        ]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"--token-file {path}: not readable ({error}). If it is there, run {shared}.",
            key="token_file.unreadable",
        ) from None
    own_group = about.st_gid in (os.getegid(), *os.getgroups())
    if about.st_mode & stat.S_IRWXO or (about.st_mode & stat.S_IRWXG and not own_group):
        who = "everybody" if about.st_mode & stat.S_IRWXO else f"the foreign group {about.st_gid}"
        raise InputError(
            f"--token-file {path}: {who} may read it. Run `chmod 600 {path}`, or {shared}.",
            key="token_file.open_to_others",
        )
    if not words or any(len(line) != 1 or not line[0].isascii() for line in words):
        raise InputError(
            f"--token-file {path}: one word of ASCII characters is needed in each line.",
            key="token_file.bad_line",
        )
    return tuple(SecretStr(word) for (word,) in words)
