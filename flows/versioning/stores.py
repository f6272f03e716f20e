"""List the objects and run-cache entries of a DVC store: a cache or a remote."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from flows.versioning.stage_runner import BAD_INPUT, StageFailedError

_OBJECT = re.compile(r"([0-9a-f]{2})/([0-9a-f]{30}(?:\.dir)?)$")
_ENTRY = re.compile(r"[0-9a-f]{2}/([0-9a-f]{64}/[0-9a-f]{64})$")


@dataclass(frozen=True)
class Stored:
    """One object: a file, or the list of a folder's files."""

    path: str
    bytes: int
    changed: float
    """When it came into the store, seconds since 1970."""


@dataclass(frozen=True)
class Entry:
    """One entry of the run-cache: the results of a stage with given inputs."""

    path: str
    name: str
    """KEY/VALUE, the same in every store."""
    paths: tuple[str, ...]
    """Where the stage writes."""
    outs: tuple[str, ...]
    """Hashes of what it wrote."""
    below: bool = False
    """Whether the stage's folder lies below what it is made from, as that of a family does: there are stages of the
    same names, which write under the same paths, at the root."""


class Store:
    """Objects below `root/files/md5`, entries below `root/runs`."""

    def __init__(self, files: Any, root: str) -> None:
        self.name = root
        self._files = files
        self.objects: dict[str, Stored] = {}
        for path, size, changed in self._listed(files.join(root, "files", "md5")):
            if told := _OBJECT.search(path):
                self.objects[told[1] + told[2]] = Stored(path, size, changed)
        self.entries: list[Entry] = []
        for path, _, _ in self._listed(files.join(root, "runs")):
            if told := _ENTRY.search(path):
                self.entries.append(self._entry(path, told[1]))

    def read(self, path: str) -> bytes:
        """Return the content of a file of the store."""
        content: bytes = self._files.cat_file(path)
        return content

    def remove(self, entries: Sequence[Entry], objects: Sequence[str]) -> None:
        """Remove entries and objects, in an order that leaves no dangling references if it is cut short."""
        folders = [self.objects[one].path for one in objects if one.endswith(".dir")]
        files = [self.objects[one].path for one in objects if not one.endswith(".dir")]
        for paths in ([entry.path for entry in entries], folders, files):
            if paths:
                self._files.remove(paths)
        if self._local:
            for entry in entries:
                with suppress(OSError):  # the folder of the key, if it held no other
                    Path(entry.path).parent.rmdir()

    @property
    def _local(self) -> bool:
        return bool(self._files.protocol == "local")

    def _listed(self, folder: str) -> Iterator[tuple[str, int, float]]:
        """Yield path with `/`, bytes, and time of change of every file below a folder."""
        if self._local:
            for path in Path(folder).rglob("*"):
                about = path.stat()
                if path.is_file():
                    yield path.as_posix(), about.st_size, about.st_mtime
            return
        self._files.fs.invalidate_cache()
        for path, about in self._files.fs.find(folder, detail=True).items():
            changed = about.get("LastModified") or about.get("last_modified") or about.get("mtime")
            if changed is None:
                raise StageFailedError(f"DVC's remote {self.name} does not tell how old objects are.", BAD_INPUT)
            when = changed.timestamp() if isinstance(changed, datetime) else float(changed)
            yield path, int(about.get("size") or 0), when

    def _entry(self, path: str, name: str) -> Entry:
        try:
            told = yaml.safe_load(self.read(path))
            outs, deps = told["outs"], told.get("deps", ())
            return Entry(
                path,
                name,
                tuple(str(out["path"]) for out in outs),
                tuple(str(out["md5"]) for out in outs),
                any(str(dep["path"]).startswith("../") for dep in deps),
            )
        except (yaml.YAMLError, KeyError, TypeError):
            return Entry(path, name, (), ())  # cut short, or of a kind that has no hash: of no use to DVC either


def local_store(repo: Any) -> Store | None:
    """Return the cache of a checkout; None if it lies outside the checkout, and may be shared."""
    root = Path(repo.cache.legacy.path).resolve()
    return Store(repo.cache.local.fs, str(root)) if root.is_relative_to(Path(repo.root_dir).resolve()) else None


def remote_store(repo: Any) -> Store:
    """Return the default remote.

    Raises:
        DvcException: there is none.
    """
    odb = repo.cloud.get_remote_odb(hash_name="md5-dos2unix")
    return Store(odb.fs, odb.path)
