"""Read for whom a report is made, and who made it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field

from plumbline.core.errors import InputError
from plumbline.params.load import read_yaml, validated
from plumbline.params.section import Section

MAX_LETTERS = 120
"""Most letters of a text: the report would shorten a longer one, see `words.plain`."""
Text = Annotated[str, Field(max_length=MAX_LETTERS)]


class ReportTexts(Section):
    """Texts for the first page of a report; an empty one is left out. Keys of a file, and
    fields of the HTTP form."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    project: Text = Field(
        default="", description="title of the report; else the name of the footprints' file."
    )
    client: Text = Field(default="", description="for whom the report is.")
    author: Text = Field(default="", description="who makes the report.")
    address: Text = Field(
        default="", description="address of the author; it may have several lines."
    )


NO_TEXTS = ReportTexts()


def read_about(path: Path) -> ReportTexts:
    """Read a YAML file with some of the keys `project`, `client`, `author` and `address`.

    Raises:
        InputError: it is missing, not YAML, or has another key, or a value that is no text
            or too long.
    """
    if not path.is_file():
        raise InputError(
            f"--about {path}: no such file. Give a YAML file with "
            f"{', '.join(ReportTexts.model_fields)}.",
            key="file.missing",
        )
    return validated(ReportTexts, read_yaml(path), str(path))
