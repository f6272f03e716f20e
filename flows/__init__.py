"""Run the stages at the right time and place. Only this code knows of Prefect and DVC; it
computes nothing."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import plumbline  # noqa: F401  (turns the telemetry of Prefect, DVC and MLflow off)

DEFAULTS = {
    # Prefect's own SQLite file and logs stay in the project, apart from other projects and
    # from ~/.prefect.
    "PREFECT_HOME": str(Path.cwd() / ".prefect"),
    # The embedded server sometimes logs a long harmless traceback while it stops.
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
    # On a loaded machine the embedded server needs more than the 20 s it is given by default.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_LOGGING_FORMATTERS_STANDARD_FLOW_RUN_FMT": "%(asctime)s | %(flow_name)s | %(message)s",
    "PREFECT_LOGGING_FORMATTERS_STANDARD_TASK_RUN_FMT": "%(asctime)s | %(task_run_name)s | "
    "%(message)s",
}


def configure() -> None:
    """Set the variables that are not set yet; call this before Prefect is imported."""
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    for name in ("prefect.engine", "prefect.flow_runs"):  # the worker's log, and that of the run
        logging.getLogger(name).addFilter(shorten_failure)


def shorten_failure(record: logging.LogRecord) -> bool:
    """Take the traceback out of the report of a flow that returned a failed state: its
    message has the reason."""
    error = record.exc_info[1] if record.exc_info else None
    if type(error).__name__ in ("FailedRun", "CancelledRun"):
        record.msg, record.args, record.exc_info = f"Failed: {error}", None, None
    return True


# Prefect reads its settings once, when it is imported; whatever imports a flow passes here first.
configure()
