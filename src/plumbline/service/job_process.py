"""Do one job in a separate process: `python -m plumbline.service.job_process FOLDER PARENT`."""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plumbline.core import console
from plumbline.core.console import Listener, log, request_id, setup_json_logging, setup_logging
from plumbline.core.errors import InputError, PlumblineError, refused_by_disk
from plumbline.core.extras import is_installed
from plumbline.core.files import read_json, write_json
from plumbline.core.jobs import die_with_parent
from plumbline.params import JudgingOptions, ReadingOptions
from plumbline.serve.predictions import SUFFIXES, write_text
from plumbline.service.job_store import (
    CAUSES,
    DOCUMENT,
    FIELD,
    MAP,
    PARAMS,
    PICTURE,
    POINTS,
    PROBLEM,
    REPORT,
    RESULTS,
    TABLE,
    TASK,
    TENSORS,
    buildings_file,
    note_progress,
)
from plumbline.service.problems import Problem, for_requests
from plumbline.sources.points.track import Track

if TYPE_CHECKING:
    from plumbline.sources.city.in_memory import CityInMemory, Reading

SECONDS_BETWEEN_NOTES = 0.5
"""Shortest time between two records of progress in one step."""


def main(folder: Path, parent: int) -> int:
    """Do the job, and return the exit code: 0, or 1 with the problem in `PROBLEM`."""
    if not die_with_parent(parent):
        return 1
    os.chdir(folder)  # messages then have the user's file names; `.plumbline` is there, too
    here = Path()
    setup_logging()
    console.listen(_progress_writer(here))
    try:
        task = read_json(here / TASK)
        request_id.set(task["request_id"])
        if task["log_format"] == "json":
            setup_json_logging()
        log.info("job %s of request %s: %s", folder.name, task["request_id"], task["kind"])
        (here / RESULTS).mkdir(exist_ok=True)
        {"predict": _predict, "restore": _restore, "tensors": _tensors}[task["kind"]](here, task)
    except MemoryError:
        problem = Problem(
            422,
            "The files need more memory than there is. Give fewer points.",
            key="job.out_of_memory",
        )
    except PlumblineError as error:
        problem = Problem(422, for_requests(str(error), folder), key=error.key)
    except Exception as error:
        log.error("the job failed", exc_info=error)
        is_full = refused_by_disk(error) is not None
        problem = (
            Problem(507, "The disk of the service is full.", key="disk.full")
            if is_full
            else Problem(500, "The job failed.", key="service.error")
        )
    else:
        return 0
    log.error("%s", problem.detail, extra={"key": problem.key})
    write_json(here / PROBLEM, problem.content)
    return 1


def _progress_writer(folder: Path) -> Listener:
    """Return a listener that writes the job's progress, at most every half second within a step."""
    last, last_step = 0.0, ""

    def note(step: str, done: int, total: int) -> None:
        nonlocal last, last_step
        if step != last_step or time.monotonic() - last > SECONDS_BETWEEN_NOTES:
            last, last_step = time.monotonic(), step
            note_progress(folder, step, done, total)

    return note


def _predict(folder: Path, task: dict[str, Any]) -> None:
    from plumbline.serve.judgement import answer, open_model
    from plumbline.serve.layers import further_layers
    from plumbline.serve.map.document import make_document
    from plumbline.serve.options import make_options, rows_named
    from plumbline.serve.predictions import write_predictions
    from plumbline.serve.report.about import ReportTexts
    from plumbline.serve.report.run import TOP, report_of, write_report

    form = task["options"]
    city, buildings = _read_city(folder, task)
    causes = next((folder / CAUSES).iterdir(), None) if (folder / CAUSES).is_dir() else None
    options = make_options(JudgingOptions.model_validate(form), _params_file(folder), causes)
    model = open_model(Path(task["package"]), form.get("artifact"))
    chosen = form["building"]
    rows_named(city.footprints["building_id"].to_numpy(object), chosen, buildings)
    note_progress(folder, "judge", 0, 1)
    answered = answer(city, model, options, areas=True)
    note_progress(folder, "write", 0, 1)
    if is_installed("typst"):
        about = ReportTexts(**{name: form[name] for name in ReportTexts.model_fields})
        write_report(
            report_of(answered, city, buildings, chosen, TOP, about=about),
            folder / RESULTS / REPORT,
        )
        note_progress(folder, "write", 0, 1)
    title, owners = f"Plumbline: {buildings.stem}", answered.prepared.owners
    document = make_document(answered.judged, city.points, title, owners=owners)
    _write_map(folder, task, document)
    for suffix in SUFFIXES:
        layers = further_layers(answered, city.points) if suffix == ".gpkg" else []
        write_predictions(answered.judged.table, folder / RESULTS / f"{TABLE}{suffix}", layers)


def _tensors(folder: Path, task: dict[str, Any]) -> None:
    from plumbline.export.package import verify_package
    from plumbline.prepare.buildings import prepare_buildings
    from plumbline.service.inference import make_tensors

    about = verify_package(Path(task["package"]))
    city, buildings = _read_city(folder, task)
    prepared = prepare_buildings(city.points, city.footprints, about.prepare, shown=True)
    if len(prepared.sequences) > task["tensor_buildings"]:
        raise InputError(
            f"{buildings.name}: {len(prepared.sequences)} buildings have points enough; this "
            "service gives the tensors "
            f"of {task['tensor_buildings']} at a time. Send fewer footprints, with the same "
            "points.",
            key="tensors.too_many_buildings",
        )
    write_text(
        make_tensors(prepared, city.footprints, about).model_dump_json(), folder / RESULTS / TENSORS
    )


def _restore(folder: Path, task: dict[str, Any]) -> None:
    from plumbline.core.jobs import alone
    from plumbline.fields.restore.field import Box
    from plumbline.fields.restore.footprints import write_buildings
    from plumbline.fields.restore.outputs import field_document
    from plumbline.fields.restore.plan import STAGE, RestoreOptions, plan_windows
    from plumbline.fields.restore.restore import SideOutputs, finish, restore_windows

    form = task["options"]
    points, buildings, reading = _find_inputs(folder, form)
    options = RestoreOptions(
        form["num_inference_steps"],
        form["samples"],
        form["cell"],
        tuple(form["adapter"]),
        bbox=Box(*form["bbox"]) if form.get("bbox") else None,
    )
    note_progress(folder, "read", 0, 1)
    with alone(STAGE, patience_seconds=5.0):
        plan = plan_windows(
            points, Path(task["package"]), options, reading, accept=partial(_check_size, task=task)
        )
        note_progress(folder, STAGE, 0, len(plan.jobs))
        restore_windows(plan.jobs)
        if buildings is not None:
            for suffix in SUFFIXES:
                write_buildings(
                    plan.field, buildings, folder / RESULTS / f"{TABLE}{suffix}", reading
                )
        picture = folder / RESULTS / PICTURE if is_installed("matplotlib") else None
        finish(plan, folder / RESULTS / FIELD, SideOutputs(picture=picture))
    _write_map(folder, task, field_document(folder / RESULTS / FIELD, "Plumbline: restored field"))


def _write_map(folder: Path, task: dict[str, Any], document: dict[str, Any]) -> None:
    """Write the map document, and the HTML page if the web page was built."""
    from plumbline.serve.map.document import as_json
    from plumbline.serve.map.page import is_built, page_html

    if task["basemap"]:
        document["basemap"] = task["basemap"]
    write_text(as_json(document), folder / RESULTS / DOCUMENT)
    if is_built():
        write_text(page_html(document), folder / RESULTS / MAP)


def _read_city(folder: Path, task: dict[str, Any]) -> tuple[CityInMemory, Path]:
    """Read points and footprints, and refuse too many; return them, and the footprints' file."""
    from plumbline.sources.city.in_memory import Say, read_city_files

    points, buildings, reading = _find_inputs(folder, task["options"])
    if buildings is None:
        raise InputError(
            "buildings: no file found. Give one of footprints.", key="buildings.no_file"
        )
    note_progress(folder, "read", 0, 1)
    city = read_city_files(points, buildings, reading, Say.ALL, folder)
    _check_size(city.points, task)
    if len(city.footprints) > task["footprints"]:
        raise InputError(
            f"{buildings.name}: {len(city.footprints)} footprints; this service takes "
            f"{task['footprints']}. Cut the file to your area.",
            key="footprints.too_many",
        )
    return city, buildings


def _find_inputs(folder: Path, form: dict[str, Any]) -> tuple[list[Path], Path | None, Reading]:
    """Return the files of points and footprints, and how they are read."""
    from plumbline.serve.options import make_reading
    from plumbline.sources.points.formats.hdf5 import probe_first

    probe_first()  # anybody may have sent these files
    reading = make_reading(ReadingOptions.model_validate(form), _params_file(folder))
    return sorted((folder / POINTS).iterdir()), buildings_file(folder), reading


def _params_file(folder: Path) -> Path | None:
    return folder / PARAMS if (folder / PARAMS).exists() else None


def _check_size(tracks: list[Track], task: dict[str, Any]) -> None:
    count = sum(len(track) for track in tracks)
    if count > task["points"]:
        raise InputError(
            f"{count} points; this service takes {task['points']} in a job. Cut the files to "
            "your area.",
            key="points.too_many",
        )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
