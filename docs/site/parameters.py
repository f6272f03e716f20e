"""Write the pages of all parameters from the typed sections: an index, and a page for each
section of a file."""

from __future__ import annotations

import ast
import inspect
import itertools
import posixpath
import textwrap
import typing
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from links import slug
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from tables import in_words, plain, row

from plumbline.params.fields import RestorationParams
from plumbline.params.load import Params
from plumbline.params.section import Section

UNITS = (
    ("_mm_yr", "mm/year"),
    ("_mm_m", "mm/m"),
    ("_permille", "permille"),
    ("_mm", "mm"),
    ("_m", "m"),
    ("_deg", "degrees"),
    ("_years", "years"),
    ("years", "years"),
    ("_days", "days"),
    ("days", "days"),
    ("_hours", "hours"),
    ("_minutes", "minutes"),
    ("_seconds", "s"),
    ("_s", "s"),
    ("_mib", "MiB"),
    ("_mb", "MB"),
    ("_db", "dB"),
)
"""End of a parameter's name, and the unit that it stands for."""
INDEX = "reference/params/index.md"
_ABOUT = """# Parameters

A page for each section of `params.yaml`, made from `src/plumbline/params`. A key without a
default must be given. Unknown keys and values out of range are refused, with what is allowed.

| section | of | holds |
|---|---|---|"""
FAMILIES: Mapping[str, tuple[type[Section], str]] = {
    "diagnosis": (Params, ""),
    "restoration": (RestorationParams, "restoration/"),
}
"""Of each family: the class of its file, and the folder of its pages below that of the index."""


class _Spot(NamedTuple):
    """Where a section stands: its family, and its path in the file."""

    family: str
    path: str

    @property
    def top(self) -> str:
        return self.path.partition(".")[0] or "file"

    @property
    def page(self) -> str:
        return posixpath.join(posixpath.dirname(INDEX), FAMILIES[self.family][1], f"{self.top}.md")

    @property
    def heading(self) -> str:
        return self.path if "." in self.path else f"Parameters: {self.top} ({self.family})"


def params_pages() -> dict[str, str]:
    """Return the text of each page by its path."""
    spots = [
        (_Spot(family, path), kind)
        for family, (file, _) in FAMILIES.items()
        for path, kind in sections(file)
    ]
    homes: dict[type[Section], _Spot] = {}
    for spot, section in sorted(spots, key=lambda one: one[0].path.count(".")):
        homes.setdefault(section, spot)
    pages: dict[str, list[str]] = {INDEX: [_ABOUT]}
    for spot, section in spots:
        if spot.page not in pages:
            pages[INDEX].append(_entry(spot, section))
        mark = "##" if spot.page in pages else "#"
        body = _table(section) if homes[section] == spot else _again(spot.page, homes[section])
        pages.setdefault(spot.page, []).extend([f"{mark} {spot.heading}", "", *body])
    return {place: "\n".join([*lines, ""]) for place, lines in pages.items()}


def _entry(spot: _Spot, section: type[Section]) -> str:
    """Return the row of the index for a page."""
    return (
        f"| [`{spot.top}`]({_link(INDEX, spot.page)}) | {spot.family} | "
        f"{plain(inspect.getdoc(section))} |"
    )


def _again(page: str, home: _Spot) -> list[str]:
    """Return the line that leads to where the same class is shown."""
    return [
        f"The same keys as [{home.heading}]({_link(page, home.page)}#{slug(home.heading)}).",
        "",
    ]


def _link(page: str, target: str) -> str:
    return posixpath.relpath(target, posixpath.dirname(page))


def _table(section: type[Section]) -> list[str]:
    """Return what a section is for, and a row for each key."""
    about, told = inspect.getdoc(section), _told(section)
    lines = [plain(about), ""] if about else []
    lines += ["| key | type | range | default | unit | meaning |", "|---|---|---|---|---|---|"]
    for name, field in section.model_fields.items():
        key = field.alias or name
        unit = next((unit for end, unit in UNITS if key.endswith(end)), "")
        lines.append(
            row(
                f"`{key}`",
                in_words(field.annotation),
                _range(field),
                _default(field),
                unit,
                told.get(name, ""),
            )
        )
    return [*lines, ""]


def sections(whole: type[Section], path: str = "") -> Iterator[tuple[str, type[Section]]]:
    """Yield path and class of each section of a file, the file itself first; NAME stands
    for keys that users choose."""
    own = any(not _sections_of(field.annotation) for field in whole.model_fields.values())
    if own or path:
        yield path, whole
    for name, field in whole.model_fields.items():
        for kind in _sections_of(field.annotation):
            origin = typing.get_origin(field.annotation)
            below = f"{path}.{field.alias or name}".lstrip(".") + {dict: ".NAME", list: "[]"}.get(
                origin, ""
            )
            yield from sections(kind, below)


def _sections_of(kind: Any) -> list[type[Section]]:
    if isinstance(kind, type) and issubclass(kind, Section):
        return [kind]
    return [one for part in typing.get_args(kind) for one in _sections_of(part)]


def _told(section: type[Section]) -> dict[str, str]:
    """Return the text below each field of a class, those of its bases first."""
    told: dict[str, str] = {}
    for base in reversed(section.__mro__):
        if not (issubclass(base, Section) and base is not Section):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        body = typing.cast(ast.ClassDef, tree).body
        for field, text in itertools.pairwise(body):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and _is_text(text)
            ):
                told[field.target.id] = typing.cast(Any, text).value.value
    return told


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _range(field: FieldInfo) -> str:
    """Return the bounds in words, also those of an optional number's own type."""
    said = []
    inner = [
        m for part in typing.get_args(field.annotation) for m in getattr(part, "__metadata__", ())
    ]
    for one in [*field.metadata, *inner]:
        for bound in [*getattr(one, "metadata", []), one]:
            for key, word in (
                ("ge", "≥"),
                ("gt", ">"),
                ("le", "≤"),
                ("lt", "<"),
                ("multiple_of", "multiple of"),
            ):
                if getattr(bound, key, None) is not None:
                    said.append(f"{word} {getattr(bound, key):,}".replace(",", " "))
            for key, word in (("min_length", "at least"), ("max_length", "at most")):
                if getattr(bound, key, None) is not None:
                    said.append(f"{word} {getattr(bound, key)} long")
            if getattr(bound, "pattern", None):
                said.append(f"`{bound.pattern}`")
    return ", ".join(dict.fromkeys(said))


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return ""
    if isinstance(value, Section):
        return "its own"
    return (
        "`null`"
        if value is None
        else f"`{str(value).lower() if isinstance(value, bool) else value}`"
    )
