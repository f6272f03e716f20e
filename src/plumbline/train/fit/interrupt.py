"""Ctrl-C in a run: it ends as everywhere else, and not as Lightning ends it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lightning import Trainer


@contextmanager
def interruptible(trainer: Trainer) -> Iterator[None]:
    """Lightning ends an interrupted process with exit code 1, which is a bug's: raise KeyboardInterrupt instead."""
    try:
        yield
    except SystemExit:
        if trainer.interrupted:
            raise KeyboardInterrupt from None
        raise
