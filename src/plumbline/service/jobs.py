"""Accept files, and return judgements or fields: jobs, their progress, and their results."""

from __future__ import annotations

import asyncio
import re
import secrets
import shutil
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Query
from fastapi import Path as PathParameter
from pydantic import BaseModel, Field
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from plumbline.fields.model.adapter_files import parse_adapters
from plumbline.fields.restore.field import parse_box
from plumbline.serve.options import make_options, make_reading
from plumbline.service import job_store as job_files
from plumbline.service.forms import (
    AS_FORM,
    BUILDING,
    FILES,
    RESTORED,
    BuildingsForm,
    PredictForm,
    RestoreForm,
    geojson_schema,
    refuse_repeated,
)
from plumbline.service.inference import Tensors
from plumbline.service.job_store import (
    ENDED,
    MEDIA,
    MOST_LISTED,
    JobRow,
    JobStore,
    JobSummary,
    Kind,
)
from plumbline.service.models import Models
from plumbline.service.monitoring import Meters
from plumbline.service.problems import MEDIA_TYPE, NO_JOB, Problem, refusals, refuse_odd_query
from plumbline.service.settings import ServiceLimits

AnyForm = BuildingsForm | RestoreForm
FULL_SECONDS = 30
"""Time after which a client may try again where too many jobs wait."""
SECONDS_BETWEEN_LOOKS = 0.1
"""Time between two checks whether the tensors of a request are ready."""


def _holder(request: Request) -> str | None:
    """Return the fingerprint of the token that `Guard` recognised; None where the service
    needs none."""
    holder: str | None = request.state.holder
    return holder


Holder = Annotated[str | None, Depends(_holder)]
JobId = Annotated[str, PathParameter(pattern=r"^[0-9a-f]{32}$")]
AcceptLine = Annotated[str, Field(max_length=1000)]
"""One of the `Accept` headers of a request; several count as one list (RFC 9110, section 5.3)."""
BINARY = {"type": "string", "format": "binary"}
ANY_BYTES = "application/octet-stream"
"""First type in the OpenAPI document: clients generated from it then read any result as bytes."""
QUALITY = re.compile(r";\s*q=(\d(?:\.\d*)?)")
"""Preference for a type in an `Accept` header; 0: it is not accepted."""
SUFFIXES = {name.rpartition(".")[2]: (kind, name) for kind, name in MEDIA.items()}
Suffix = Literal["geojson", "csv", "gpkg", "parquet", "tif", "png", "html", "pdf"]
DEFAULTS: dict[Kind, str] = {"predict": "application/geo+json", "restore": "image/tiff"}


class Progress(BaseModel):
    """Progress of a job."""

    step: str
    done: int
    total: int


class Job(JobSummary):
    """A job, as `GET /v1/jobs/{id}` returns it."""

    progress: Progress | None
    results: list[str]
    """Kinds of content that `result` gives."""


def job_routes(
    root: Path, store: JobStore, models: Models, limits: ServiceLimits, meters: Meters
) -> APIRouter:
    """Return the routes under `/v1`."""
    router = APIRouter(
        prefix="/v1",
        tags=["jobs"],
        dependencies=[Depends(refuse_odd_query), Depends(refuse_repeated)],
    )

    def add(request: Request, kind: Kind, form: AnyForm, options: dict[str, Any]) -> str:
        """Store the files, add the job to the list, and return its id."""
        causes = [form.causes] if isinstance(form, PredictForm) and form.causes else []
        count = len(form.points) + len(form.buildings) + (form.params is not None) + len(causes)
        if count > limits.files:
            raise Problem(
                413,
                f"{count} files found; this service takes {limits.files}. Pack them into a zip "
                "file.",
                key="request.too_many_files",
            )
        if store.counts()["queued"] >= limits.queue:
            raise _queue_full(meters, limits)
        # Check only.
        _ = make_options(form) if isinstance(form, PredictForm) else make_reading(form)
        options = form.model_dump(exclude=FILES) | options
        # The name of a job cannot be guessed, because it gives access to the results.
        job = secrets.token_hex(16)
        job_files.store_uploads(
            root,
            job,
            points=form.points,
            buildings=form.buildings,
            params=form.params,
            causes=causes,
        )
        folder = root / job_files.JOBS / job
        try:
            job_files.buildings_file(folder)
            names = job_files.name_of(folder)
            if not store.add(
                job,
                kind,
                options,
                queue=limits.queue,
                holder=_holder(request),
                name=names,
            ):
                raise _queue_full(meters, limits)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return job

    def accept(request: Request, kind: Kind, form: AnyForm, options: dict[str, Any]) -> Response:
        """Add a job as `add` does, and describe it."""
        job = add(request, kind, form, options)
        where = f"{request.scope['root_path']}/v1/jobs/{job}"
        return JSONResponse(find(job, _holder(request)).model_dump(), 202, {"Location": where})

    def discard(job: str) -> None:
        """Remove a job that has ended, with its files."""
        store.remove(job)
        shutil.rmtree(root / job_files.JOBS / job, ignore_errors=True)

    def find(job: str, holder: str | None) -> Job:
        row = store.get(job, holder)
        if row is None:
            raise Problem(404, NO_JOB, key="job.unknown")
        return _describe(row, root / job_files.JOBS / job)

    def find_done(job: str, holder: str | None) -> Job:
        described = find(job, holder)
        status = described.status
        if status != "done":
            raise Problem(
                409,
                f"The job is {status}; it has no result.",
                None if status in ENDED else 5,
                "job.not_done",
            )
        return described

    files: dict[str, Any] = {
        "status_code": 202,
        "responses": {
            202: {"model": Job, "description": "The job is on the list."},
            **refusals(400, 413, 415, 422, 429, 503, 507),
        },
    }

    @router.post("/predict", summary="Judge buildings", **files)
    def predict(request: Request, form: Annotated[PredictForm, AS_FORM]) -> Response:
        return accept(request, "predict", form, {})

    @router.post("/restore", summary="Restore a field", **files)
    def restore(request: Request, form: Annotated[RestoreForm, AS_FORM]) -> Response:
        adapters = models.restoration.adapters
        for name, _ in parse_adapters(form.adapter):
            if name not in adapters:
                raise Problem(
                    422,
                    f"adapter: {name[:50]!r} found; the model has {', '.join(adapters) or 'none'}.",
                    key="adapter.missing",
                )
        return accept(
            request, "restore", form, {"bbox": parse_box(form.bbox) if form.bbox else None}
        )

    @router.post(
        "/tensors",
        summary="Prepare buildings for the network",
        response_class=FileResponse,
        responses={200: {"model": Tensors}, **refusals(400, 413, 415, 422, 429, 503, 507)},
    )
    async def tensors(request: Request, form: Annotated[BuildingsForm, AS_FORM]) -> Response:
        job = await run_in_threadpool(add, request, "tensors", form, {})
        while (
            row := await run_in_threadpool(store.get, job)
        ) is not None and row.status not in ENDED:
            if await request.is_disconnected():
                cancelled = await run_in_threadpool(store.cancel, job)
                if (
                    cancelled is not None and cancelled.status in ENDED
                ):  # else its files go when its process has ended
                    await run_in_threadpool(discard, job)
                return Response()  # nobody reads it
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        remove = BackgroundTask(discard, job)
        if row is not None and row.status == "done":
            prepared = root / job_files.JOBS / job / job_files.RESULTS / job_files.TENSORS
            return FileResponse(prepared, media_type="application/json", background=remove)
        problem = (row and row.problem) or Problem(
            503, "The service ended meanwhile. Send the files again.", key="service.ended"
        ).content
        return JSONResponse(problem, problem["status"], media_type=MEDIA_TYPE, background=remove)

    @router.get(
        "/jobs",
        summary="List the jobs that came with this token, newest first",
        responses=refusals(422, 503),
    )
    def list_jobs(
        holder: Holder,
        before: Annotated[
            float | None,
            Query(
                description=f"`created` of the last of {MOST_LISTED}, to list what was before it."
            ),
        ] = None,
    ) -> list[Job]:
        return [
            _describe(row, root / job_files.JOBS / row.id)
            for row in store.newest(holder, before)
            if row.kind != "tensors"
        ]

    @router.get("/jobs/{job}", summary="Tell how far a job is", responses=refusals(404, 503))
    def get_job(job: JobId, holder: Holder) -> Job:
        return find(job, holder)

    @router.delete(
        "/jobs/{job}", summary="Cancel a job, or remove an ended one", responses=refusals(404, 503)
    )
    def cancel_job(job: JobId, holder: Holder) -> Job:
        folder = root / job_files.JOBS / job
        row = store.cancel(job, holder)
        if row is None:
            ended = find(job, holder)
            discard(job)
            return ended.model_copy(update={"results": []})
        if row.status == "cancelled":  # else its files go when its process has ended
            shutil.rmtree(folder, ignore_errors=True)
        return _describe(row, folder)

    @router.get(
        "/jobs/{job}/result",
        summary="Give a job's result",
        response_class=FileResponse,
        responses={
            200: {
                "description": f"The result. Tables have the columns of `{BUILDING}` (`predict`) "
                f"or `{RESTORED}` (`restore`), in each format.",
                "content": {
                    **{kind: {"schema": BINARY} for kind in (ANY_BYTES, *MEDIA)},
                    DEFAULTS["predict"]: {
                        "schema": {"oneOf": [geojson_schema(BUILDING), geojson_schema(RESTORED)]}
                    },
                },
            },
            **refusals(404, 406, 409, 422, 503),
        },
    )
    def get_result(
        job: JobId,
        holder: Holder,
        accept: Annotated[
            list[AcceptLine] | None, Header(max_length=8, include_in_schema=False)
        ] = None,
        format: Annotated[Suffix | None, Query(description="In place of `Accept`.")] = None,
    ) -> FileResponse:
        done = find_done(job, holder)
        kind = (
            SUFFIXES[format][0]
            if format
            else choose_kind(", ".join(accept or ["*/*"]), done.results, DEFAULTS[done.kind])
        )
        if kind not in done.results:
            raise Problem(
                406, f"This job has {', '.join(done.results)}.", key="result.other_format"
            )
        path = root / job_files.JOBS / job / job_files.RESULTS / MEDIA[kind]
        # Else a browser takes the table from its cache when it is asked for the report.
        vary = {"Vary": "Accept"}
        return FileResponse(
            path, media_type=kind, filename=f"plumbline-{done.kind}.{path.suffix[1:]}", headers=vary
        )

    @router.get(
        "/jobs/{job}/map",
        summary="Give what the web page draws of a job",
        response_class=FileResponse,
        responses={
            200: {"content": {"application/json": {"schema": {"type": "object"}}}},
            **refusals(404, 409, 503),
        },
    )
    def get_map(job: JobId, holder: Holder) -> FileResponse:
        find_done(job, holder)
        return FileResponse(root / job_files.JOBS / job / job_files.RESULTS / job_files.DOCUMENT)

    @router.get("/models", summary="List the models that are served, with their figures and gates")
    def list_models() -> list[dict[str, Any]]:
        return models.describe()

    return router


def choose_kind(accept: str, kinds: list[str], default: str) -> str | None:
    """Return the content type that an `Accept` header prefers (RFC 9110, section 12.5.1);
    None if it accepts none.

    The most specific pattern that matches a type sets its `q`. With equal `q`, the first
    named is returned.
    """
    patterns = []
    for position, part in enumerate(accept.lower().split(",")):
        quality = QUALITY.search(part)
        patterns.append(
            (part.partition(";")[0].strip(), float(quality[1]) if quality else 1.0, position)
        )

    def preference(kind: str) -> tuple[float, int, bool]:
        matching = [pattern for pattern in patterns if fnmatch(kind, pattern[0])]
        _, quality, position = min(
            matching, key=lambda pattern: pattern[0].count("*"), default=("", 0.0, 0)
        )
        return quality, -position, kind == default

    accepted = [kind for kind in kinds if preference(kind)[0] > 0]
    return max(accepted, key=preference, default=None)


def _describe(row: JobRow, folder: Path) -> Job:
    """Return a job of the list with its progress and the kinds of its results."""
    progress = job_files.read_note(folder, job_files.PROGRESS) if row.status == "running" else None
    available = [
        kind for kind, name in MEDIA.items() if (folder / job_files.RESULTS / name).exists()
    ]
    return Job(
        **row.model_dump(include=set(JobSummary.model_fields)),
        progress=Progress.model_validate(progress) if progress else None,
        results=available if row.status == "done" else [],
    )


def _queue_full(meters: Meters, limits: ServiceLimits) -> Problem:
    """Return the refusal of a job where too many wait, and count it."""
    meters.refused.labels("jobs").inc()
    return Problem(
        429, f"{limits.queue} jobs wait already. Try again later.", FULL_SECONDS, "jobs.queue_full"
    )
