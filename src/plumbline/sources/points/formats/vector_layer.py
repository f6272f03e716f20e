"""Read points in a Shapefile, GeoPackage, GeoJSON or FlatGeobuf as a csv of their attributes and places."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyogrio
import pyproj
import shapely

from plumbline.core.errors import InputError
from plumbline.sources.crs import is_elsewhere
from plumbline.sources.files.opened import BUFFER_BYTES, ZIP_START, CsvFile, gdal_name, vector_members
from plumbline.sources.footprints.open import READ_FAULTS, first_line_of
from plumbline.sources.points.epochs import cut_days

STARTS = (b"\x00\x00\x27\x0a", b"SQLite format 3\x00", b"fgb\x03", b"{")
"""Of Shapefile, GeoPackage, FlatGeobuf and GeoJSON."""
SUFFIXES = (".shp", ".gpkg", ".fgb", ".geojson")
"""Of such files in a zip."""
TEXTS = (".geojson", ".json")
BATCH = 8192
"""Points turned into text at a time."""
HEIGHT = "geometry_height"
PLACES = {True: ("geometry_longitude", "geometry_latitude"), False: ("geometry_easting", "geometry_northing")}
"""Whether the CRS is of degrees -> names of the columns that the points' places get."""


@dataclass(frozen=True)
class PointLayer(CsvFile):
    """One layer of points; opened, it is a csv of its attributes behind columns of its places."""

    source: str = ""
    """As GDAL names the file."""
    layer: str | None = None
    crs: str | None = None
    """Of the places, as `EPSG:N` where it has a number."""
    places: tuple[str, str] = PLACES[False]
    has_heights: bool = False
    """Whether its points have a third coordinate, which is a column then."""

    @property
    def is_cuttable(self) -> bool:
        """False: a layer cannot be read from any byte on."""
        return False

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the csv, from its header on; it is produced while it is read.

        Raises:
            InputError: unreadable; also from `read` of the stream, where damage shows only there.
        """
        with _opened(self.path, self.source, self.layer, batch_size=BATCH) as (about, batches):
            places = (*self.places, HEIGHT) if self.has_heights else self.places
            stream = _AsCsv(str(self), places, about["geometry_name"], batches, self._count)
            yield io.BufferedReader(stream, BUFFER_BYTES)

    def _count(self) -> int:
        """Return the number of features that the file states; -1 if it does not state it."""
        if PurePosixPath(self.source).suffix.lower() in TEXTS:
            return -1  # it would have to be read once more, and one that is cut is no JSON
        return int(pyogrio.read_info(self.source, layer=self.layer)["features"])


def find_point_layer(path: Path, start: bytes) -> PointLayer | None:
    """Find the layer of points in a file; None if it is not a vector file.

    Args:
        path: the file. start: its first bytes.

    Raises:
        InputError: the file is damaged, or holds several layers of points, or none.
    """
    source = _source(path, start)
    if source is None:
        return None
    try:
        layers = [(str(name), str(kind)) for name, kind in pyogrio.list_layers(source) if kind is not None]
    except READ_FAULTS as error:
        raise InputError(
            f"{path}: not readable as a vector file ({first_line_of(error)}). Download it again."
        ) from None
    kinds = {name: kind.split(" ")[0].removeprefix("2.5D").strip() for name, kind in layers}
    points = [name for name, kind in kinds.items() if kind in ("Point", "Unknown")]
    points = points or [name for name, kind in kinds.items() if kind == "MultiPoint"]
    if len(points) != 1:
        found = ", ".join(f"{name} ({kind})" for name, kind in layers) or "none"
        several = " `ogr2ogr OUT.gpkg IN LAYER` writes one of them." if len(points) > 1 else ""
        raise InputError(f"{path}: one layer of points is needed. Its layers: {found}.{several}")
    with _opened(path, source, points[0], batch_size=1) as (about, _):
        crs = pyproj.CRS(about["crs"]) if about["crs"] else None
    degrees = crs is not None and crs.is_geographic
    kind = dict(layers)[points[0]]
    return PointLayer(
        path,
        source=source,
        layer=points[0],
        crs=crs.to_string() if crs else None,
        places=PLACES[degrees],
        has_heights=kind.startswith("2.5D") or " Z" in kind,
    )


def check_stated_crs(layer: PointLayer, stated: str) -> None:
    """Refuse a stated CRS that differs from the layer's own: a neighbouring zone would move a city far away.

    Raises:
        InputError: the file names another CRS than `stated`, of `ingest.products`.
    """
    if layer.crs is not None and is_elsewhere(str(layer), layer.crs, stated):
        raise InputError(
            f"{layer}: {', '.join(layer.places)} are in {layer.crs}, as the file says, and crs in ingest.products says "
            f"{stated}. Write the file's there; or where the file is wrong, mend it: `ogr2ogr -a_srs {stated} OUT.gpkg "
            "IN`."
        )


def cut_advice(product: CsvFile, names: Iterable[str]) -> str:
    """Return advice if days in a Shapefile's column names seem cut to ten letters; else empty.

    Args:
        product: the file; any other than a Shapefile is passed over.
        names: of columns that are no known ones.
    """
    if not isinstance(product, PointLayer) or PurePosixPath(product.source).suffix.lower() != ".shp":
        return ""
    cut = cut_days(names)
    if not cut:
        return ""
    return (
        f" The columns {', '.join(cut[:3])}, … seem cut: a Shapefile's names have at most ten letters, and the rest of "
        "the day is lost. Export the layer as GeoPackage, or as csv."
    )


def _source(path: Path, start: bytes) -> str | None:
    """Return the file's name for GDAL; None if it begins as none of `STARTS`, alone or in a zip without a csv."""
    if start.startswith(STARTS):
        return str(path)
    if not start.startswith(ZIP_START) or path.suffix.lower() == ".csv":
        return None
    members = vector_members(path, (*SUFFIXES, ".csv"))
    found = [name for name in members if not name.lower().endswith(".csv")]
    if not found or len(found) < len(members):
        return None
    if len(found) > 1:
        raise InputError(f"{path}: {', '.join(found[:5])} in the zip, one is needed. Unpack it and give each of them.")
    return gdal_name(path, found[0])


@contextmanager
def _opened(path: Path, source: str, layer: str | None, batch_size: int) -> Iterator[tuple[dict[str, Any], Any]]:
    try:
        opened = pyogrio.raw.open_arrow(source, layer=layer, batch_size=batch_size, use_pyarrow=True)
        about, batches = opened.__enter__()
    except READ_FAULTS as error:
        raise InputError(
            f"{path}: not readable as a vector file ({first_line_of(error)}). Download it again."
        ) from None
    try:
        yield dict(about), batches
    finally:
        opened.__exit__(None, None, None)


class _AsCsv(io.RawIOBase):
    def __init__(
        self, name: str, places: tuple[str, ...], geometry: str, batches: Any, count: Callable[[], int]
    ) -> None:
        self._name, self._places, self._geometry = name, places, geometry or "wkb_geometry"
        self._schema, self._batches = batches.schema, iter(batches)
        self._rest = _csv(pa.table({place: [] for place in places} | self._attributes(None)), header=True)
        self._row, self._count = 0, count

    def readable(self) -> bool:
        """Return True: the stream is readable."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read bytes of the csv; raise `InputError` if the file is damaged, or a feature is not a point."""
        while not self._rest:
            try:
                batch = next(self._batches, None)
            except READ_FAULTS as error:
                raise InputError(
                    f"{self._name}: damaged or cut off ({first_line_of(error)}). Download it again."
                ) from None
            if batch is None:
                self._check_end()
                return 0
            self._rest = _csv(self._table(batch), header=False)
        part, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)

    def _check_end(self) -> None:
        """Refuse a Shapefile's table or FlatGeobuf that was cut; GDAL silently reads what is left."""
        count = self._count()
        if self._row < count:
            raise InputError(
                f"{self._name}: damaged or cut off ({self._row} points can be read of {count} that it says it has). "
                "Download it again; of a Shapefile, all of its files."
            )

    def _table(self, batch: pa.RecordBatch) -> pa.Table:
        shapes = shapely.from_wkb(np.asarray(batch[self._geometry].to_pylist(), object), on_invalid="ignore")
        # Tools that promote to multi (ogr2ogr -nlt) make one of each point.
        single = (shapely.get_type_id(shapes) == shapely.GeometryType.MULTIPOINT) & (
            shapely.get_num_geometries(shapes) == 1
        )
        shapes[single] = shapely.get_geometry(shapes[single], 0)
        wrong = shapely.get_type_id(shapes) != shapely.GeometryType.POINT
        if wrong.any():
            row = int(np.argmax(wrong))
            found, advice = "none" if shapes[row] is None else shapes[row].geom_type, ""
            if found == "MultiPoint":
                found = f"MultiPoint of {shapely.get_num_geometries(shapes[row])}"
                advice = " `ogr2ogr -explodecollections OUT.gpkg IN` makes a feature of each."
            raise InputError(
                f"{self._name}, feature {self._row + row + 1}, geometry: {found} found, a point is needed.{advice}"
            )
        self._row += len(batch)
        coordinates = (shapely.get_x, shapely.get_y, shapely.get_z)
        places = {name: of(shapes) for name, of in zip(self._places, coordinates, strict=False)}
        return pa.table(places | self._attributes(batch))

    def _attributes(self, batch: pa.RecordBatch | None) -> dict[str, Any]:
        """Return the columns that a csv can hold; without a batch, without values."""
        kept = [
            field
            for field in self._schema
            if not (
                field.name == self._geometry
                or pa.types.is_nested(field.type)
                or pa.types.is_binary(field.type)
                or isinstance(field.type, pa.BaseExtensionType)  # objects within a GeoJSON's properties
            )
        ]
        return {field.name: pa.array([], field.type) if batch is None else batch[field.name] for field in kept}


def _csv(table: pa.Table, header: bool) -> bytes:
    sink = io.BytesIO()
    pacsv.write_csv(table, sink, pacsv.WriteOptions(include_header=header))
    return sink.getvalue()
