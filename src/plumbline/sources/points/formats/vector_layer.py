"""Read points in a Shapefile, GeoPackage, GeoJSON or FlatGeobuf as a table of their
attributes and places."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyogrio
import pyproj
import shapely

from plumbline.core.errors import InputError
from plumbline.core.geopackage import START as SQLITE_START
from plumbline.core.geopackage import SUFFIX as GEOPACKAGE
from plumbline.core.geopackage import check_complete, fault_of_locks
from plumbline.sources.crs import GLOBE, is_elsewhere, is_local
from plumbline.sources.files.csv_table import MISSING, refuse_cell
from plumbline.sources.files.foreign import ZIP_START, what_else
from plumbline.sources.files.opened import (
    OpenedFile,
    for_command,
    gdal_name,
    vector_members,
    zip_members,
)
from plumbline.sources.files.streams import ColumnFile
from plumbline.sources.footprints.ends import Page, read_page, warn_of_page
from plumbline.sources.footprints.layers import READ_FAULTS, first_line_of
from plumbline.sources.footprints.source import find_piece
from plumbline.sources.globe import are_degrees

STARTS = (b"\x00\x00\x27\x0a", b"SQLite format 3\x00", b"fgb\x03", b"{")
"""First bytes of Shapefile, GeoPackage, FlatGeobuf and GeoJSON."""
SUFFIXES = (".shp", ".gpkg", ".fgb", ".geojson")
"""Suffixes of such files in a zip."""
TEXTS = (".geojson", ".json")
BATCH_POINTS = 8192
"""Number of points read in one step."""
HEIGHT = "geometry_height"
PLACES = {
    True: ("geometry_longitude", "geometry_latitude"),
    False: ("geometry_easting", "geometry_northing"),
}
"""True for a CRS in degrees, else False -> names of the columns of the points' positions."""


@dataclass(frozen=True)
class PointLayer(ColumnFile):
    """One layer of points, read as a table of its attributes behind columns of its places."""

    source: str = ""
    """Name of the file for GDAL."""
    layer: str | None = None
    crs: str | None = None
    """CRS of the positions, as `EPSG:N` where it has a number."""
    places: tuple[str, str] = PLACES[False]
    """Columns of the positions."""
    has_heights: bool = False
    """True if its points have a third coordinate, which is a column then."""
    attributes: tuple[str, ...] = ()
    """Names of the attributes that fit into a table."""
    page: Page | None = None
    """Page of a server's answer, if the file is a text that states it."""

    @property
    def named(self) -> str:
        """Name of the file in a command."""
        return for_command(self.path, self.source)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the table's columns."""
        return (*self._coordinates, *self.attributes)

    @property
    def _coordinates(self) -> tuple[str, ...]:
        return (*self.places, HEIGHT) if self.has_heights else self.places

    def columns(
        self, header: Sequence[str], types: Mapping[str, pa.DataType]
    ) -> Iterator[tuple[int, pa.Table]]:
        """Yield blocks of the columns named in `types`, each with the index of its first row.

        Cells of `MISSING` are null in columns of numbers.

        Args:
            header: as `checked_names` makes it of `names`. types: the columns to read;
                texts, or numbers.

        Raises:
            InputError: the file is damaged or cut off, a feature is not a point, or a cell
                is not of its column's type.
        """
        row, stored_names = 0, dict(zip(header, self.names, strict=True))
        with _open_layer(self.path, self.source, self.layer, batch_size=BATCH_POINTS) as (
            about,
            batches,
        ):
            for batch in batches:
                places = self._read_positions(about["geometry_name"] or "wkb_geometry", batch, row)
                columns = {
                    name: places[stored_names[name]]
                    if stored_names[name] in places
                    else batch[stored_names[name]]
                    for name in types
                }
                yield row, self._cast_columns(columns, types, row)
                row += len(batch)
        # Once: for the extent, the places alone are read.
        if len(types) > len(self.places) and self.page is not None:
            warn_of_page(self, self.page, read=row)
        count = self._count_features()
        if (
            row < count
            # GDAL silently reads what is left of a table of a Shapefile, or of a FlatGeobuf,
            # that was cut
        ):
            raise InputError(
                f"{self}: damaged or cut off ({row} points can be read of {count} that it should "
                "have). Download it again; of a Shapefile, all of its files.",
                key="layer.damaged",
            )

    def _count_features(self) -> int:
        """Return the number of features that the file states; -1 if it does not state it."""
        if PurePosixPath(self.source).suffix.lower() in TEXTS:
            return -1  # it would have to be read once more, and one that is cut is no JSON
        return int(pyogrio.read_info(self.source, layer=self.layer)["features"])

    def _read_positions(
        self, geometry: str, batch: pa.RecordBatch, row: int
    ) -> dict[str, pa.Array]:
        """Return the columns of the places of a batch that begins with feature `row`."""
        shapes = shapely.from_wkb(
            np.asarray(batch[geometry].to_pylist(), object), on_invalid="ignore"
        )
        # Tools that promote to multi (ogr2ogr -nlt) make one of each point.
        single = (shapely.get_type_id(shapes) == shapely.GeometryType.MULTIPOINT) & (
            shapely.get_num_geometries(shapes) == 1
        )
        shapes[single] = shapely.get_geometry(shapes[single], 0)
        is_no_point = shapely.get_type_id(shapes) != shapely.GeometryType.POINT
        if is_no_point.any():
            at = int(np.argmax(is_no_point))
            geometry_type, advice = "none" if shapes[at] is None else shapes[at].geom_type, ""
            if geometry_type == "MultiPoint":
                geometry_type = f"MultiPoint of {shapely.get_num_geometries(shapes[at])}"
                advice = (
                    f" `ogr2ogr -explodecollections OUT.gpkg {self.named}` makes a feature of each."
                )
            raise InputError(
                f"{self}, feature {row + at + 1}, geometry: {geometry_type} found, a point is "
                f"needed.{advice}",
                key="layer.not_a_point",
            )
        coordinates = (shapely.get_x, shapely.get_y, shapely.get_z)
        return {
            name: pa.array(of(shapes))
            for name, of in zip(self._coordinates, coordinates, strict=False)
        }

    def _cast_columns(
        self, columns: Mapping[str, pa.Array], types: Mapping[str, pa.DataType], row: int
    ) -> pa.Table:
        """Return columns as the wanted types; `row`: their first row in the layer."""
        converted = {
            name: values.cast(pa.string()).fill_null("")
            if pa.types.is_string(types[name])
            else _as_numbers(values, self.missing)
            for name, values in columns.items()
        }
        faults = [(at, name) for name, at in converted.items() if isinstance(at, int)]
        if faults:
            at, name = min(faults, key=lambda fault: fault[0])
            raise refuse_cell(self, row + at, name, str(columns[name].cast(pa.string())[at]))
        return pa.table(converted)


def _as_numbers(values: pa.Array, missing: Sequence[str]) -> pa.Array | int:
    """Return numbers, or texts of numbers, as doubles; or the row of the first other text."""
    if pa.types.is_integer(values.type) or pa.types.is_float64(values.type):
        return values.cast(pa.float64(), safe=False)
    # Numbers of other types by their shortest text: 0.1 of 32 bits is 0.1.
    texts = values.cast(pa.string())
    texts = pc.utf8_trim(
        pc.if_else(pc.is_in(texts, pa.array([*MISSING, *missing])), None, texts), " \t"
    )
    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return _first_text(texts)


def _first_text(texts: pa.Array) -> int:
    """Return the row of the first text that is no number."""
    row = 0
    with suppress(pa.ArrowInvalid):
        for row, text in enumerate(texts):  # noqa: B007
            text.cast(pa.float64())
    return row


def find_point_layer(file: OpenedFile) -> PointLayer | None:
    """Find the layer of points in a file; None if it is not a vector file.

    Raises:
        InputError: the file is damaged, or holds several layers of points, or none.
    """
    path, source = file.path, _gdal_source(file)
    if source is None:
        return None
    if file.start.startswith(SQLITE_START):
        check_complete(path)
    elif source.lower().endswith(GEOPACKAGE):
        check_complete(path, source.rpartition("}/")[2], zip_members(file))
    try:
        layers = [
            (str(name), str(kind)) for name, kind in pyogrio.list_layers(source) if kind is not None
        ]
    except READ_FAULTS as error:
        if (fault := fault_of_locks(error)) is not None:
            raise InputError(
                f"{path}: {fault}. Copy it to a local folder, and give the copy.",
                key="layer.locked",
            ) from None
        advice = what_else(file.start.decode("utf-8", "replace"))
        raise InputError(
            f"{path}: "
            + (
                advice
                or f"not readable as a vector file ({first_line_of(error)}). Download it again."
            ),
            key="file.foreign" if advice else "layer.unreadable",
        ) from None
    kinds = {name: kind.split(" ")[0].removeprefix("2.5D").strip() for name, kind in layers}
    points = [name for name, kind in kinds.items() if kind in ("Point", "Unknown")]
    points = points or [name for name, kind in kinds.items() if kind == "MultiPoint"]
    if len(points) != 1:
        shown = ", ".join(f"{name} ({kind})" for name, kind in layers) or "none"
        command = (
            f"`ogr2ogr OUT.gpkg {for_command(path, source)} {shlex.quote(points[0])}`"
            if points
            else ""
        )
        if not points and layers:
            several = " If these are footprints, give them as --buildings."
        else:
            several = f" {command} writes the first." if len(points) > 1 else ""
        raise InputError(
            f"{path}: one layer of points is needed. Its layers: {shown}.{several}",
            key="layer.not_one",
        )
    with _open_layer(path, source, points[0], batch_size=1) as (about, batches):
        crs, geometry = (
            pyproj.CRS(about["crs"]) if about["crs"] else None,
            about["geometry_name"] or "wkb_geometry",
        )
        member = None if source == str(path) else source.rpartition("}/")[2]
        ends = find_piece(path, None, member).ends if _is_text(file, source) else None
        is_granted = crs == GLOBE and ends is not None and ends.assumes_crs
        is_unknown = crs is not None and is_local(crs) and not crs.is_geographic
        if is_unknown or (is_granted and not _begins_in_degrees(batches, geometry)):
            crs = None
        attributes = _table_attributes(batches.schema, geometry)
    degrees = crs is not None and crs.is_geographic
    kind = dict(layers)[points[0]]
    return PointLayer(
        path,
        source=source,
        layer=points[0],
        crs=crs.to_string() if crs else None,
        places=PLACES[degrees],
        has_heights=kind.startswith("2.5D") or " Z" in kind,
        attributes=attributes,
        page=None if ends is None else read_page(ends.start, ends.end),
    )


def _is_text(file: OpenedFile, source: str) -> bool:
    return PurePosixPath(source).suffix.lower() in TEXTS or file.start.startswith(b"{")


def _begins_in_degrees(batches: Any, geometry: str) -> bool:
    first = next(iter(batches), None)
    return first is None or are_degrees(
        shapely.from_wkb(first[geometry].to_pylist(), on_invalid="ignore")
    )


def _table_attributes(schema: pa.Schema, geometry: str) -> tuple[str, ...]:
    """Return the names of the attributes that fit into a table."""
    return tuple(
        field.name
        for field in schema
        if not (
            field.name == geometry
            or pa.types.is_nested(field.type)
            or pa.types.is_binary(field.type)
            or isinstance(field.type, pa.BaseExtensionType)  # objects within a GeoJSON's properties
        )
    )


def check_stated_crs(layer: PointLayer, stated: str) -> None:
    """Refuse a stated CRS that differs from the layer's own: a neighbouring zone would move
    a city far away.

    Raises:
        InputError: the file names another CRS than `stated`, of `ingest.products`.
    """
    if layer.crs is not None and is_elsewhere(str(layer), layer.crs, stated):
        raise InputError(
            f"{layer}: {', '.join(layer.places)} are in {layer.crs} by the file, and in {stated} "
            "by crs in ingest.products. Write the file's there; or where the file is wrong, mend "
            f"it: `ogr2ogr -a_srs {shlex.quote(stated)} OUT.gpkg {layer.named}`.",
            key="layer.other_crs",
        )


def _gdal_source(file: OpenedFile) -> str | None:
    """Return the file's name for GDAL; None if it begins as none of `STARTS`, alone or in a
    zip without a csv."""
    path = file.path
    if file.start.startswith(STARTS):
        return str(path)
    if not file.start.startswith(ZIP_START) or path.suffix.lower() == ".csv":
        return None
    members = vector_members(file, (*SUFFIXES, ".csv"))
    vector_names = [name for name in members if not name.lower().endswith(".csv")]
    if not vector_names or len(vector_names) < len(members):
        return None
    if len(vector_names) > 1:
        raise InputError(
            f"{path}: {', '.join(vector_names[:5])} in the zip, one is needed. Unpack it and "
            "give each of them.",
            key="layer.several_files",
        )
    return gdal_name(path, vector_names[0])


@contextmanager
def _open_layer(
    path: Path, source: str, layer: str | None, batch_size: int
) -> Iterator[tuple[dict[str, Any], Any]]:
    """Open a layer; damage that GDAL finds, also inside the block, becomes an `InputError`."""
    try:
        with pyogrio.raw.open_arrow(
            source, layer=layer, batch_size=batch_size, use_pyarrow=True
        ) as (about, batches):
            yield dict(about), batches
    except READ_FAULTS as error:
        raise InputError(
            f"{path}: damaged or cut off ({first_line_of(error)}). Download it again.",
            key="layer.damaged",
        ) from None
