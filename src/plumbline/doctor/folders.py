"""Folders: whether one can write there, what lies in them, and where DVC keeps its own."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from plumbline.doctor.command import dvc

SECONDS_TO_WALK = 4.0
"""A cache may hold a million files; what was seen by then will do."""


def nearest(path: Path) -> Path:
    """The path itself, or the nearest one above it that is there."""
    path = path.absolute()
    while not os.path.lexists(path) and path != path.parent:
        path = path.parent
    return path


def unwritable(folder: Path) -> str | None:
    """Why no file can be made in `folder` (or where it would be made); None where one was made, read and removed."""
    place = nearest(folder)
    try:
        # Without a name, where the file system can: nothing is left behind even if this process is killed.
        with tempfile.TemporaryFile(dir=place) as stream:
            stream.write(b"plumbline doctor")
            stream.flush()
            os.fsync(stream.fileno())
            stream.seek(0)
            return None if stream.read() == b"plumbline doctor" else f"{place} gave back other bytes than were written"
    except OSError as error:
        return f"{place}: {error.strerror or error}"


def files(folder: Path, seconds: float = SECONDS_TO_WALK) -> Iterator[tuple[Path, os.stat_result]]:
    """The files below `folder`, or it itself where it is one, as far as the time allows."""
    until = time.monotonic() + seconds
    if folder.is_file():
        yield folder, folder.stat()
    waiting = [folder] if folder.is_dir() else []
    while waiting and time.monotonic() < until:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
                    else:
                        yield Path(entry.path), entry.stat(follow_symlinks=False)
        except OSError:
            continue  # it went while it was looked at, or is not ours to read


def dvc_settings(seconds: float) -> dict[str, str]:
    """DVC's settings, those of all its files together, paths absolute.

    Raises:
        OSError: DVC cannot read them.
        TimeoutError: it did not say so in time.
    """
    ended = dvc("config", "--list", seconds=seconds)
    if ended.code:
        raise OSError(f"`dvc config --list`: {ended.error}")
    pairs = (line.partition("=") for line in ended.out.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def dvc_cache(settings: dict[str, str]) -> Path:
    """Folder of DVC's cache."""
    return Path(settings.get("cache.dir") or ".dvc/cache").absolute()
