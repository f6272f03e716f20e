"""Send the curves of a run to TensorBoard and MLflow."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import mlflow
from lightning.pytorch.loggers import Logger, MLFlowLogger, TensorBoardLogger

from plumbline.core.console import hidden, warn
from plumbline.core.sqlite import ask_database
from plumbline.train.distributed.strategies import parted, process_number

TAGS = ("run_key", "data_sha256")
REQUEST_LIMITS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
}
"""Variables with which MLflow reports a silent server after seconds, not minutes."""


class _Record(MLFlowLogger):
    """Lightning's logger. If MLflow fails during a run, one warning is given and the run goes
    on."""

    def __init__(self, name: str, run_id: str | None, **named: Any) -> None:
        super().__init__(name, run_id=run_id, **named)
        self.silent = False

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Log metrics, as Lightning does."""
        self.send(super().log_metrics, metrics, step)

    def finalize(self, status: str = "success") -> None:
        """Finish the record, as Lightning does."""
        self.send(super().finalize, status)

    def send(self, call: Callable[..., None], *arguments: Any) -> None:
        """Send `arguments` to MLflow by `call`, unless it has failed before."""
        if self.silent:
            return
        try:
            call(*arguments)
        except Exception as error:  # whatever the record's server answers
            if parted(error):
                raise
            self.silent = True
            message = hidden(
                f"MLflow at {_address()} does not answer any more ({_first_line(error)})"
            )
            warn("%s; the rest of this run is not recorded there", message, key="mlflow.no_answer")


def _first_line(error: Exception) -> str:
    """Return the first line of an error; after it comes the whole statement that a database
    refused."""
    return str(error).strip().partition("\n")[0]


def loggers(name: str, record: dict[str, Any], work: Path, before: dict[str, Any]) -> list[Logger]:
    """Return loggers for TensorBoard and MLflow. An unreachable MLflow is only a warning.

    Only the first of several processes opens MLflow: two would create its tables at once,
    and break them for good.

    Args:
        name: of the stage.
        record: what is known of the run before its first step.
        work: folder of the project's own files.
        before: `recorded` of this run before it was interrupted, to go on with. Empty: a new one.
    """
    logging.getLogger("mlflow").setLevel(logging.WARNING)
    # It prints the traceback of what it raises.
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
    # That it makes what is not there.
    logging.getLogger("lightning.pytorch.loggers.mlflow").setLevel(logging.ERROR)
    opened: list[Logger] = [
        TensorBoardLogger(
            work / "tensorboard", name=name, version=before.get(TensorBoardLogger.__name__)
        )
    ]
    if process_number():
        return opened
    for variable, value in REQUEST_LIMITS.items():
        os.environ.setdefault(variable, value)
    former_address = os.environ.get("MLFLOW_TRACKING_URI")
    address = _address()
    try:
        ask_database(address)
        artifacts = None if former_address is not None else (work / "mlruns").resolve().as_uri()
        tags = {tag: record[tag] for tag in TAGS} | {
            "git_commit": (record["git"] or {}).get("commit", "none")
        }
        logger = _Record(
            "plumbline",
            run_name=name,
            tracking_uri=address,
            artifact_location=artifacts,
            tags=tags,
            run_id=_existing_run(address, before.get(_Record.__name__)),
        )
        logger.log_hyperparams(record["params"])
        opened.append(logger)
    except Exception as error:  # whatever the record's server answers, training goes on
        message = hidden(f"MLflow at {address} does not answer ({_first_line(error)})")
        warn("%s; this run is not recorded there", message, key="mlflow.no_answer")
    finally:
        # Lightning makes the address that of the whole process: what it did next in another
        # project went to this one.
        mlflow.set_tracking_uri(None)
        os.environ.pop("MLFLOW_TRACKING_URI", None)
        if former_address is not None:
            os.environ["MLFLOW_TRACKING_URI"] = former_address
    return opened


def _existing_run(address: str, run_id: str | None) -> str | None:
    """Return the run to go on with; None if there is none, or it was removed meanwhile."""
    if run_id is None:
        return None
    try:
        run = mlflow.MlflowClient(address).get_run(run_id)
    except mlflow.MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return None
    return run_id if run.info.lifecycle_stage == "active" else None


def _address() -> str:
    # Absolute, because MLflow keeps one connection for each address it has seen.
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{Path('mlflow.db').resolve()}"


def recorded(records: list[Logger]) -> dict[str, Any]:
    """Return the places of the curves, for `loggers` to resume: the version of each, which
    for MLflow is its run."""
    return {type(logger).__name__: logger.version for logger in records}


def log_record(records: list[Logger], record: dict[str, Any]) -> None:
    """Store the record, and the metrics of the best epoch, beside the curves in MLflow."""
    for logger in records:
        if isinstance(logger, _Record):
            logger.send(logger.experiment.log_dict, logger.run_id, record, "record.json")
            logger.log_metrics({f"best/{name}": value for name, value in record["metrics"].items()})
