"""Read a params file of either family, and name every wrong key."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import Any, TypeVar, cast

import yaml
from pydantic import Field, ValidationError

from plumbline.core.errors import InputError
from plumbline.params.compress import Compress, Export
from plumbline.params.fields import RestorationParams
from plumbline.params.ingest import Ingest
from plumbline.params.prepare import Prepare
from plumbline.params.section import Section
from plumbline.params.serve import Adapt, Score, Tidy
from plumbline.params.simulate import Simulate
from plumbline.params.train import Model, Train
from plumbline.params.validate import Gates, Package, Validate

AnySection = TypeVar("AnySection", bound=Section)
KEYS = {"extra_forbidden": "params.unknown_key", "missing": "params.missing_key"}
"""Keys of errors by pydantic's types. A check of a section has its own; all others are
`params.bad_value`."""
FAMILY = "family"
"""Key of a params file that says of what family of models it is; diagnosis without it."""


class Params(Section):
    """The whole file."""

    simulate: Simulate
    ingest: Ingest
    prepare: Prepare
    model: Model
    train: Train
    adapt: Adapt = Adapt()
    compress: Compress
    export: Export
    validate_: Validate = Field(alias="validate")
    gate: Gates
    package: Package
    score: Score = Score()
    tidy: Tidy = Tidy()


def load_params(path: Path = Path("params.yaml")) -> Params:
    """Read and check `params.yaml`.

    Raises:
        InputError: the file is missing, is not YAML, or a key is unknown, missing, of the
            wrong type or out of range; the message names every such key, what was found and
            what is allowed.
    """
    return parse_params(read_yaml(path), str(path))


def load_ingest(path: Path) -> Ingest:
    """Read section `ingest` of a params file; the file may lack all other sections.

    Raises:
        InputError: the file is missing, is not YAML, has a key that is no section, or its
            section `ingest` is wrong.
    """
    return load_section(path, "ingest", Ingest) or Ingest()


def is_partial(path: Path) -> bool:
    """Return whether a params file lacks sections that the pipeline needs, as a file made
    for `--params` does.

    Raises:
        InputError: it is missing or not YAML.
    """
    content = read_yaml(path)
    needed = {
        field.alias or name for name, field in Params.model_fields.items() if field.is_required()
    }
    return isinstance(content, dict) and bool(content) and not needed <= content.keys()


def check_sections(path: Path) -> None:
    """Check the sections that a params file holds; it may lack others.

    Raises:
        InputError: as `load_section`, for the first section that is wrong.
    """
    for name, field in Params.model_fields.items():
        load_section(path, field.alias or name, cast(type[Section], field.annotation))


def load_section(path: Path, name: str, kind: type[AnySection]) -> AnySection | None:
    """Read one section of a params file; None if the file lacks it.

    Raises:
        InputError: the file is missing, is not YAML, has a key that is no section, or the
            section is wrong.
    """
    content = read_yaml(path)
    content = {} if content is None else content
    sections = {field.alias or name for name, field in Params.model_fields.items()} | {FAMILY}
    unknown = (
        sorted(map(str, set(content) - sections)) if isinstance(content, dict) else ["its content"]
    )
    if unknown:
        raise InputError(
            f"{path}: {', '.join(unknown[:5])}: no section of a params file. What product files "
            "do not contain is set "
            "under ingest, products (docs/formats.md).",
            key="params.unknown_section",
        )
    section = content.get(name)
    if section is None:
        return None
    try:
        return kind.model_validate(section)
    except ValidationError as error:
        raise _refusal(error, str(path), name) from None


def parse_params(content: Any, source: str = "params.yaml") -> Params:
    """Check the content of a params file; `source` names it in messages.

    Raises:
        InputError: as `load_params`.
    """
    return validated(Params, content, source)


def validated(kind: type[AnySection], content: Any, source: str) -> AnySection:
    """Check the content of a whole params file.

    Raises:
        InputError: a key is unknown, missing, of the wrong type or out of range; the
            message names every such key.
    """
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise _refusal(error, source) from None


LEADING_ZERO = "!leading-zero"
SCALARS = {
    "tag:yaml.org,2002:bool": "true|True|TRUE|false|False|FALSE",
    "tag:yaml.org,2002:int": r"[-+]?(0|[1-9]\d*)|0o[0-7]+|0x[\da-fA-F]+",
    "tag:yaml.org,2002:float": r"[-+]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][-+]?\d+)?|"
    r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
    LEADING_ZERO: r"[-+]?0\d+(\.\d*)?([eE][-+]?\d+)?",
}
"""Tag -> plain scalars that are no text, as in YAML 1.2. In YAML 1.1, yes, no, 12:30 and 2020-01-01
are no text either."""


class _StrictLoader(yaml.SafeLoader):
    """Read YAML 1.2; refuse a key that occurs twice, of which YAML's own loader silently keeps the
    last value, and a number with a leading 0, which YAML 1.1 takes for octal."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag.endswith((":null", ":merge"))]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def refuse_leading_zero(self, node: yaml.ScalarNode) -> None:
        """Refuse a number with a leading 0 by its line."""
        sign, digits = re.fullmatch("([-+]?)0+(.*)", node.value).groups()  # type: ignore[union-attr]
        raise yaml.constructor.ConstructorError(
            None,
            None,
            f"{node.value} begins with 0; write {sign}{digits or 0} for a number, "
            f'"{node.value}" for a name',
            node.start_mark,
        )

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        keys = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in keys:
                    problem = f"{key.value!r} occurs twice; write both values under one key"
                    raise yaml.composer.ComposerError(None, None, problem, key.start_mark)
                keys.add((key.tag, key.value))
        return node


for _tag, _pattern in SCALARS.items():
    _StrictLoader.add_implicit_resolver(_tag, re.compile(f"(?:{_pattern})$"), None)
_StrictLoader.add_constructor(LEADING_ZERO, _StrictLoader.refuse_leading_zero)


def read_yaml(path: Path) -> Any:
    """Read the content of a params file.

    Raises:
        InputError: it is missing or not YAML.
    """
    try:
        content = path.read_bytes()
        # As editors of Windows write it; without a mark at its beginning, only UTF-8 can be told.
        encoding = (
            "utf-16"
            if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            else "utf-8-sig"
        )
        return _StrictLoader(content.decode(encoding)).get_single_data()
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file. Run from the project's root, or give --params FILE.",
            key="file.missing",
        ) from None
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}). Give a parameters file.",
            key="file.unreadable",
        ) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError(
            f"{path}: not readable as YAML (line {line}: text that is not in UTF-8). Save it as "
            "UTF-8.",
            key="yaml.not_utf8",
        ) from None
    except (
        yaml.YAMLError,
        ValueError,
        RecursionError,
    ) as error:
        raise InputError(
            f"{path}: not readable as YAML ({error}).", key="yaml.unreadable"
        ) from None


def _refusal(error: ValidationError, source: str, section: str = "") -> InputError:
    """Return the error that names every wrong parameter; its key is that of the first."""
    items = error.errors()
    kind = items[0]["type"]
    key = KEYS.get(kind, kind if "." in kind else "params.bad_value")
    return InputError("\n".join(f"{source}: {_explain(item, section)}" for item in items), key=key)


def _explain(item: Any, section: str) -> str:
    key = (
        ".".join(str(part) for part in ([section] if section else []) + list(item["loc"]))
        or "the file"
    )
    if item["type"] == "extra_forbidden":
        return f"{key}: unknown key. Remove it, or check its spelling."
    if item["type"] == "missing":
        return f"{key}: missing."
    value = "" if isinstance(item["input"], dict | list) else f"{item['input']!r} found; "
    advice = " Write a name in quotes." if item["type"] == "string_type" and value else ""
    return f"{key}: {value}{item['msg'].removeprefix('Value error, ')}.{advice}"


def load_restoration(path: Path = Path("params.yaml")) -> RestorationParams:
    """Read and check the `params.yaml` of a restoration project.

    Raises:
        InputError: the file is missing, is not YAML, or a key is unknown, missing, of the
            wrong type or out of range; the message names every such key, what was found and
            what is allowed.
    """
    return validated(RestorationParams, read_yaml(path), str(path))
