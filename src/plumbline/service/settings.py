"""Set the limits of a service: bytes, files, points, footprints, parallel jobs, memory and time."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from plumbline.core.console import LogFormat

LOOPBACK = "127.0.0.1"
LEAST_TOKEN = 16
"""Characters of a token; shorter ones can be guessed."""


class Limits(BaseModel):
    """Limits of one service."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    upload_mb: Annotated[int, Field(ge=1, le=1_000_000)] = 2048
    """Of one request, MB."""
    files: Annotated[int, Field(ge=1, le=1000)] = 40
    """Of one request."""
    points: Annotated[int, Field(ge=1)] = 5_000_000
    """Of one job, over all its products."""
    footprints: Annotated[int, Field(ge=1)] = 500_000
    jobs: Annotated[int, Field(ge=1, le=1000)] = 1
    """That run at once, over all processes of the service."""
    queue: Annotated[int, Field(ge=0, le=100_000)] = 32
    """Jobs that wait; more are refused with 429."""
    job_memory_mb: Annotated[int, Field(ge=256)] = 8192
    job_minutes: Annotated[float, Field(gt=0)] = 120.0
    keep_hours: Annotated[float, Field(gt=0)] = 24.0
    """Files of a job that has ended are removed after as many hours."""
    infer_at_once: Annotated[int, Field(ge=1, le=10_000)] = 32
    """Requests for tensors that run or wait in one process; more are refused with 503."""
    infer_mb: Annotated[int, Field(ge=1, le=10_000)] = 256
    """Of one request for tensors, MB."""
    tensor_buildings: Annotated[int, Field(ge=1)] = 2000
    """Most buildings whose tensors are given at once. As JSON they stay below `infer_mb`."""


class Settings(BaseModel):
    """Settings of one service."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    folder: Path
    """Holds uploads, results and the list of jobs."""
    host: str = LOOPBACK
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    processes: Annotated[int, Field(ge=1, le=64)] = 1
    model: str = "pretrained"
    """Of diagnosis: `pretrained`, `champion` or the folder of a package."""
    restoration_model: str = "pretrained"
    tokens: tuple[SecretStr, ...] = ()
    """Each sees its own jobs only. Without any, everybody may ask and sees all."""
    verify_key: Path | None = None
    """Public key; packages that it does not verify are refused."""
    poll_seconds: Annotated[float, Field(gt=0)] = 5.0
    """Between two looks for another champion."""
    basemap: str | None = None
    """Address of a base map for the web page; none by default, so that the page loads nothing from elsewhere."""
    score_folder: Path | None = None
    """Results of `plumbline score`, whose drift `/metrics` shows; None: no drift is shown."""
    log_format: LogFormat = "text"
    """Form of the log; `json` also writes a line for each request."""
    limits: Limits = Limits()

    @field_validator("tokens")
    @classmethod
    def _long_enough(cls, tokens: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        if any(len(token.get_secret_value()) < LEAST_TOKEN for token in tokens):
            raise ValueError(f"a token has fewer than {LEAST_TOKEN} characters")
        return tokens

    @model_validator(mode="after")
    def _guarded(self) -> Self:
        if not self.tokens and not is_loopback(self.host):
            raise ValueError(f"{self.host} can be reached from other machines, which needs a token (--token-file)")
        return self


def is_loopback(host: str) -> bool:
    """Return whether an address is this machine's own."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
