"""Where the curves of a run go: TensorBoard and MLflow."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import Logger, MLFlowLogger, TensorBoardLogger

from plumbline.console import log


def loggers(name: str, settings: dict[str, Any], work: Path) -> list[Logger]:
    """TensorBoard and MLflow. The record never stops the work: an unreachable MLflow is a warning."""
    logging.getLogger("mlflow").setLevel(logging.WARNING)
    found: list[Logger] = [TensorBoardLogger(work / "tensorboard", name=name)]
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    named = os.environ.get("MLFLOW_TRACKING_URI")
    # Absolute, because MLflow keeps one connection for each address it has seen.
    address = named or f"sqlite:///{Path('mlflow.db').resolve()}"
    try:
        beside = None if named is not None else (work / "mlruns").resolve().as_uri()
        record = MLFlowLogger("plumbline", run_name=name, tracking_uri=address, artifact_location=beside)
        record.log_hyperparams(settings)
        found.append(record)
    except Exception as error:  # whatever the record's server answers, training goes on
        log.warning("MLflow at %s does not answer (%s); this run is not recorded there", address, error)
    finally:
        # Lightning makes the address that of the whole process: what it did next in another project went to this one.
        os.environ.pop("MLFLOW_TRACKING_URI", None)
        if named is not None:
            os.environ["MLFLOW_TRACKING_URI"] = named
    return found


def log_record(found: list[Logger], record: dict[str, Any]) -> None:
    """Put the record beside the curves in MLflow."""
    for logger in found:
        if isinstance(logger, MLFlowLogger):
            try:
                logger.experiment.log_dict(logger.run_id, record, "record.json")
            except Exception as error:  # as above
                log.warning("MLflow does not take the record (%s)", error)
