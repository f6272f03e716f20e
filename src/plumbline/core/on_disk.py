"""Keep arrays that would fill the memory in files without a name, and read them by rows.

The system removes such a file when its array is gone, however the process ends. What freed
objects held in memory goes back to the system by `return_freed_memory`.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import tempfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from plumbline.core.files import report_write_errors

LARGE_BYTES = 2**26
"""A larger selection of an array on disk is on disk, too."""
ROWS = 512
"""Read at a time. A row may bring 64 kB around it into memory, so their pages are given
back before the next ones."""
Array = np.ndarray[Any, np.dtype[Any]]


class OnDisk(Array):
    """An array (N, ...) in a file. Rows that are selected are a copy in memory; many are a
    file again."""

    _folder: Path
    _pages: mmap.mmap

    def __getitem__(self, key: Any) -> Any:
        """Return what NumPy returns, but never a view of several rows."""
        first, *columns = key if isinstance(key, tuple) else (key,)
        plain, rows = np.asarray(self), _rows(first, len(self))
        if rows is None or not hasattr(self, "_pages"):
            return plain[key]
        sample = plain[:1][(slice(None), *columns)]
        stack = Stack(self._folder if sample.nbytes * rows.size > LARGE_BYTES else None)
        stack.add(sample[:0])
        for start in range(0, rows.size, ROWS):
            stack.add(plain[rows.ravel()[start : start + ROWS]][(slice(None), *columns)])
            self._pages.madvise(mmap.MADV_DONTNEED)
        selected = stack.array()
        return selected if rows.ndim == 1 else selected.reshape(*rows.shape, *selected.shape[1:])


def _rows(key: Any, count: int) -> NDArray[np.intp] | None:
    """Return the rows that a key chooses of `count`; None where it is no choice of several."""
    if isinstance(key, slice):
        return np.arange(*key.indices(count))
    chosen = np.asarray(key) if isinstance(key, np.ndarray | list) else np.zeros((), int)
    if not chosen.ndim or (chosen.dtype == bool and chosen.ndim > 1):
        return None
    return np.flatnonzero(chosen) if chosen.dtype == bool else chosen


class Stack:
    """Collect blocks of rows, one below the other, in memory or in a file."""

    def __init__(self, folder: Path | None) -> None:
        """`folder`: to hold the file; None: the array is in memory."""
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._blocks: list[Array] = []

    def add(self, block: Array) -> None:
        """Add a block (n, ...) of the same type and columns as the others.

        Raises:
            NotWritable: the disk refused.
        """
        if self._folder is None:
            self._blocks.append(block)
            return
        self._blocks = [block[:0].copy()]
        with report_write_errors(self._folder):
            self._file = self._file or tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - until `array`
            self._file.write(np.ascontiguousarray(block).data)

    def array(self) -> Array:
        """Return the array of all blocks, of which there is at least one; read-only where
        it is in a file."""
        if self._folder is None or self._file is None:
            return np.concatenate(self._blocks)
        with report_write_errors(self._folder), self._file as file:
            file.flush()
            if not file.tell():
                return self._blocks[0]
            pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        empty = self._blocks[0]
        array = np.frombuffer(pages, empty.dtype).reshape(-1, *empty.shape[1:]).view(OnDisk)
        array._folder, array._pages = self._folder, pages
        return array


def folder_of(array: Array) -> Path | None:
    """Return the folder of the file that an array is in; None for one in memory."""
    return getattr(array, "_folder", None)


def return_freed_memory() -> None:
    """Return the memory of freed objects to the system, where its C library is GNU's.

    Blocks that threads freed would stay with the process otherwise, between others that are in use:
    60 MB after a city was read (malloc_trim(3)).
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
