"""Define what several commands share: data folder, options, and printing of tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from typer.core import TyperCommand, TyperOption
from typer.models import CommandFunctionType

from plumbline.core.console import console
from plumbline.core.errors import InputError
from plumbline.params import FORMATS, Ingest, load_ingest

if TYPE_CHECKING:
    from plumbline.sources.city.in_memory import Reading

DATA = Path("data")
PARAMS = Path("params.yaml")
LEAST_WIDTH = 80
"""Columns that a table gets at least where it is not printed on a terminal."""

ParamsOption = Annotated[Path, typer.Option("--params", help="Parameters file.", metavar="FILE")]
RARE = "More options"
"""Heading in `--help` of what few people need, below the rest."""
POINTS = "FILE|FOLDER|PATTERN"
PointsOption = Annotated[
    list[Path],
    typer.Option(
        "--points",
        metavar=POINTS,
        help="Point products of any known format, each one track: files, a folder with them, or a quoted pattern as "
        "'EGMS_*.zip'. Several may follow, and the option may be repeated.",
    ),
]
BuildingsOption = Annotated[
    Path, typer.Option("--buildings", help="Footprints: any vector file with polygons and a CRS.")
]
IdColumnOption = Annotated[
    str | None,
    typer.Option(
        "--id-column", metavar="NAME", help="Column of the footprints that identifies a building; else building_id."
    ),
]
LayerOption = Annotated[
    str | None,
    typer.Option(
        "--layer", metavar="NAME", help="Layer of the footprints' file, where it has several.", rich_help_panel=RARE
    ),
]
PackageOption = Annotated[
    str, typer.Option("--model", help="`pretrained` (comes with Plumbline), `champion`, or the folder of a package.")
]
AdapterOption = Annotated[
    str | None,
    typer.Option(help="Name of an adapter of that model, see `plumbline adapters list`.", rich_help_panel=RARE),
]
PackageArgument = Annotated[
    str,
    typer.Argument(
        metavar="PACKAGE", help="`pretrained` (comes with Plumbline), `champion`, or the folder of a package."
    ),
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        help=f"Read the points as one of {', '.join(FORMATS)}; else the content decides.",
        rich_help_panel=RARE,
    ),
]
ProductsOption = Annotated[
    Path | None,
    typer.Option(
        "--params",
        help="Parameters file: section ingest, what the files do not say and which points to leave out.",
        rich_help_panel=RARE,
    ),
]
SureOption = Annotated[
    float | None,
    typer.Option(
        "--min-quadrant-confidence",
        min=0,
        max=1,
        rich_help_panel=RARE,
        help="Judge a building where, if it is damaged, its quadrant is right with this probability at least; the less "
        "probable damage is, the less is asked. 0: judge all. Else as the model's package says.",
    ),
]
RateOption = Annotated[
    str,
    typer.Option(
        "--damage-rate",
        metavar="RATE|auto",
        help="Share of the buildings that are damaged, as 0.02 for 2 %; auto: estimate it from all answers.",
    ),
]
RateByOption = Annotated[
    Literal["city", "place"],
    typer.Option(
        "--damage-rate-by",
        rich_help_panel=RARE,
        help="city: one estimated share for all buildings; place: where damage gathers, the neighbours tell a share.",
    ),
]
CausesOption = Annotated[
    Path | None,
    typer.Option(
        "--causes",
        metavar="FILE",
        rich_help_panel=RARE,
        help="What may have caused damage (tunnels, excavations, wells): lines, polygons or points. Near to it, the "
        "share of damaged buildings is another. See docs/causes.md.",
    ),
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="DATE", help="Leave out the epochs before this day, as 2022-01-31.", rich_help_panel=RARE
    ),
]
UntilOption = Annotated[
    str | None,
    typer.Option(
        "--until", metavar="DATE", help="Leave out the epochs after this day, as 2024-06-30.", rich_help_panel=RARE
    ),
]
VerifyKeyOption = Annotated[
    Path | None,
    typer.Option(
        "--verify-key",
        metavar="PUBLIC.pem",
        help="Public key: refuse a package that is not signed with it, or was altered since. See docs/trust.md.",
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


def reading_of(
    params: Path | None,
    format_: str | None,
    id_column: str | None = None,
    layer: str | None = None,
    since: str | None = None,
    until: str | None = None,
) -> Reading:
    """Return how files are read: what a params file and the options say of them.

    Raises:
        InputError: the params file is refused, or `since` and `until` are no window.
    """
    from plumbline.sources.city.in_memory import Reading
    from plumbline.sources.city.window import parse_window

    window = parse_window(since, until)
    return Reading(load_ingest(params) if params else Ingest(), format_, id_column, layer, window)


class OnceCommand(TyperCommand):
    """A command that refuses an option given twice, where it takes one value: click would drop the first."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments.

        Raises:
            InputError: names the option.
        """
        given: list[Any] = self.make_parser(ctx).parse_args(args=list(args))[2]
        for one in given:
            if isinstance(one, TyperOption) and not (one.multiple or one.is_flag) and given.count(one) > 1:
                raise InputError(f"{max(one.opts, key=len)} is given {given.count(one)} times, and takes one value.")
        return super().parse_args(ctx, args)


class Commands(typer.Typer):
    """A group of commands that refuse an option given twice."""

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = OnceCommand, **about: Any
    ) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """Make a command of a function, see `typer.Typer.command`."""
        return super().command(name, cls=cls, **about)


class PointsCommand(OnceCommand):
    """A command with a `--points` option that takes several words, as a shell expands `EGMS_*.zip`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments after repeating `--points` before each of its values."""
        return super().parse_args(ctx, repeated(args))


def repeated(words: Sequence[str], option: str = "--points") -> list[str]:
    """Return the words of a command line with `option` before each value that follows it.

    Args:
        words: after the command.
        option: which.
    """
    result: list[str] = []
    number = 0
    while number < len(words):
        word = words[number]
        number += 1
        result.append(word)
        if word == option and number < len(words):
            result.append(words[number])
            number += 1
        elif not word.startswith(f"{option}="):
            continue
        end = next((place for place in range(number, len(words)) if _is_option(words[place])), len(words))
        for value in words[number:end]:
            result += [option, value]
        number = end
    return result


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def print_table(table: Table, least_width: int = LEAST_WIDTH) -> None:
    """Print to standard output, at least `least_width` wide where it is no terminal, so that nothing is cut."""
    used = console if console.is_terminal else Console(width=max(console.width, least_width))
    with used.capture() as capture:
        used.print(table)
    typer.echo(capture.get(), nl=False)


def on_all_devices(options: Any) -> None:
    """Start one process per device, if several are set; the rest of the command runs in each of them."""
    if options.devices > 1 or options.nodes > 1:
        from plumbline.train.distributed.launch import one_process_a_device

        one_process_a_device(options)
