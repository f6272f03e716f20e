"""Reader of any csv of points whose columns `params.yaml` describes: what is what, in which unit, of which sign."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from plumbline import params
from plumbline.errors import InputError
from plumbline.sources.archive import Product
from plumbline.sources.epochs import check_pattern, find_days
from plumbline.sources.layout import Angles, Layout
from plumbline.sources.product import PointSource
from plumbline.sources.project import GLOBE, is_globe
from plumbline.sources.table import MAX_HEADER_BYTES, read_header
from plumbline.sources.tabular import open_csv

TO_MM = {"mm": 1.0, "cm": 10.0, "m": 1000.0}
SEPARATORS = {",": b",", ";": b";", "tab": b"\t"}


@dataclass(frozen=True)
class Delimited(Product):
    """A csv with other signs between cells and before decimals, read as if it had commas and points."""

    separator: bytes = b","
    decimal: bytes = b"."

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """As `Product.open`; signs are exchanged byte by byte, so that places in the file stay what they are.

        Raises:
            InputError: as `Product.open`.
        """
        with super().open() as stream:
            if (self.separator, self.decimal) == (b",", b"."):
                yield stream
                return
            # A comma that is neither becomes what the separator was: no cell is lost, and a number with one is refused.
            old, new = self.separator + b",", b"," + (b"." if self.decimal == b"," else self.separator)
            yield io.BufferedReader(_Exchanged(stream, bytes.maketrans(old, new)))


class _Exchanged(io.RawIOBase):
    def __init__(self, stream: IO[bytes], table: bytes) -> None:
        self._stream, self._table = stream, table

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._stream.seekable()

    def tell(self) -> int:
        return self._stream.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._stream.read(len(buffer)).translate(self._table)
        buffer[: len(data)] = data
        return len(data)


def described(product: Product, about: params.Product) -> Product:
    """The csv with the separator and the decimal sign that `about` states.

    Raises:
        InputError: the first line has no such separator.
    """
    separator = SEPARATORS[about.separator]
    with product.open() as stream:
        line = stream.readline(MAX_HEADER_BYTES)
    if separator not in line:
        raise InputError(
            f"{product}, line 1: no {about.separator!r} in it, which params.yaml says is between cells; it begins "
            f"{line[:80].decode('utf-8', 'replace').strip()!r}. Set separator in ingest.products."
        )
    place = (product.path, product.member, product.start, product.end)
    return Delimited(*place, separator=separator, decimal=about.decimal.encode())


def open_columns(product: Product, about: params.Product, crs: str | None) -> PointSource:
    """Open a csv by the description of its columns, `about`.

    Raises:
        InputError: `about` has no columns, or a pattern of epochs that says no day; a column is missing, too few are
            named as epochs; what concerns rows, where reading gets to them.
    """
    if about.units is None or about.epochs is None:
        raise InputError(
            f"{product}: to be read as a table of columns, params.yaml must say what they are: ingest.products, with "
            "columns, units, positive and epochs (docs/formats.md)."
        )
    table = described(product, about)
    header = read_header(table)
    has = about.columns
    globe = "latitude" in has
    crs_of_file = about.crs or GLOBE
    if is_globe(str(product), crs_of_file) != globe:
        wanted = "latitude and longitude" if globe else "easting and northing"
        raise InputError(f"{product}: crs {crs_of_file} in params.yaml is not one of {wanted}. Correct one of the two.")
    known = set(has.values())
    days = find_days(
        str(product), [name for name in header if name not in known], check_pattern(str(product), about.epochs)
    )
    millimetres = TO_MM[about.units.displacement]
    layout = Layout(
        days=days,
        x=has["longitude" if globe else "easting"],
        y=has["latitude" if globe else "northing"],
        crs=crs_of_file,
        to_mm=millimetres if about.positive == "towards" else -millimetres,
        los=_line_of_sight(about),
        point_id=has.get("point_id"),
        height=has.get("height"),
        coherence=has.get("coherence"),
        rmse=has.get("rmse"),
        rmse_to_mm=millimetres,
    )
    return open_csv(table, header, layout, about.track or product.path.stem, crs)


def _line_of_sight(about: params.Product) -> tuple[str, str, str] | Angles:
    has = about.columns
    if "los_up" in has:
        return has["los_east"], has["los_north"], has["los_up"]
    incidence, heading = has.get("incidence", about.incidence_deg), has.get("heading", about.heading_deg)
    if incidence is None or heading is None:
        raise InputError("ingest.products: an incidence and a heading are needed.")
    return Angles(incidence, heading)
