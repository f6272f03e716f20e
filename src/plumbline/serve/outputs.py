"""Check that outputs can be written where the user wants them, before any work is done."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pyogrio

from plumbline.core.errors import InputError
from plumbline.core.files import atomic_file, check_writable, told_unwritten
from plumbline.serve.predictions import BUILDINGS, PREDICTIONS, SCATTERERS, UNJUDGED, check_output
from plumbline.serve.qgis.geopackage import STYLES

OWN_LAYERS = {
    PREDICTIONS: "model_version",
    UNJUDGED: "explanation",
    BUILDINGS: "model_version",
    SCATTERERS: "attention_share",
}
"""Of a GeoPackage that Plumbline has written, and a column of each: others call a layer `buildings`, too."""
HISTORIES = {"point_id", "building_id", "track", "velocity"}
"""Columns of the layers `scatterers_TRACK`."""


def check_inputs(paths: Sequence[Path]) -> None:
    """Refuse missing files, before the first of them is read.

    Raises:
        InputError: names the first.
    """
    for path in paths:
        if not path.exists():
            raise InputError(f"{path}: no such file.")


def check_outputs(
    output: Path, page: Path | None, inputs: Sequence[Path], package: Path, also: Sequence[Path] = (), what: str = "map"
) -> None:
    """Refuse outputs that cannot be written, or would overwrite inputs.

    Args:
        output: table; see `check_output`.
        page: HTML file, if one is wanted. what: its name in messages.
        inputs: files that are read.
        package: model package that is read.
        also: further files that are written beside `output`.

    Raises:
        InputError: an output lies in the package, is an input or another output, has a suffix that says another
            format, or a folder that is not there; or it is a GeoPackage with layers of somebody else.
    """
    check_output(output)
    _check_layers(output)
    written = [output, *also, *([page] if page else [])]
    for path in written:
        if package.resolve() in path.resolve().parents:
            raise InputError(f"{path}: is inside the model package, which must stay as it is. Give another folder.")
        if path.resolve() in {other.resolve() for other in inputs}:
            raise InputError(f"{path}: is one of the inputs, which would be overwritten. Give another output.")
        if path.is_dir():
            raise InputError(f"{path}: is a folder. Give the name of a file.")
    if page is None:
        return
    if page.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{page}: the {what} is an HTML file; give a name that ends in .html.")
    if not page.resolve().parent.is_dir():
        raise InputError(f"{page}: its folder does not exist. Make it first.")
    if not os.access(page.resolve().parent, os.W_OK | os.X_OK):
        raise InputError(f"{page}: its folder is not writable. Give another name for the {what}.")
    check_writable(page)


def _check_layers(output: Path) -> None:
    """Refuse a GeoPackage with layers of other programs: writing replaces the whole file."""
    if output.suffix.lower() != ".gpkg" or not output.is_file():
        return
    try:
        layers = [str(name) for name, _ in pyogrio.list_layers(output)]
        others = sorted(name for name in layers if name != STYLES and not _is_own(output, name))
    except pyogrio.errors.DataSourceError:
        return  # damaged, and nothing to lose
    if others:
        raise InputError(f"{output}: has the layers {', '.join(others)}, which would be lost. Give a file of its own.")


def _is_own(output: Path, layer: str) -> bool:
    wanted = {OWN_LAYERS[layer]} if layer in OWN_LAYERS else HISTORIES if layer.startswith(f"{SCATTERERS}_") else None
    return wanted is not None and wanted <= set(pyogrio.read_info(output, layer=layer)["fields"])


def write_text(text: str, path: Path) -> None:
    """Write a page, atomically.

    Raises:
        NotWritable: the disk refused.
    """
    with told_unwritten(path), atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
