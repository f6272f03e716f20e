"""A disk that takes no more, without the right to mount one."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def largest_file(size: int, process: int = 0) -> Iterator[None]:
    """In the block, no file may grow beyond so many bytes: the system refuses as where a disk is full.

    Args:
        size: bytes.
        process: its number, on Linux; 0: this one. What it starts in the block has the limit too.
    """

    def limit(*values: tuple[int, int]) -> tuple[int, int]:
        if process:
            return resource.prlimit(process, resource.RLIMIT_FSIZE, *values)
        if values:
            resource.setrlimit(resource.RLIMIT_FSIZE, *values)
        return resource.getrlimit(resource.RLIMIT_FSIZE)

    soft, hard = limit()
    limit((size, hard))
    try:
        yield
    finally:
        limit((soft, hard))
