"""Open foreign HDF5 files safely: only arrays in the file itself, after a check of their size."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np

from plumbline.core.errors import InputError

FAULTS = (OSError, RuntimeError, ValueError, TypeError, LookupError, OverflowError, MemoryError)
"""Errors that h5py raises on a damaged file."""
MAX_CHUNK_BYTES = 2**28
"""Largest chunk, unpacked: MintPy writes some MB."""
MAX_RATIO = 1000
"""Largest ratio of unpacked to stored size of a large array; an image without data has about
1000."""
RATIO_FREE_BYTES = 2**26
CACHE_BYTES = 2**25
PROBE = f"""
import math, sys, h5py
failed = []
def look(name, values):
    try:
        dict(values.attrs)
        if not isinstance(values, h5py.Dataset) or not values.size:
            return
        if values.is_virtual or values.external:
            return
        if math.prod(values.chunks or ()) * values.dtype.itemsize <= {MAX_CHUNK_BYTES}:
            values[(0,) * values.ndim]
    except Exception:
        failed.append(name)
with h5py.File(sys.argv[1], "r") as file:
    look("/", file)
    file.visititems(look)
sys.exit(bool(failed))
"""
"""Program that reads everything but the bulk of the numbers; see `_survives_probe`."""
PROBE_SECONDS = 120


EOS = ("HDFEOS", "GRIDS", "timeseries")
"""Path of the groups in MintPy's HDF-EOS5, one file with the arrays that are otherwise in several
(insarlab/MintPy, save_hdfeos5)."""
IN_EOS = {
    "timeseries": ("observation", "displacement"),
    "date": ("observation", "date"),
    "temporalCoherence": ("quality", "temporalCoherence"),
}
"""Array -> its path in these groups; arrays that are not listed are in the group `geometry`."""


class Hdf5Files:
    """A stack and the files beside it, each opened once, and closed with the last reference
    to this.

    It goes to other processes without them.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Begin with none open. `path`: of the stack; unused, as `OpenedFile.cached` passes it."""
        self._open: dict[Path, h5py.File] = {}

    def __reduce__(self) -> tuple[type[Hdf5Files], tuple[()]]:
        return Hdf5Files, ()

    @contextmanager
    def open(self, path: Path) -> Iterator[h5py.File]:
        """Open a file for reading; damage found inside the block also raises an `InputError`.

        Raises:
            InputError: the file is missing, cut off or damaged.
        """
        with _as_input_errors(path):
            if path not in self._open:
                if probes_first and path.exists() and not _survives_probe(path):
                    raise OSError("it is damaged")
                self._open[path] = h5py.File(path, "r", rdcc_nbytes=CACHE_BYTES)
            yield self._open[path]


probes_first = False
"""True if another process reads each file first, see `probe_first`."""


def probe_first() -> None:
    """From now on, let another process read each file first: for files from untrusted senders.

    A changed byte can crash libhdf5, which cannot be caught.
    """
    global probes_first
    probes_first = True


@contextmanager
def _as_input_errors(path: Path) -> Iterator[None]:
    """Turn errors of h5py into an `InputError`."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.", key="file.missing") from None
    except FAULTS as error:
        detail = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise InputError(
            f"{path}: not readable as HDF5 ({detail}). Make or download it again.",
            key="hdf5.unreadable",
        ) from None


def attributes(file: h5py.File) -> dict[str, str]:
    """Return the attributes of the file, as text."""
    return {str(name): _to_text(value) for name, value in file.attrs.items()}


def has_array(file: h5py.File, name: str) -> bool:
    """Return whether the file has an entry of this name, usable or not."""
    return all(part in group.keys() for group, part in _walk_to(file, name))  # noqa: SIM118  (`in file` would follow links)


def _walk_to(file: h5py.File, name: str) -> Iterator[tuple[h5py.Group, str]]:
    """Yield the groups on the way to an array, each with the next name; stop at the first
    entry that is not a group."""
    group = file
    eos = EOS[0] in file.keys()  # noqa: SIM118
    for part in (*EOS, *IN_EOS.get(name, ("geometry", name))) if eos else (name,):
        yield group, part
        if part not in group.keys() or not isinstance(group.get(part, getlink=True), h5py.HardLink):  # noqa: SIM118
            return
        group = group[part]
        if not isinstance(group, h5py.Group):
            return


def array(
    path: Path, file: h5py.File, name: str, dimensions: int, kinds: str = "fiu"
) -> h5py.Dataset:
    """Return an array of numbers (or of other NumPy `kinds`) with `dimensions` dimensions.

    Raises:
        InputError: there is none, it is in another file, is of another type, or of a suspect size.
    """
    if not has_array(file, name):
        raise InputError(
            f"{path}: no array /{name} in it; it holds "
            f"{', '.join(list(file.keys())[:12]) or 'nothing'}.",
            key="hdf5.missing_array",
        )
    *_, (group, last) = _walk_to(file, name)
    if not isinstance(group.get(last, getlink=True), h5py.HardLink):
        raise InputError(
            f"{path}, /{name}: a link found, only arrays in the file itself are read. Copy it in "
            "(h5repack).",
            key="hdf5.link",
        )
    values = group[last]
    if not isinstance(values, h5py.Dataset):
        raise InputError(f"{path}, /{name}: a group found, an array is needed.", key="hdf5.group")
    # An array without values (h5py.Empty) has no size.
    size, stored = (values.size or 0) * values.dtype.itemsize, values.id.get_storage_size()
    chunk = (
        int(np.prod(values.chunks, dtype=np.int64)) * values.dtype.itemsize if values.chunks else 0
    )
    for is_wrong, problem, key in (
        (
            values.is_virtual or values.external,
            "its numbers are in another file. Copy them in (h5repack)",
            "hdf5.external_values",
        ),
        (
            values.dtype.kind not in kinds or values.ndim != dimensions,
            f"{values.ndim} dimensions of {values.dtype} found, {dimensions} of "
            f"{'text' if kinds == 'S' else 'numbers'} are needed",
            "hdf5.array_type",
        ),
        (
            chunk > MAX_CHUNK_BYTES or (size > RATIO_FREE_BYTES and size > MAX_RATIO * stored),
            f"{size:,} bytes unpacked, {stored:,} stored, in chunks of {chunk:,}: at most "
            f"{MAX_RATIO} times and chunks of {MAX_CHUNK_BYTES:,} are read. If it is genuine, "
            "write it without compression",
            "hdf5.too_large",
        ),
    ):
        if is_wrong:
            raise InputError(f"{path}, /{name}: {problem}.", key=key)
    return values


def read_number(path: Path, attrs: Mapping[str, str], name: str) -> float:
    """Return an attribute as a finite number.

    Raises:
        InputError: there is no such attribute, or it is no number.
    """
    try:
        value = float(attrs[name])
    except (KeyError, ValueError):
        value = float("nan")
    if not np.isfinite(value):
        raise InputError(
            f"{path}, attribute {name}: {attrs.get(name, 'none')[:60]!r} found, a number is "
            "needed.",
            key="hdf5.not_a_number",
        )
    return value


def _survives_probe(path: Path) -> bool:
    """Return whether another process can read a file, and is not killed by it."""
    command = [sys.executable, "-I", "-c", PROBE, str(path)]
    try:  # what it refuses in words, is refused here, too
        return subprocess.run(command, capture_output=True, timeout=PROBE_SECONDS).returncode >= 0
    except subprocess.TimeoutExpired:
        return False


def _to_text(value: object) -> str:
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
