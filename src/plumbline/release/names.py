"""Define the names of a released model: its aliases, and the name in a project's parameters."""

from __future__ import annotations

from pathlib import Path

from plumbline.params import Package, load_section

CHAMPION = "champion"
"""The released one; its alias in the registry, too."""
CHALLENGER = "challenger"
"""Alias of a version whose answers are recorded beside the champion's; see `serve.score.shadow`."""
DEFAULT_NAME = "plumbline"
"""Of the registered model, where nobody gives another."""
RESTORATION_NAME = "plumbline-restoration"
"""The same of packages of fields."""
PARAMS = Path("params.yaml")


def name_here() -> str:
    """Return the name of the project's model in the working directory: `package.name` of its params.yaml.

    Raises:
        InputError: that file cannot be read, or its section `package` is wrong.
    """
    section = load_section(PARAMS, "package", Package) if PARAMS.is_file() else None
    return (section or Package()).name
