"""Name models and families, and verify a package of either; needs no MLflow."""

from __future__ import annotations

from pathlib import Path

from plumbline.core.errors import InputError
from plumbline.export.package import (
    FAMILY,
    PackageManifest,
    SharedManifest,
    family_of,
    verify_folder,
)
from plumbline.export.package import verify_package as verify_diagnosis
from plumbline.params import Package, load_section

CHAMPION = "champion"
"""The released one; its alias in the registry, too."""
CHALLENGER = "challenger"
"""Alias of a version whose answers are recorded beside the champion's; see `serve.score.shadow`."""
DEFAULT_NAME = "plumbline"
"""Default name of the registered model."""
RESTORATION_NAME = "plumbline-restoration"
"""Default name of the registered packages of fields."""
PARAMS = Path("params.yaml")


def name_here() -> str:
    """Return the name of the project's model in the working directory: `package.name` of
    its params.yaml.

    Raises:
        InputError: that file cannot be read, or its section `package` is wrong.
    """
    section = load_section(PARAMS, "package", Package) if PARAMS.is_file() else None
    return (section or Package()).name


FAMILIES = (FAMILY, "restoration")


def verify_package(folder: Path) -> PackageManifest:
    """Check that a package is complete and unchanged.

    What only another family than diagnosis states in its manifest is read, and checked,
    where such a package is opened.

    Raises:
        InputError: as `export.folder.verify_folder`; or the family is not known.
    """
    family = family_of(folder)
    if family == FAMILY:
        return verify_diagnosis(folder)
    if family not in FAMILIES:
        raise InputError(
            f"{folder}: a package of {family}, which is not known. Give one of "
            f"{' or '.join(FAMILIES)}.",
            key="package.unknown_family",
        )
    return verify_folder(folder, SharedManifest)
