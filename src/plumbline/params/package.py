"""Define section `package`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from plumbline.params.section import Section


class Package(Section):
    """The released package."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")] = "plumbline"
