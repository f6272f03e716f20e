"""Declare the settings of a service, and its limits: files, points, jobs, memory and time."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from plumbline.core.console import LogFormat

LOOPBACK = "127.0.0.1"
MIN_TOKEN = 16
"""Smallest number of characters of a token; shorter ones can be guessed."""


class ServiceLimits(BaseModel):
    """Limits of one service."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    jobs: int = Field(
        default=1, ge=1, le=1000, description="Jobs that run at once; the others wait."
    )
    queue: int = Field(
        default=32, ge=0, le=100_000, description="Jobs that may wait; more are refused with 429."
    )
    upload_mb: int = Field(default=2048, ge=1, le=1_000_000, description="Largest request, MB.")
    files: int = Field(default=40, ge=1, le=1000)
    """Largest number of files of a request."""
    points: int = Field(
        default=5_000_000, ge=1, description="Most points of a job, over all its products."
    )
    footprints: int = Field(default=500_000, ge=1, description="Most footprints of a job.")
    job_memory_mb: int = Field(default=8192, ge=256, description="Most memory of a job, MB.")
    job_minutes: float = Field(default=120.0, gt=0, description="Longest time of a job, minutes.")
    keep_hours: float = Field(
        default=24.0, gt=0, description="Time for which files of ended jobs are kept, hours."
    )
    infer_at_once: int = Field(default=32, ge=1, le=10_000)
    """Requests for tensors that run or wait in one process; more are refused with 503."""
    infer_mb: int = Field(default=256, ge=1, le=10_000)
    """Largest request for tensors, MB."""
    tensor_buildings: int = Field(default=2000, ge=1)
    """Most buildings whose tensors are given at once. As JSON they stay below `infer_mb`."""


class ServiceSettings(BaseModel):
    """Settings of one service."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    host: str = Field(
        default=LOOPBACK, description="Address; one that others can reach needs a token."
    )
    port: int = Field(default=8000, ge=0, le=65535)
    model: str = Field(
        default="pretrained",
        description="Of diagnosis: `pretrained`, `champion`, or the folder of a package.",
    )
    restoration_model: str = Field(
        default="pretrained", description="Of restoration, in the same way."
    )
    folder: Path = Field(
        default=Path(".plumbline/service"),
        description="Holds uploads, results and the list of jobs.",
    )
    processes: int = Field(default=1, ge=1, le=64, description="Processes that answer requests.")
    score_folder: Path | None = Field(
        default=None,
        description="Results of `plumbline score` (data/score), whose drift /metrics then shows.",
    )
    log_format: LogFormat = Field(
        default="text",
        description="Form of the log; json: one object a line, also for each request.",
    )
    verify_key: Path | None = Field(
        default=None,
        description="Public key: refuse packages that are not signed with it, or were altered "
        "since.",
    )
    basemap: str | None = Field(
        default=None,
        description="Address of a base map for the web page, with {z}, {x} and {y}; without, it "
        "needs no network.",
    )
    tokens: tuple[SecretStr, ...] = ()
    """Tokens of clients, each for its own jobs only. Without any, everybody has access to all
    jobs."""
    poll_seconds: float = Field(default=5.0, gt=0)
    """Time between two checks for another champion."""
    limits: ServiceLimits = ServiceLimits()

    @field_validator("tokens")
    @classmethod
    def _check_length(cls, tokens: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        if any(len(token.get_secret_value()) < MIN_TOKEN for token in tokens):
            raise ValueError(f"a token has fewer than {MIN_TOKEN} characters")
        return tokens

    @model_validator(mode="after")
    def _check_access(self) -> Self:
        if not self.tokens and not is_loopback(self.host):
            raise ValueError(
                f"{self.host} can be reached from other machines, which needs a token "
                "(--token-file)"
            )
        return self


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
