"""Write files atomically, so that a partial file is never visible, and hash them to detect
changes."""

from __future__ import annotations

import csv
import errno
import functools
import glob
import hashlib
import json
import os
import re
import shutil
import socket
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from plumbline.core.errors import InputError, NotWritable, PlumblineError, refused_by_disk
from plumbline.core.geopackage import check_closed, fault_of_locks

ATTEMPTS = 100
"""Largest number of attempts to put a folder into its place while other processes do the same."""
KEPT_SECONDS = 7 * 86_400.0
"""Age at which abandoned files are removed: portions of an interrupted run, and what a
process elsewhere began."""
TEMPORARY = re.compile(r"^\.(.+)\.(?:([0-9a-f]{8})-)?(\d+)\.(?:part|old)(\.[^.]+)?$")
"""Name of what is not whole yet, or no longer in its place: of what; where its process is,
and its number; suffix."""


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it to `path` if the block succeeds.

    The temporary name keeps the suffix, because writers choose their format by it. A block
    that raises leaves `path` as it was and no temporary file behind. Of a link, the file
    that it leads to is replaced.

    Raises:
        InputError: as of `check_closed`.
        NotWritable: no file can be made there, or the disk is full.
    """
    path = _led_to(path)
    temporary = _beside(path)
    with _refused(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _try(temporary)
    try:
        with report_write_errors(path, disk_alone=True):
            yield temporary
            check_closed(path)
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def check_place(path: Path) -> None:
    """Refuse a path that a folder cannot replace; called before long work, so that the work
    is not lost.

    Raises:
        InputError: `path` is a file, or the working directory or a folder around it.
    """
    with suppress(OSError):  # asked once: another process may just put its own there
        if not stat.S_ISDIR(path.stat().st_mode):
            raise InputError(
                f"{path}: is a file. Give the name of a folder.", key="output.is_a_file"
            )
    if path.resolve() in (Path.cwd(), *Path.cwd().parents):
        raise InputError(
            f"{path}: is the working directory, or contains it. Give the name of another folder.",
            key="output.working_folder",
        )


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield an empty temporary folder beside `path`; it takes the place of `path` if the
    block succeeds.

    Raises:
        InputError: as of `check_place`.
        NotWritable: no folder can be made there, or the disk is full.
    """
    check_place(path)
    temporary = path.with_name(f".{path.name}.{_process()}.part")
    with _refused(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
    try:
        with report_write_errors(path, disk_alone=True):
            yield temporary
            _put(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def report_write_errors(path: Path, disk_alone: bool = False) -> Iterator[None]:
    """Turn an error that stops a writer in the block into a message about the given output.

    For a full disk, the message names the file in the error, which may lie on another disk.

    Args:
        path: the output.
        disk_alone: turn only what a full or read-only disk causes, not every `OSError`.

    Raises:
        NotWritable: in the place of the error.
    """
    try:
        yield
    except Exception as error:
        refusal = make_full_disk_error(error, path)
        if refusal is None and isinstance(error, OSError) and not disk_alone:
            why = describe_write_error(error, path)
            refusal = NotWritable(
                f"{path}: could not be written ({why}). Make room, or give another output.",
                key="output.write_failed",
            )
        if refusal is None:
            raise
        raise refusal from error


def make_full_disk_error(error: Exception, path: Path | None = None) -> NotWritable | None:
    """Return the error to show the user if a full or read-only disk caused `error`, else None.

    Args:
        error: as it came.
        path: what was being written, if that is known: the system names no file once one is open.
    """
    refusal = None if isinstance(error, PlumblineError) else refused_by_disk(error)
    if refusal is None:
        return None
    file, reason = refusal
    place = file or path
    subject = (
        f"{given_name(Path(os.fsdecode(place)))}: could not be written"
        if place
        else "a disk cannot be written to"
    )
    return NotWritable(
        f"{subject} ({reason}). Make room on that disk, or make it writable, and run the command "
        "again.",
        key="disk.full",
    )


def make_closed_file_error(error: Exception) -> InputError | None:
    """Return the error to show the user if permissions close a file or folder to this
    process, else None."""
    if not isinstance(error, PermissionError) or error.filename is None:
        return None
    place = given_name(Path(os.fsdecode(error.filename)))
    return InputError(
        f"{place}: {os.strerror(error.errno or errno.EACCES)}. Give this user access to it, or "
        "name another.",
        key="file.permission_denied",
    )


def given_name(path: Path) -> Path:
    """Return `path` with the temporary names of `atomic_file` and `atomic_folder` replaced
    by the given names."""
    return Path(*(TEMPORARY.sub(r"\1\4", part) for part in path.parts))


def check_writable(path: Path) -> None:
    """Refuse a file that cannot be written, before any work is done: create a file beside
    it and remove that file.

    Rights alone do not tell: root has them all, and a file system may take no files.

    Raises:
        InputError: it is a folder, or as of `check_closed`.
        NotWritable: no file can be made there, as the folder is missing or takes none.
    """
    path = _led_to(path)
    if path.is_dir():
        raise InputError(f"{path}: is a folder. Give the name of a file.", key="output.is_a_folder")
    with _refused(path):
        _try(_beside(path))
    check_closed(path)


def describe_write_error(error: BaseException, *paths: Path) -> str:
    """Return why a writer failed at `paths`, which were writable when it began; omit the
    names of temporary files."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    if (fault := fault_of_locks(error)) is not None:
        return f"{fault}; write into a local folder, and copy it"
    message = str(error)
    for path in paths:
        message = message.replace(str(_beside(path)), str(path))
    return f"{message}; is the disk full?"


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically, with the rights that every other file gets."""
    with atomic_file(path) as temporary:
        temporary.write_bytes(content)


@contextmanager
def _refused(path: Path) -> Iterator[None]:
    """Turn an `OSError` about a temporary name into one about the given name."""
    try:
        yield
    except OSError as error:
        raise NotWritable(
            f"{path}: nothing can be written into {path.parent} ({error.strerror}). Give another "
            "place.",
            key="output.not_writable",
        ) from error


def _put(temporary: Path, path: Path) -> None:
    """Replace one folder by another, also if other processes do the same at that moment:
    the last one stays."""
    old = path.with_name(f".{path.name}.{_process()}.old")
    for attempts_left in reversed(range(ATTEMPTS)):
        _remove(old)  # of a killed process of this number, or of the attempt before
        # A folder cannot be renamed over a full one: move the old aside first, remove it last.
        with suppress(FileNotFoundError):
            os.replace(path, old)
        try:
            os.replace(temporary, path)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST) and attempts_left:
                continue  # another process was between the two
            with suppress(OSError):
                os.replace(old, path)
            raise
        _remove(old)
        return


def _remove(path: Path) -> None:
    """Remove a folder; of a link to a folder, remove only the link."""
    with suppress(OSError):
        path.unlink() if path.is_symlink() else shutil.rmtree(path, ignore_errors=True)


def _led_to(path: Path) -> Path:
    """Return the file that a link leads to, whether it exists or not; a path that is no
    link unchanged."""
    return path.resolve() if path.is_symlink() else path


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.stem}.{_process()}.part{path.suffix}")


def _process() -> str:
    return f"{here()}-{os.getpid()}"


@functools.cache
def here() -> str:
    """Return the machine and container within which a process number is unique."""
    try:
        numbers = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        numbers = ""
    return hashlib.sha256(f"{socket.gethostname()} {numbers}".encode()).hexdigest()[:8]


def is_dead(temporary: Path) -> bool:
    """Return whether the maker of a temporary file or folder has ended; if it is elsewhere,
    whether the file is old."""
    name = TEMPORARY.match(temporary.name)
    if name is None or not Path("/proc/self").exists():
        return False
    if name[2] not in (None, here()):
        with suppress(OSError):
            return time.time() - temporary.stat().st_mtime > KEPT_SECONDS
        return False
    return not Path(f"/proc/{name[3]}").exists()


def _try(temporary: Path) -> None:
    temporary.touch()
    temporary.unlink()


def _remove_leftovers(path: Path) -> None:
    """Remove what killed processes have left beside `path`: a temporary folder, or the old
    one moved aside."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.*"):
        name = TEMPORARY.match(leftover.name)
        unfinished = leftover.suffix == ".part" or (leftover.suffix == ".old" and path.exists())
        if name and name[1] == path.name and unfinished and is_dead(leftover):
            _remove(leftover)


def write_json(path: Path, content: Any) -> None:
    """Write `content` as indented JSON, atomically. NaN is refused: JSON has none."""
    with atomic_file(path) as temporary:
        temporary.write_text(
            json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8"
        )


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        InputError: the file is missing or is not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.", key="file.missing") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path}: not readable as JSON ({error}).", key="json.unreadable"
        ) from None


def write_csv(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write rows as a csv: one row a line, columns as in the first row, numbers to six places."""
    with (
        atomic_file(path) as temporary,
        temporary.open("w", newline="", encoding="utf-8") as stream,
    ):
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow(
                {
                    key: round(value, 6) if isinstance(value, float) else value
                    for key, value in row.items()
                }
            )


def sha256_file(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_folder(folder: Path, pattern: str = "*") -> str:
    """Return the hexadecimal SHA-256 over names and bytes of all files below `folder` that
    match `pattern`."""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob(pattern) if p.is_file()):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{sha256_file(path)}\n".encode())
    return digest.hexdigest()


def sha256_path(path: Path) -> str:
    """Return `sha256_folder` of a folder, `sha256_file` of a file."""
    return sha256_folder(path) if path.is_dir() else sha256_file(path)
