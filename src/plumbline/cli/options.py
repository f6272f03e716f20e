"""Define what several commands share: data folder, options, and printing of tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from rich.console import Console
from rich.table import Table
from typer.core import TyperCommand, TyperOption
from typer.models import CommandFunctionType, OptionInfo

from plumbline.core.console import console
from plumbline.core.errors import InputError

DATA = Path("data")
PARAMS = Path("params.yaml")
MIN_WIDTH = 80
"""Smallest width, in characters, of a table that is not printed on a terminal."""

ParamsOption = Annotated[Path, typer.Option("--params", help="Parameters file.", metavar="FILE")]
RARE = "More options"
"""Heading in `--help` of what few people need, below the rest."""
POINTS = "FILE|FOLDER|PATTERN"
PointsOption = Annotated[
    list[Path],
    typer.Option(
        "--points",
        metavar=POINTS,
        help="Point products of any known format, each one track: files, a folder with them, or "
        "a quoted pattern as "
        "'EGMS_*.zip'. Several may follow, and the option may be repeated.",
    ),
]
BuildingsOption = Annotated[
    Path, typer.Option("--buildings", help="Footprints: any vector file with polygons and a CRS.")
]
PackageOption = Annotated[
    str,
    typer.Option(
        "--model",
        help="`pretrained` (comes with Plumbline), `champion`, or the folder of a package.",
    ),
]
PackageArgument = Annotated[
    str,
    typer.Argument(
        metavar="PACKAGE",
        help="`pretrained` (comes with Plumbline), `champion`, or the folder of a package.",
    ),
]
ProductsOption = Annotated[
    Path | None,
    typer.Option(
        "--params",
        help="Parameters file: section ingest, what the files do not say and which points to "
        "leave out.",
        rich_help_panel=RARE,
    ),
]
VerifyKeyOption = Annotated[
    Path | None,
    typer.Option(
        "--verify-key",
        metavar="PUBLIC.pem",
        help="Public key: refuse a package that is not signed with it, or was altered since. See "
        "docs/trust.md.",
        rich_help_panel=RARE,
    ),
]
SignKeyOption = Annotated[
    Path | None,
    typer.Option(
        "--sign-key",
        metavar="KEY.pem",
        help="Private key: sign the registry's copy of the package with it. See docs/trust.md.",
        rich_help_panel=RARE,
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        help="Processes; by default one for each core. The result is the same.",
        rich_help_panel=RARE,
    ),
]


USUAL = {
    "id_column",
    "damage_rate",
    "host",
    "port",
    "model",
    "restoration_model",
    "folder",
    "processes",
    "jobs",
    "score_folder",
    "log_format",
}
"""Fields whose options stand above `RARE`."""
METAVARS = {
    "basemap": "URL",
    "score_folder": "FOLDER",
    "verify_key": "PUBLIC.pem",
    "format": "FORMAT",
    "id_column": "NAME",
    "layer": "NAME",
    "since": "DATE",
    "until": "DATE",
    "damage_rate": "RATE|auto",
}
BOUNDS = {"ge": "min", "le": "max"}
"""Bound of a field -> argument of `typer.Option`."""


class Without(frozenset[str]):
    """Names of the fields that a command leaves as they are by default: `Annotated[MODEL,
    Without({"since"})]`."""


def _option(name: str, field: FieldInfo) -> Any:
    """Return the command-line option of a field: the one in its annotation, or one made from it."""
    option = next(
        (note for note in field.metadata if isinstance(note, OptionInfo)), None
    ) or typer.Option(
        f"--{name.replace('_', '-')}",
        help=field.description,
        metavar=METAVARS.get(name),
        rich_help_panel=None if name in USUAL else RARE,
        **{
            BOUNDS[bound]: getattr(note, bound)
            for note in field.metadata
            for bound in BOUNDS
            if hasattr(note, bound)
        },
    )
    default = Parameter.empty if field.is_required() else field.default
    return Parameter(
        name,
        Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[field.annotation, option],
    )


def with_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command with the fields of each model among a function's arguments as options.

    Args:
        function: with arguments annotated by a pydantic model, perhaps `Without` some of
            its fields.
    """
    unchanged: list[Parameter] = []
    models: dict[str, tuple[type[BaseModel], list[Parameter]]] = {}
    for parameter in signature(function, eval_str=True).parameters.values():
        kind, *notes = get_args(parameter.annotation) or (parameter.annotation,)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            left_out = next((note for note in notes if isinstance(note, Without)), ())
            options = [
                _option(name, field)
                for name, field in kind.model_fields.items()
                if name not in left_out
            ]
            models[parameter.name] = kind, options
        else:
            unchanged.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))

    @wraps(function)
    def command(**values: Any) -> Any:
        for name, (kind, options) in models.items():
            # The command line has checked them.
            values[name] = kind.model_construct(
                **{option.name: values.pop(option.name) for option in options}
            )
        return function(**values)

    added = [option for _, options in models.values() for option in options]
    required = [option for option in added if option.default is Parameter.empty]
    parameters = [*required, *unchanged, *(o for o in added if o not in required)]
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return command


class OnceCommand(TyperCommand):
    """A command that refuses an option given twice, where it takes one value: click would
    drop the first."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments.

        Raises:
            InputError: names the option.
        """
        single = [
            option
            for option in self.make_parser(ctx).parse_args(args=list(args))[2]
            if isinstance(option, TyperOption) and not (option.multiple or option.is_flag)
        ]
        for option in single:
            if (count := single.count(option)) > 1:
                raise InputError(
                    f"{max(option.opts, key=len)} is given {count} times, and takes one value.",
                    key="option.given_twice",
                )
        return super().parse_args(ctx, args)


class Commands(typer.Typer):
    """A group of commands that refuse an option given twice."""

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = OnceCommand, **about: Any
    ) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """Make a command of a function, see `typer.Typer.command` and `with_options`."""
        make = super().command(name, cls=cls, **about)

        def decorate(function: CommandFunctionType) -> CommandFunctionType:
            make(with_options(function))
            return function

        return decorate


class PointsCommand(OnceCommand):
    """A command with a `--points` option that takes several words, as a shell expands
    `EGMS_*.zip`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments after repeating `--points` before each of its values."""
        return super().parse_args(ctx, repeated(args))


def repeated(words: Sequence[str], option: str = "--points") -> list[str]:
    """Return the words of a command line with `option` before each value that follows it.

    Args:
        words: after the command.
        option: its name.
    """
    repeated_words: list[str] = []
    before, takes_values = "", False
    for word in words:
        if word.startswith("-") and word != "-":
            takes_values = word.partition("=")[0] == option
        elif takes_values and before != option:
            repeated_words.append(option)
        repeated_words.append(word)
        before = word
    return repeated_words


def print_table(table: Table, min_width: int = MIN_WIDTH) -> None:
    """Print to standard output, at least `min_width` wide where it is no terminal, so that
    nothing is cut."""
    target = console if console.is_terminal else Console(width=max(console.width, min_width))
    with target.capture() as capture:
        target.print(table)
    typer.echo(capture.get(), nl=False)


def on_all_devices(options: Any) -> None:
    """Start one process per device, if several are set; the rest of the command runs in
    each of them."""
    if options.devices > 1 or options.nodes > 1:
        from plumbline.train.distributed.launch import one_process_a_device

        one_process_a_device(options)
