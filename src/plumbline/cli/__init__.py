"""Run the command line: one command per stage, and the commands for models. Each module
holds a group of them."""

from __future__ import annotations

import os
import sys
import threading
from typing import Annotated

import typer

from plumbline import __version__
from plumbline.cli import adapters, release, restore, serve, service, stages, tools, watch
from plumbline.core.console import log, setup_logging, warn
from plumbline.core.errors import INTERRUPTED, InputError, PlumblineError, is_interrupt
from plumbline.core.extras import missing_extra
from plumbline.core.files import make_closed_file_error, make_full_disk_error
from plumbline.core.jobs import die_with_parent, set_spinning

app = typer.Typer(
    help="Which buildings are being damaged, where and how badly, from InSAR points and building "
    "footprints.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for group in (stages, serve, watch, restore, service, tools):
    app.add_typer(group.app)
app.add_typer(release.app, name="release")
app.add_typer(adapters.app, name="adapters")


def main(parent: int | None = None) -> None:
    """Run a command. An error meant for the user ends with its exit code and one message,
    without a traceback.

    Args:
        parent: number of the process that has started this one; None: whoever is the parent now.
    """
    setup_logging("--verbose" in sys.argv)
    threading.excepthook = _thread_failed
    try:
        set_spinning()
        _die_with_dvc(parent)
        app(prog_name="plumbline")  # also where it was started as `python -m plumbline`
    except BaseException as error:
        if is_interrupt(error):
            log.error("interrupted")
            sys.exit(INTERRUPTED)
        message = _as_message(error)
        if message is None:
            raise
        if message is not error:
            log.debug("", exc_info=error)
        log.error("%s", message, extra={"key": message.key})
        sys.exit(message.exit_code)


def _as_message(error: BaseException) -> PlumblineError | None:
    """Return the error that the user is shown; None for a fault of Plumbline, and for an
    ordinary end."""
    if isinstance(error, PlumblineError) or not isinstance(error, Exception):
        return error if isinstance(error, PlumblineError) else None
    # Files without a message of their own: checkpoints, the record of MLflow, closed folders.
    missing = missing_extra(error, _command_name()) if isinstance(error, ImportError) else None
    return missing or make_full_disk_error(error) or make_closed_file_error(error)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"plumbline {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    verbose: Annotated[bool, typer.Option("--verbose", help="Say more.")] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Options before the command; `--verbose` is read before logging is set up."""


def _command_name() -> str:
    """Return the command on the command line."""
    return next((word for word in sys.argv[1:] if not word.startswith("-")), "plumbline")


def _thread_failed(failed: threading.ExceptHookArgs) -> None:
    """Log one warning if a library's thread (TensorBoard's, for example) fails on a full disk."""
    message = (
        make_full_disk_error(failed.exc_value) if isinstance(failed.exc_value, Exception) else None
    )
    if message is None:
        threading.__excepthook__(failed)
    else:
        warn("%s", message, key=message.key)


def _die_with_dvc(parent: int | None) -> None:
    """End a DVC stage when its DVC ends; else it would go on unseen and write into its folder."""
    if "DVC_STAGE" in os.environ and not die_with_parent(parent):
        raise InputError("DVC ended before this stage began.", key="dvc.ended")
