"""Define what the commands share that judge the buildings of a user's city."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from plumbline.cli.options import (
    RARE,
    BuildingsOption,
    PackageOption,
    PointsOption,
    ProductsOption,
    VerifyKeyOption,
)
from plumbline.core.errors import InputError
from plumbline.core.extras import need
from plumbline.params import JudgingOptions

if TYPE_CHECKING:
    from plumbline.serve.request import Request


class Judging(JudgingOptions):
    """A city, the model that judges it, and how."""

    points: PointsOption
    buildings: BuildingsOption
    model: PackageOption = "pretrained"
    causes: Annotated[
        Path | None,
        typer.Option(
            "--causes",
            metavar="FILE",
            rich_help_panel=RARE,
            help="What may have caused damage (tunnels, excavations, wells): lines, polygons or "
            "points. Near to it, "
            "the share of damaged buildings is another. See docs/causes.md.",
        ),
    ] = None
    adapter: Annotated[
        str | None,
        typer.Option(
            help="Name of an adapter of that model, see `plumbline adapters list`.",
            rich_help_panel=RARE,
        ),
    ] = None
    verify_key: VerifyKeyOption = None
    params: ProductsOption = None

    @contextmanager
    def request(self) -> Iterator[Request]:
        """Yield what is judged, with the folder of the package; of an adapted model a
        temporary one.

        Raises:
            InputError: an option or the package is refused.
        """
        from plumbline.release.resolve import resolve_model
        from plumbline.serve.options import make_options
        from plumbline.serve.request import Request
        from plumbline.sources.city.files import point_files

        options, points = make_options(self, self.params, self.causes), point_files(self.points)
        if self.adapter is None:
            package = resolve_model(self.model, verify_key=self.verify_key)
            yield Request(points, self.buildings, package, options)
            return
        if self.verify_key is not None:
            raise InputError(
                f"--adapter {self.adapter} with --verify-key: an adapter changes the model and "
                "has no signature. "
                "Merge it (`plumbline adapters merge`), package the result and sign that, or "
                "leave one of the two out.",
                key="option.adapter_with_verify_key",
            )
        need("torch", "--adapter")
        from plumbline.serve.adapt import merge

        with TemporaryDirectory() as folder:
            package = Path(folder) / self.adapter
            merge(self.adapter, self.model, package)
            yield Request(points, self.buildings, package, options)
