"""Read for whom a report is made, and who made it."""

from __future__ import annotations

from pathlib import Path

from pydantic import ConfigDict

from plumbline.core.errors import InputError
from plumbline.params.load import read_yaml, validated
from plumbline.params.section import Section


class About(Section):
    """Texts for the first page of a report; an empty one is left out."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    project: str = ""
    client: str = ""
    author: str = ""
    address: str = ""


NO_ABOUT = About()


def read_about(path: Path) -> About:
    """Read a YAML file with some of the keys `project`, `client`, `author` and `address`.

    Raises:
        InputError: it is missing, not YAML, or has another key or a value that is no text.
    """
    if not path.is_file():
        raise InputError(f"--about {path}: no such file. Give a YAML file with {', '.join(About.model_fields)}.")
    return validated(About, read_yaml(path), str(path))
