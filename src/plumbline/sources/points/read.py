"""Open and read a point product of any format that `recognise` knows, whole or in parts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from plumbline import params
from plumbline.core.console import log, warn
from plumbline.core.errors import InputError
from plumbline.core.on_disk import Stack
from plumbline.sources.files.limits import warn_of_limits
from plumbline.sources.files.opened import AnyFile, as_file
from plumbline.sources.points.formats.egms_parquet import is_parquet, is_point_table
from plumbline.sources.points.formats.mintpy import hdf5_format, open_licsbas, open_mintpy
from plumbline.sources.points.line_of_sight import check_east_or_west, check_one_side, check_pass
from plumbline.sources.points.missing import sizes_of, warn_of_unit
from plumbline.sources.points.recognise import FORMATS
from plumbline.sources.points.source import PointSource, ProductFile, add_notes
from plumbline.sources.points.table import open_table
from plumbline.sources.points.track import (
    NO_HEIGHT,
    NO_SIGHT,
    Track,
    concatenate_tracks,
    drop_repeated,
    identity,
    numbered,
    repeats,
)

PART_BYTES = 2**28
"""Size of the parts of a csv, which are read independently."""
NUMBERED_ANEW = (
    "%s: points of several places share an identifier (rounded by a spreadsheet?): "
    "all are numbered anew."
)
LEFT_OUT = (
    (
        NO_HEIGHT,
        "a height",
        "Fill the column; where its columns are described in params.yaml, leave height out of "
        "them.",
    ),
    (NO_SIGHT, "a line of sight", "Correct the codes of `missing` in ingest.products."),
)
"""Reasons to leave points out, what they lack, and what to do if all are left out."""
MIN_HEIGHTS = 10
"""Smallest number of points for which a warning of equal heights is given."""
SAMPLED_POINTS = 10_000
"""Number of points whose displacements show their unit."""


def open_product(
    file: ProductFile, crs: str | None = None, part: tuple[int, int | None] = (0, None)
) -> PointSource:
    """Open a point product of any known format.

    Args:
        file: the product, as `recognise` returns it.
        crs: projected CRS that the points are wanted in; None: that of the file, or where
            it has degrees, the UTM zone of its middle.
        part: range of bytes whose lines are wanted, of a product that can be cut (`parts_of`).

    Raises:
        InputError: the file cannot be read, or its content is refused by the reader.
    """
    source, about = _open_by_kind(file, crs, part), file.about
    check_pass(source.name, file.path, about)

    def blocks() -> Iterator[Track]:
        side = None

        def check_block(number: int, block: Track) -> Track:
            nonlocal side
            side = check_one_side(block.los, side, file.path)
            if not number:
                check_east_or_west(block.los, file.path, about)
            return _correct_positions(block, about)

        return map(check_block, itertools.count(), source.blocks())

    notes = list(source.notes)
    if about.moved_m is not None:
        east, north = about.moved_m
        notes.append(
            f"its points are moved by {east:g} m east and {north:g} m north, as ingest.products "
            "says"
        )
    if about.raised_m is not None:
        notes.append(f"its heights are raised by {about.raised_m:g} m, as ingest.products says")
    return replace(source, blocks=blocks, notes=tuple(notes))


def _correct_positions(track: Track, about: params.Product) -> Track:
    """Move points and raise heights as stated in `ingest.products`."""
    if about.moved_m is not None:
        east, north = about.moved_m
        track = replace(track, easting=track.easting + east, northing=track.northing + north)
    return track if about.raised_m is None else replace(track, height=track.height + about.raised_m)


def _open_by_kind(file: ProductFile, crs: str | None, part: tuple[int, int | None]) -> PointSource:
    if file.kind == "hdf5":
        return (open_licsbas if file.format == "licsbas" else open_mintpy)(
            file.opened, file.about, crs
        )
    layout_of, header, about = FORMATS[file.format].layout_of, list(file.header), file.about
    if file.csv is None or layout_of is None:
        raise ValueError(f"a file of format {file.format} is no table")
    product = replace(file.csv, start=part[0], end=part[1])
    layout, notes = layout_of(product, header, about)
    source = open_table(product, header, layout, about.track or product.path.stem, crs)
    if not FORMATS[file.format].can_state_units:
        source = replace(source, meaning=f"{source.meaning}, as the format defines")
    return add_notes(source, product, notes)


def read_source(file: ProductFile, source: PointSource, folder: Path | None = None) -> Track:
    """Read all points of a product, and log what is doubtful about them.

    Of points with the same identifier and place, the first is kept.

    Args:
        file: the product.
        source: the product as `open_product` returns it.
        folder: to keep the series in, without a name; None: they are in memory.

    Raises:
        InputError: for a row, or where no point is left; or the disk refused.
    """
    path, about = file.path, file.about
    blocks, series = [], Stack(folder)
    for block in source.blocks():
        series.add(block.displacement)
        blocks.append(replace(block, displacement=np.zeros((len(block), 0), np.float32)))
    if not blocks:
        raise InputError(
            f"{source.name}: it holds no points. Download it again, or leave it out.",
            key="points.none",
        )
    track = drop_repeated(replace(concatenate_tracks(blocks), displacement=series.array()))
    log.info(
        "%s: %d points, %d epochs, %s to %s",
        path,
        *track.displacement.shape,
        *track.epochs[[0, -1]],
    )
    if about.moved_m is not None:
        log.info(
            "%s: moved by %g m east and %g m north, as ingest.products says", path, *about.moved_m
        )
    if about.raised_m is not None:
        log.info("%s: heights raised by %g m, as ingest.products says", path, about.raised_m)
    if file.csv is not None:
        warn_of_limits(path, n_rows=len(track) + sum(track.dropped.values()))
    repeated = track.dropped.get("duplicate_id", 0)
    if repeated:
        warn(
            "%s: %d of %d points repeat the identifier and the place of one before them and are "
            "left out.",
            path,
            repeated,
            repeated + len(track),
            key="points.repeated",
        )
    if repeats(identity(track.point_id)).any():
        warn(NUMBERED_ANEW, path, key="points.renumbered")
        track = replace(track, point_id=numbered(1, len(track)))
    for reason, missing_value, advice in LEFT_OUT:
        if reason in track.dropped and not len(track):
            raise InputError(
                f"{path}: none of its points has {missing_value}. {advice}",
                key="points.all_left_out",
            )
        if reason in track.dropped:
            warn(
                "%s: %d points have no %s and are left out.",
                path,
                track.dropped[reason],
                missing_value[2:],
                key="points.left_out",
            )
    has_heights = not source.columns.get("height", "none").startswith("none")
    if (
        len(track) >= MIN_HEIGHTS
        and np.ptp(track.height) == 0
        and (has_heights or track.height[0] != 0)
    ):
        warn(
            "%s: all of its points have the height %g m. Tilts need differences of height: is it "
            "the right column?",
            path,
            track.height[0],
            key="heights.flat",
        )
    sizes = sizes_of(track.displacement, SAMPLED_POINTS)
    warn_of_unit(path, sizes, FORMATS[file.format].can_state_units)
    return track


def parts_of(file: ProductFile) -> list[tuple[int, int | None]]:
    """Return the parts of a product, for `open_product`, to be read in any order.

    Byte ranges of a csv; of others one, the whole.

    Raises:
        InputError: as `open_product`, for what concerns the file as a whole.
    """
    has_ids = (
        "point_id" in file.about.columns
        if file.format == "columns"
        else FORMATS[file.format].has_ids
    )
    if file.csv is None or not file.csv.is_cuttable or not has_ids:
        return [(0, None)]
    cuts = [*range(0, max(file.path.stat().st_size - PART_BYTES // 2, 1), PART_BYTES), None]
    return [(start or 0, end) for start, end in itertools.pairwise(cuts)]


def is_product(file: AnyFile) -> bool:
    """Return whether a file may hold points; False for a Parquet of footprints or an HDF5
    beside a time series.

    Raises:
        InputError: the file cannot be read.
    """
    opened = as_file(file)
    if opened.is_hdf5:
        return hdf5_format(opened) is not None
    return is_point_table(opened) if is_parquet(opened.start) else True
