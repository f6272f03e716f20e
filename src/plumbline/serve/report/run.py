"""Judge, choose the buildings of a report, and write it as PDF or HTML."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path

import numpy as np
from jinja2 import Environment, StrictUndefined

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.extras import need
from plumbline.core.files import check_writable, told_unwritten, write_bytes
from plumbline.serve.judgement import Answered, answer, open_model, say_damaged, say_unjudged
from plumbline.serve.options import AS_RELEASED, Options, rows_named
from plumbline.serve.predictions import check_inputs
from plumbline.serve.report.content import Report, list_order, make_report
from plumbline.sources.city.in_memory import CityInMemory, Say, read_city_files
from plumbline.sources.files.opened import AnyFile, as_file

SUFFIXES = (".pdf", ".html")
TOP, MOST = 20, 500
"""Buildings of a report: by default, and at most."""
HERE = Path(__file__).parent


def report(
    points: Sequence[AnyFile],
    buildings: Path,
    package: Path,
    output: Path,
    chosen: Sequence[str] = (),
    top: int = TOP,
    options: Options = AS_RELEASED,
) -> Report:
    """Judge every footprint as `predict` does, and write the report of some.

    Args:
        points: product files, each one track.
        buildings: footprints.
        package: model package folder.
        output: `.pdf` or `.html`.
        chosen: `building_id` of those in the report; without any, those most probably damaged.
        top: how many of these.
        options: as of `predict`.

    Raises:
        InputError: anything given is missing, damaged or does not fit together. No file is written then.
    """
    inputs = [*(as_file(file).path for file in points), buildings, *options.files]
    check_inputs(inputs)
    check_report(output, inputs, package)
    model = open_model(package)
    city = read_city_files(points, buildings, options.reading, Say.ALL, output.absolute().parent)
    if chosen:
        rows_named(city.footprints["building_id"].to_numpy(object), chosen, buildings)
    answered = answer(city, model, options)
    say_unjudged(answered.judged)
    say_damaged(answered.judged)
    made = report_of(answered, city, buildings, chosen, top)
    write_report(made, output)
    return made


def report_of(answered: Answered, city: CityInMemory, buildings: Path, chosen: Sequence[str], top: int) -> Report:
    """Put the report together: of the chosen buildings, or of the first `top` of the list; in the list's order.

    Raises:
        InputError: a chosen building does not exist, or they are too many.
    """
    rows = list_order(answered)
    if chosen:
        named = rows_named(city.footprints["building_id"].to_numpy(object), chosen, buildings)
        rows, top = rows[np.isin(rows, named)], len(named)
    if top > MOST:
        raise InputError(f"{top} buildings found; a report holds {MOST} at most. Make several.")
    return make_report(answered, city, rows[:top].tolist(), buildings.name, date.today())


def check_report(output: Path, inputs: Sequence[Path], package: Path) -> None:
    """Refuse an output that cannot be written, or would overwrite an input.

    Raises:
        InputError: the suffix, the folder or the name is wrong, or the PDF writer is not installed.
    """
    if output.suffix.lower() not in SUFFIXES:
        raise InputError(f"--output {output}: a report ends in .pdf or .html. Give another name.")
    if package.resolve() in output.resolve().parents:
        raise InputError(f"{output}: is inside the model package, which must stay as it is. Give another folder.")
    if output.resolve() in {other.resolve() for other in inputs}:
        raise InputError(f"{output}: is one of the inputs, which would be overwritten. Give another output.")
    if output.is_dir() or not output.resolve().parent.is_dir():
        raise InputError(f"{output}: must be a file in a folder that is there.")
    check_writable(output)
    if output.suffix.lower() == ".pdf":
        need("report", "report --output FILE.pdf", "An .html needs nothing more.")


def write_report(made: Report, output: Path) -> None:
    """Write the report, atomically, in the format of the suffix.

    Raises:
        NotWritable: the disk refused.
    """
    begin = time.monotonic()
    content = as_pdf(made) if output.suffix.lower() == ".pdf" else as_html(made).encode()
    with told_unwritten(output):
        write_bytes(output, content)
    took = time.monotonic() - begin
    log.info("%s: %d buildings, %.1f MB, set in %.0f s", output, len(made.pages), len(content) / 1e6, took)


def as_pdf(made: Report) -> bytes:
    """Return the report as a PDF. All texts go to typst as data, never as its markup; fonts are typst's own."""
    import typst

    compiler = typst.Compiler(
        HERE.joinpath("report.typ").read_bytes(),
        root=HERE,
        ignore_system_fonts=True,
        sys_inputs={"report": json.dumps(asdict(made))},
    )
    found = compiler.compile(format="pdf", pdf_tags=False)  # tags would double its size
    assert isinstance(found, bytes)
    return found


def as_html(made: Report) -> str:
    """Return the report as one HTML file that loads nothing from elsewhere."""
    template = HERE.joinpath("report.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    return environment.from_string(template).render(report=made)
