"""Manage the registry of released packages."""

import os

# MLflow reads these once, when it is imported, so they are set before any module here imports
# it. A registry that does not answer is told of within seconds; by default it is asked for
# minutes.
for _name, _value in {
    "MLFLOW_LOGGING_LEVEL": "ERROR",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
}.items():
    os.environ.setdefault(_name, _value)
