"""Errors that a user meets, each with the exit code the command line ends with."""

from __future__ import annotations


class PlumblineError(Exception):
    """Base of all errors raised on purpose; the message is written for the user."""

    exit_code = 1


class InputError(PlumblineError):
    """Something the user gave is wrong: a file, a parameter, a model package.

    The message names the file (and row, column or parameter), what was found and what to do.
    """

    exit_code = 2


class ParameterError(InputError):
    """A parameter is wrong, which could not be seen when its file was read; the message begins with its key."""


class NotWritable(InputError):
    """Nothing can be written where the user wants it; never the fault of what is read."""


class GateRefused(PlumblineError):
    """A gate said no: the candidate is not released. The message names rule, figure and bound."""

    exit_code = 3
