"""Ask for facts that a product's file lacks: one message lists all that a parameters file must state."""

from __future__ import annotations

from collections.abc import Iterable

from plumbline import params
from plumbline.core.errors import InputError
from plumbline.sources.files.archive import CsvFile
from plumbline.sources.points.reader_base import Angles

ANGLES = ("incidence_deg", "heading_deg")
QUESTIONS = {
    "incidence_deg": (
        "from where the satellite looked",
        "30.0",
        "incidence_deg is the angle from the vertical and heading_deg the direction of flight, clockwise from north, "
        "in degrees",
    ),
    "heading_deg": ("", "350.0", ""),
    "crs": ("which CRS its coordinates are in", "EPSG:NUMBER", "crs is that of its coordinates"),
    "units": ("the unit of its displacements", "{displacement: UNIT}", "UNIT is mm, cm or m"),
    "positive": (
        "the sign of its displacements",
        "SIGN",
        "SIGN is towards, if a positive displacement is motion towards the satellite, else away",
    ),
}
"""Key of `ingest.products` -> what the file does not say, what to write, and what that means."""


def stated_angles(product: CsvFile, about: params.Product) -> Angles:
    """Return the viewing angles that the file lacks, from its description, in degrees.

    Raises:
        InputError: they are not stated; the message says what to write where.
    """
    if about.incidence_deg is None or about.heading_deg is None:
        raise unanswered(product, ANGLES)
    return Angles(about.incidence_deg, about.heading_deg, about.look)


def unanswered(product: CsvFile, keys: Iterable[str]) -> InputError:
    """Make the error that asks for several keys of `ingest.products` at once.

    Args:
        product: the file.
        keys: those of `QUESTIONS` that its format needs and nobody has stated.
    """
    asked = [QUESTIONS[key] for key in keys]
    lacks = [what for what, _, _ in asked if what]
    listed = ", ".join(lacks[:-1]) + (" and " if lacks[:-1] else "") + lacks[-1]
    stated = ", ".join(f"{key}: {example}" for key, (_, example, _) in zip(keys, asked, strict=True))
    meant = "; ".join(meaning for _, _, meaning in asked if meaning)
    return InputError(
        f"{product}: the file does not say {listed}. Write these lines into {params.PARAMS_FILE}. Put in your values: "
        f"{meant}.\n"
        "ingest:\n"
        "  products:\n"
        f"    {product.path.name!r}: {{{stated}}}  # yours"
    )
