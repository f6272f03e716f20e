"""Define section `tidy`."""

from __future__ import annotations

from pydantic import Field

from plumbline.params.section import Section


class Tidy(Section):
    """What to keep on a system that runs for months; see docs/operations.md, "Retention"."""

    former_champions: int = Field(default=5, ge=1, le=99)
    """How many times in a row `plumbline release rollback` can go back: their packages stay."""
    packages: int = Field(default=5, ge=0, le=10_000)
    """Newest packages of the registry that stay besides the champions, and any with an alias."""
    runs: int = Field(default=10, ge=1, le=10_000)
    """Newest results of each stage that stay in each of DVC's caches, besides those of branches and tags. And the
    newest records of training that stay in MLflow, however old."""
    days: float = Field(default=30.0, gt=0, le=3650)
    """Days after which what has ended goes: Prefect's records of runs, MLflow's of training, what interrupted work left
    in `.plumbline`."""
    log_mib: float = Field(default=20.0, gt=0, le=10_000)
    """MiB from which a log of the server or a worker is cut to its last half."""
    remote: bool = False
    """Remove from DVC's default remote what is removed from the caches; only where no one else keeps results there."""
