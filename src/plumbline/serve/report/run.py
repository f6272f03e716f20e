"""Judge, choose the buildings of a report, and write it as PDF or HTML, with a sheet of all
buildings."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import cast

import numpy as np
from jinja2 import Environment, StrictUndefined

from plumbline.core.console import log, warn
from plumbline.core.errors import InputError
from plumbline.core.extras import need
from plumbline.core.files import report_write_errors, write_bytes
from plumbline.serve.judgement import JudgedCity, log_damaged, log_unjudged
from plumbline.serve.options import rows_named
from plumbline.serve.predictions import Outputs
from plumbline.serve.report.about import NO_TEXTS, ReportTexts, read_about
from plumbline.serve.report.content import Report, list_order, make_report
from plumbline.serve.report.listing import sheet_rows
from plumbline.serve.request import Request, open_city
from plumbline.sources.city.in_memory import CityInMemory

SUFFIXES = (".pdf", ".html")
TOP, MAX_BUILDINGS = 20, 500
"""Buildings of a report: by default, and at most."""
HERE = Path(__file__).parent
PROBE = b'#set text(font: "Libertinus Serif")\n#sys.inputs.text'
"""Document of one text, in the font of the report."""
MAX_NAMED = 20
"""Largest number of buildings that a warning names."""


def report(
    request: Request,
    output: Path,
    chosen: Sequence[str] = (),
    top: int = TOP,
    about: Path | None = None,
) -> Report:
    """Judge every footprint as `predict` does, and write the report of some; beside it the
    sheet of all.

    Args:
        request: what is judged.
        output: `.pdf` or `.html`.
        chosen: `building_id` of those in the report; without any, those most probably damaged.
        top: how many of these.
        about: YAML file with texts for the first page, see `read_about`.

    Raises:
        InputError: anything given is missing, damaged or does not fit together. No file is
            written then.
    """
    texts = NO_TEXTS if about is None else read_about(about)
    sheet = sheet_path(output)
    if output.suffix.lower() == ".pdf":
        need("report", "report --output FILE.pdf", "An .html needs nothing more.")
    opened = open_city(request, outputs_of(output), [] if about is None else [about])
    city, buildings = opened.city, request.buildings
    rows_named(city.footprints["building_id"].to_numpy(object), chosen, buildings)
    answered = opened.answer()
    log_unjudged(answered.judged)
    log_damaged(answered.judged)
    contents = report_of(answered, city, buildings, chosen, top, about=texts, sheet=sheet.name)
    write_report(contents, output)
    write_sheet(answered, contents, sheet)
    return contents


def report_of(
    answered: JudgedCity,
    city: CityInMemory,
    buildings: Path,
    chosen: Sequence[str],
    top: int,
    *,
    about: ReportTexts = NO_TEXTS,
    sheet: str = "",
) -> Report:
    """Put the report together: of the chosen buildings, or of the first `top` of the list;
    in the list's order.

    Raises:
        InputError: a chosen building does not exist, or they are too many.
    """
    rows = list_order(answered)
    if chosen:
        named = rows_named(city.footprints["building_id"].to_numpy(object), chosen, buildings)
        rows, top = rows[np.isin(rows, named)], len(named)
    if top > MAX_BUILDINGS:
        raise InputError(
            f"{top} buildings found; a report holds {MAX_BUILDINGS} at most. Make several.",
            key="report.too_many_buildings",
        )
    return make_report(
        answered, city, rows[:top].tolist(), buildings.name, date.today(), about=about, sheet=sheet
    )


def write_report(contents: Report, output: Path) -> None:
    """Write the report, atomically, in the format of the suffix.

    Raises:
        NotWritable: the disk refused.
    """
    begin = time.monotonic()
    file_bytes = as_pdf(contents) if output.suffix.lower() == ".pdf" else as_html(contents).encode()
    with report_write_errors(output):
        write_bytes(output, file_bytes)
    log.info(
        "%s: %d buildings, %.1f MB, set in %.0f s",
        output,
        len(contents["pages"]),
        len(file_bytes) / 1e6,
        time.monotonic() - begin,
    )


def outputs_of(output: Path) -> Outputs:
    """Return the files of a report: itself and its sheet."""
    return Outputs(output, beside=[sheet_path(output)], suffixes=SUFFIXES)


def sheet_path(output: Path) -> Path:
    """Return where the sheet of a report is written: `REPORT_list.csv` beside `REPORT.pdf`."""
    return output.with_name(f"{output.stem}_list.csv")


def write_sheet(answered: JudgedCity, contents: Report, path: Path) -> None:
    """Write the list of all buildings, atomically, as CSV with a byte order mark, by which
    spreadsheets know UTF-8.

    Raises:
        NotWritable: the disk refused.
    """
    rows = sheet_rows(
        answered.judged,
        list_order(answered).tolist(),
        {page["row"]: page["number"] for page in contents["pages"]},
    )
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    with report_write_errors(path):
        write_bytes(path, text.getvalue().encode("utf-8-sig"))
    log.info("%s: all %d buildings, for spreadsheets", path, len(rows) - 1)


def as_pdf(contents: Report) -> bytes:
    """Return the report as a PDF. All texts go to typst as data, never as its markup; fonts
    are typst's own, and those of the machine for letters that these lack."""
    import typst

    texts = {"the first page": f"{contents['title']} {contents['about']}"} | {
        page["name"]: f"{page['name']} {page['attributes']}" for page in contents["pages"]
    }
    is_enough = has_letters(" ".join(texts.values()), ignore_system_fonts=True)
    lacking = [
        name
        for name, text in texts.items()
        if not (is_enough or text.isascii() or has_letters(text, ignore_system_fonts=False))
    ]
    if lacking:
        warn(
            "the fonts lack letters of %s (%d in all), which are boxes in the PDF. Install a font "
            "that has them, or write the report as HTML: --output FILE.html",
            ", ".join(lacking[:MAX_NAMED]),
            len(lacking),
            key="report.missing_letters",
        )
    compiler = typst.Compiler(
        HERE.joinpath("report.typ").read_bytes(),
        root=HERE,
        ignore_system_fonts=is_enough,
        sys_inputs={"report": json.dumps(contents)},
    )
    # One file; tags would double its size.
    return cast(bytes, compiler.compile(format="pdf", pdf_tags=False))


def has_letters(text: str, ignore_system_fonts: bool) -> bool:
    """Return whether the fonts have all letters of a text."""
    import typst

    compiler = typst.Compiler(
        PROBE, root=HERE, ignore_system_fonts=ignore_system_fonts, sys_inputs={"text": text}
    )
    try:
        # PDF/A-2 allows no box in place of a letter.
        compiler.compile(format="pdf", pdf_standards=["a-2b"])
    except typst.TypstError:
        return False
    return True


def as_html(contents: Report) -> str:
    """Return the report as one HTML file that loads nothing from elsewhere."""
    template = HERE.joinpath("report.html").read_text(encoding="utf-8")
    environment = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    return environment.from_string(template).render(report=contents)
