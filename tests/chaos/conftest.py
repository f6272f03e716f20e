"""The chaos suite: real processes, real kills. `make chaos` runs it."""

from __future__ import annotations

from tests.flows.conftest import prefect_database, prefect_server

__all__ = ["prefect_database", "prefect_server"]
