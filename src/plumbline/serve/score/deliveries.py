"""Find deliveries: folders of files that no longer change, each identified by its content."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plumbline.core.console import log, warn
from plumbline.core.errors import InputError
from plumbline.core.files import sha256_file, write_json
from plumbline.params.serve import Score
from plumbline.serve.score.results import read_record

UNFINISHED = re.compile(
    r"""
    \.(part|partial|filepart|crdownload|opdownload|download|aria2|tmp|temp)~?$  # browsers, rclone
    | \.(inprogress|uploading|swp)$ | (^|/)\.nfs[\da-f]+$
    | _\.gstmp$  # gsutil
    | \.[a-z]\w+\.(?!(19|20)\d{6}$)[\da-f]{8}$  # aws-cli: NAME.6eF5b5da, unlike NAME.20240131
    | (^|/)\.[^/]*\.[a-z]\w+\.(?-i:(?=\w*[A-Z\d])\w{6})$  # rsync: .NAME.Xa12bC
    | (^|/)\.[^/]+\.~[\da-f]+$  # Nextcloud
    | (^|/)\.(azdownload-|goutputstream-|fuse_hidden|com\.google\.chrome\.)  # azcopy
    | (^|/)\.in\.[^/]*\.$  # lftp
    | (^|/)\.(rsync-partial|~tmp~)/
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""Paths under which copying programs, browsers and file managers write what is not whole yet."""
ID_LENGTH = 8
Files = dict[str, dict[str, Any]]
State = list[list[Any]]


@dataclass(frozen=True)
class Delivery:
    """A complete delivery."""

    place: str
    name: str
    folder: Path
    files: Files
    """Path within the folder -> `sha256`, `bytes`; hidden files do not count."""
    state: tuple[tuple[Any, ...], ...]
    """State of the files when they were hashed, see `state_of`."""

    @property
    def id(self) -> str:
        """Return the SHA-256 over names and hashes of the files: equal files are the same
        delivery, in any folder."""
        listing = "".join(
            f"{name}\0{record['sha256']}\n" for name, record in sorted(self.files.items())
        )
        return hashlib.sha256(
            os.fsencode(listing)
        ).hexdigest()  # a name need not be UTF-8; `plan_reading` refuses it

    @property
    def result(self) -> str:
        """Return the name of the folder with its result."""
        return f"{self.name}-{self.id[:ID_LENGTH]}"

    def unchanged(self) -> bool:
        """Return whether the files are still the same as when they were hashed."""
        try:
            return tuple(map(tuple, state_of(self.folder))) == self.state
        except OSError:
            return False


def find_deliveries(
    params: Score, notes: Path, clock: Callable[[], float] = time.time
) -> list[Delivery]:
    """Return every complete delivery, by place and name.

    One is complete if its marker is there (where params name one), no file has a name of
    unfinished ones, and nothing in it has changed for `settle_s`: by the times of the
    files, or since an earlier look that saw the same. Both are asked, so that a clock that
    was set back does not hold up a delivery for as long.

    Args:
        params: section `score`.
        notes: file with the state of each delivery at the last look, and the hashes of its
            files; where it is unreadable, all files are hashed again.
        clock: seconds since 1970.

    Raises:
        InputError: the source is no folder.
    """
    if not params.source.is_dir():
        raise InputError(
            f"score.source: no folder {params.source} found. Make it, with a folder a place in "
            "it and a folder a "
            "delivery in that, or name another in params.yaml.",
            key="folder.missing",
        )
    old_notes = {key: note for key, note in (read_record(notes) or {}).items() if _is_note(note)}
    new_notes: dict[str, Any] = {}
    complete = []
    for folder in (
        folder for place in _list_folders(params.source) for folder in _list_folders(place)
    ):
        key = f"{folder.parent.name}/{folder.name}"
        try:
            state = state_of(folder)
            note: dict[str, Any] | None = old_notes.get(key)
            if note is None or note["state"] != state:
                note = {"state": state, "since": clock(), "files": None}
            new_notes[key] = note
            if reason := _find_obstacle(folder, state, note["since"], params, clock()):
                log.info("%s: left for the next time, %s", folder, reason)
                continue
            note["files"] = note["files"] or _hash_files(folder, state)
        except (
            FileNotFoundError,
            PermissionError,
        ) as error:  # renamed meanwhile, or to be permitted
            warn(
                "%s: left for the next time, a file cannot be read (%s)",
                folder,
                error,
                key="delivery.unreadable",
            )
            continue
        complete.append(
            Delivery(
                folder.parent.name, folder.name, folder, note["files"], tuple(map(tuple, state))
            )
        )
    write_json(notes, new_notes)
    return complete


def _list_folders(folder: Path) -> list[Path]:
    """Return the folders in a folder; names with `_` in front are the records of results."""
    # `glob` would pass over what may not be read without a word.
    return sorted(
        path for path in folder.iterdir() if not path.name.startswith((".", "_")) and path.is_dir()
    )


def _is_note(note: Any) -> bool:
    return isinstance(note, dict) and note.keys() >= {"state", "since", "files"}


def state_of(folder: Path) -> State:
    """Return `[path, bytes, changed (ns), written (ns), inode]` of every file below a
    folder, hidden ones too.

    The time of change is the file system's own: unlike that of writing, copying tools
    cannot set it back.

    Raises:
        FileNotFoundError, PermissionError: a file was renamed meanwhile, or may not be read.
    """
    paths = [
        Path(folder_name) / name
        for folder_name, _, names in os.walk(folder, onerror=_raise)
        for name in names
    ]
    files = [
        (path.relative_to(folder).as_posix(), path.stat())
        for path in sorted(paths)
        if path.is_file()
    ]
    return [
        [name, status.st_size, status.st_ctime_ns, status.st_mtime_ns, status.st_ino]
        for name, status in files
    ]


def _raise(error: OSError) -> None:
    raise error


def _find_obstacle(
    folder: Path, state: State, first_seen: float, params: Score, now: float
) -> str | None:
    """Return why a delivery is not complete yet; None if it is."""
    names = [str(row[0]) for row in state]
    if not any(_is_visible(name) for name in names):
        return "it is empty"
    if params.marker and params.marker not in names:
        return f"there is no {params.marker} in it yet"
    for name in names:
        if UNFINISHED.search(name):
            return f"{name} is being written"
    newest = max(row[2] for row in state) / 1e9
    if now - newest >= params.settle_s or abs(now - first_seen) >= params.settle_s:
        return None
    return f"it changed less than {params.settle_s:g} s ago"


def _is_visible(name: str) -> bool:
    return not any(part.startswith(".") for part in name.split("/"))


def _hash_files(folder: Path, state: State) -> Files:
    names = [str(row[0]) for row in state if _is_visible(str(row[0]))]
    return {
        name: {"sha256": sha256_file(folder / name), "bytes": (folder / name).stat().st_size}
        for name in names
    }
