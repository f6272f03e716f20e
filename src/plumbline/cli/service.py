"""Serve models over HTTP: `plumbline serve`."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Annotated

import typer
from pydantic import SecretStr, ValidationError

from plumbline.cli.options import RARE, Commands, VerifyKeyOption
from plumbline.core.console import LogFormat
from plumbline.core.errors import InputError
from plumbline.core.extras import need

app = Commands()
FOLDER = Path(".plumbline/service")


@app.command(
    epilog="Example: `plumbline serve --port 8000`, then open http://127.0.0.1:8000. A proxy that shows it under a "
    "path must name the path in X-Forwarded-Prefix."
)
def serve(
    host: Annotated[str, typer.Option(help="Address; one that others can reach needs a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000,
    model: Annotated[
        str, typer.Option(help="Of diagnosis: `pretrained`, `champion`, or the folder of a package.")
    ] = "pretrained",
    restoration_model: Annotated[str, typer.Option(help="Of restoration, in the same way.")] = "pretrained",
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with tokens, one a line. A request must bring one, and sees its jobs only.", metavar="FILE"
        ),
    ] = None,
    folder: Annotated[Path, typer.Option(help="Holds uploads, results and the list of jobs.")] = FOLDER,
    processes: Annotated[int, typer.Option(min=1, max=64, help="That answer requests.")] = 1,
    jobs: Annotated[int, typer.Option(min=1, max=1000, help="Jobs that run at once; the others wait.")] = 1,
    queue: Annotated[int, typer.Option(min=0, help="Jobs that may wait.", rich_help_panel=RARE)] = 32,
    upload_mb: Annotated[int, typer.Option(min=1, help="Of one request, MB.", rich_help_panel=RARE)] = 2048,
    points: Annotated[int, typer.Option(min=1, help="Of one job.", rich_help_panel=RARE)] = 5_000_000,
    footprints: Annotated[int, typer.Option(min=1, help="Of one job.", rich_help_panel=RARE)] = 500_000,
    job_memory_mb: Annotated[int, typer.Option(min=256, help="Of one job, MB.", rich_help_panel=RARE)] = 8192,
    job_minutes: Annotated[float, typer.Option(min=0.01, help="Of one job.", rich_help_panel=RARE)] = 120.0,
    keep_hours: Annotated[
        float, typer.Option(min=0.01, help="For which files of ended jobs are kept.", rich_help_panel=RARE)
    ] = 24.0,
    score_folder: Annotated[
        Path | None,
        typer.Option(
            help="Results of `plumbline score` (data/score), whose drift /metrics then shows.",
            metavar="FOLDER",
        ),
    ] = None,
    log_format: Annotated[
        LogFormat,
        typer.Option(help="Form of the log; json: one object a line, also for each request."),
    ] = "text",
    verify_key: VerifyKeyOption = None,
    basemap: Annotated[
        str | None,
        typer.Option(help="Address of a base map for the web page, with {z}, {x} and {y}.", rich_help_panel=RARE),
    ] = None,
) -> None:
    """Serve judgements, fields and a web page over HTTP."""
    need("serve", "serve")
    from plumbline.service.app import run
    from plumbline.service.settings import Limits, Settings

    try:
        settings = Settings(
            folder=folder,
            host=host,
            port=port,
            processes=processes,
            model=model,
            restoration_model=restoration_model,
            tokens=read_tokens(token_file) if token_file else (),
            verify_key=verify_key,
            basemap=basemap,
            score_folder=score_folder,
            log_format=log_format,
            limits=Limits(
                upload_mb=upload_mb,
                points=points,
                footprints=footprints,
                jobs=jobs,
                queue=queue,
                job_memory_mb=job_memory_mb,
                job_minutes=job_minutes,
                keep_hours=keep_hours,
            ),
        )
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(
            f"serve: {where + ': ' if where else ''}{first['msg'].removeprefix('Value error, ')}"
        ) from None
    run(settings)


def read_tokens(path: Path) -> tuple[SecretStr, ...]:
    """Return the tokens, one a line, in a file that its owner and this process's groups alone may read.

    Raises:
        InputError: the file is missing or empty, others may read it, or a line holds no single word.
    """
    shared = f"`chown :{os.getegid()} {path} && chmod 440 {path}` for a container"
    try:
        about = path.stat()
        words = [line.split() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--token-file {path}: not readable ({error}). If it is there, run {shared}.") from None
    own_group = about.st_gid in (os.getegid(), *os.getgroups())
    if about.st_mode & stat.S_IRWXO or (about.st_mode & stat.S_IRWXG and not own_group):
        who = "everybody" if about.st_mode & stat.S_IRWXO else f"the foreign group {about.st_gid}"
        raise InputError(f"--token-file {path}: {who} may read it. Run `chmod 600 {path}`, or {shared}.")
    if not words or any(len(line) != 1 or not line[0].isascii() for line in words):
        raise InputError(f"--token-file {path}: one word of ASCII characters is needed in each line.")
    return tuple(SecretStr(word) for (word,) in words)
