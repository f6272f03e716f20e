"""Read a registered package from MLflow, and find its files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mlflow.entities.model_registry import ModelVersion, RegisteredModel

from plumbline.core.errors import InputError
from plumbline.export.folder import MANIFEST
from plumbline.release.families import verify_package
from plumbline.release.names import CHAMPION

DOWNLOADS = Path(".plumbline/models")
HISTORY = "former_champions"
VERSION_TAG, ROLLED_BACK_TAG = "package_version", "rolled_back"


@dataclass(frozen=True)
class Registered:
    """A package in the registry."""

    number: int
    """The registry's own count, from 1."""
    version: str
    """The package's version: the hash of its content."""
    registered: datetime
    """When it was registered, UTC."""
    champion: bool
    source: str
    """URI of the registry's own copy of the package's files."""
    rolled_back: bool = False
    """It was the champion and was taken back: no run may promote it again by itself."""
    replaced: bool = False
    """It was the champion until a better one came: no run may promote it again by itself either."""


def registered(item: ModelVersion, champion: int | None, former: list[int]) -> Registered:
    """Return the package of a version, for a model with this champion and these former ones."""
    number = int(item.version)
    created = datetime.fromtimestamp(item.creation_timestamp / 1000, UTC)
    version, rolled_back = str(item.tags.get(VERSION_TAG, "")), bool(item.tags.get(ROLLED_BACK_TAG))
    replaced = number in former and number != champion
    return Registered(number, version, created, number == champion, str(item.source), rolled_back, replaced)


def champion_number(model: RegisteredModel | None) -> int | None:
    """Return the number of a model's champion; None without one."""
    number = model.aliases.get(CHAMPION) if model else None
    return int(number) if number is not None else None


def former_champions(model: RegisteredModel | None) -> list[int]:
    """Return the numbers of a model's champions before the present one, the last at the end."""
    found: list[int] = json.loads(model.tags.get(HISTORY, "[]")) if model else []
    return found


def download_folder(version: str) -> Path:
    """Return the folder for a package's files after download.

    Raises:
        InputError: that is no version of a package. It is a tag, which anybody can write, and could name any folder.
    """
    if not re.fullmatch(r"[0-9a-f]{12,64}", version):
        raise InputError(f"the registry's tag {VERSION_TAG}: {version!r} is no hash. Correct it in MLflow.")
    return DOWNLOADS / version


def package_in(downloaded: Path) -> Path:
    """Return the package in a folder that MLflow has filled."""
    return next(downloaded.rglob(MANIFEST), downloaded / MANIFEST).parent


def is_whole(package: Path) -> bool:
    """Return whether a package has all its files, unchanged since its release."""
    try:
        verify_package(package)
    except InputError:
        return False
    return True


def figures(metrics: Any, prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers in nested mappings, each under its keys joined by dots."""
    if isinstance(metrics, Mapping):
        for key, value in metrics.items():
            yield from figures(value, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(metrics, int | float) and not isinstance(metrics, bool):
        yield prefix, float(metrics)
