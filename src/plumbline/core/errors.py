"""Define the errors that a user meets, each with the exit code of the command line."""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Iterator
from typing import Any

TAKES_NO_MORE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
"""Error numbers of a disk that is full, or that may not be written to."""
_TOLD = re.compile(
    r"No space left on device|Disk quota exceeded|database or disk is full|\d+ requested and \d+ "
    r"written"
)
"""Words for the same of libraries that give no number: SQLite, NumPy, and those that only
pass on a text."""


class PlumblineError(Exception):
    """Base of all errors raised on purpose; the message is written for the user.

    Args:
        message: file, row, column or parameter, what was found, and what to do.
        key: `subject.problem`, as `csv.not_a_number`: names the check, whatever the wording
            of its message.
    """

    exit_code = 1

    def __init__(self, message: str, *, key: str = "") -> None:
        super().__init__(message)
        self.key = key


class InputError(PlumblineError):
    """Something the user gave is wrong: a file, a parameter, a model package.

    The message names the file (and row, column or parameter), what was found and what to do.
    """

    exit_code = 2


class ParameterError(InputError):
    """A parameter is wrong, but its file alone does not show it; the message begins with the
    key."""


class OtherVersion(InputError):
    """A file is whole, but was made for another version of Plumbline."""


class NotWritable(InputError):
    """The output cannot be written where the user wants it; the input is not at fault."""


class SignatureRefused(PlumblineError):
    """A model package lacks a signature by the required key, or was altered after it was
    signed. It is not used."""

    exit_code = 3


class GateRefused(PlumblineError):
    """A gate failed: the candidate is not released. The message names rule, figure and bound."""

    exit_code = 3


INTERRUPTED = 130
"""Exit code after Ctrl-C."""
_interrupts: list[int] = []


def note_interrupts() -> None:
    """Note each Ctrl-C from now on: libraries in C may turn its KeyboardInterrupt into
    another error."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _note)


def _note(number: int, frame: Any) -> None:
    _interrupts.append(number)
    signal.default_int_handler(number, frame)


def is_interrupt(error: BaseException) -> bool:
    """Return whether a command ended by Ctrl-C; Typer makes it an exit without a word."""
    return (
        bool(_interrupts)
        or isinstance(error, KeyboardInterrupt)
        or getattr(error, "code", None) == INTERRUPTED
    )


def refused_by_disk(error: BaseException) -> tuple[str | None, str] | None:
    """Return the file and the reason if a full or read-only disk caused an error, else None.

    The system names a file only until it is open: then the first of the two is None.
    """
    refusals = [
        # Of a file that was moved or copied: where to.
        (e.filename2 or e.filename, os.strerror(e.errno))
        for e in _behind(error)
        if isinstance(e, OSError) and e.errno in TAKES_NO_MORE
    ]
    unnamed = [(None, match[0]) for e in _behind(error) if (match := _TOLD.search(str(e)))]
    return next(
        (refusal for refusal in refusals if refusal[0] is not None),
        next(iter(refusals + unnamed), None),
    )


def _behind(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error, then the errors that caused it or that were being handled when it
    was raised."""
    ids: set[int] = set()
    while error is not None and id(error) not in ids:
        yield error
        ids.add(id(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
