"""Read the facts of a package that the registry needs, in either family."""

from __future__ import annotations

from pathlib import Path

from plumbline.export import package as diagnosis
from plumbline.export.folder import PackageManifest, family_of
from plumbline.export.restoration import package as restoration


def verify_package(folder: Path) -> PackageManifest:
    """Check that a package is complete and unchanged.

    Raises:
        InputError: as `export.folder.verify_folder`.
    """
    if family_of(folder) == restoration.FAMILY:
        return restoration.verify_fields(folder)
    return diagnosis.verify_package(folder)
