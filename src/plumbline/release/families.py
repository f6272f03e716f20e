"""Read the facts of a package that the registry needs, in either family."""

from __future__ import annotations

from pathlib import Path

from plumbline.core.errors import InputError
from plumbline.export.folder import PackageManifest, SharedManifest, family_of, verify_folder
from plumbline.export.package import FAMILY
from plumbline.export.package import verify_package as verify_diagnosis

FAMILIES = (FAMILY, "restoration")


def verify_package(folder: Path) -> PackageManifest:
    """Check that a package is complete and unchanged.

    What only another family than diagnosis states in its manifest is read, and checked, where such a package is opened.

    Raises:
        InputError: as `export.folder.verify_folder`; or the family is not known.
    """
    family = family_of(folder)
    if family == FAMILY:
        return verify_diagnosis(folder)
    if family not in FAMILIES:
        raise InputError(f"{folder}: a package of {family}, which is not known. Give one of {' or '.join(FAMILIES)}.")
    return verify_folder(folder, SharedManifest)
