"""Plumbline: which buildings are being damaged, where and how badly, from InSAR points."""

import os

__version__ = "0.1.0"

# Libraries read these once, when they are imported, and everything here imports this module first.
for _name, _value in {
    "DO_NOT_TRACK": "true",  # Prefect, MLflow, the Hugging Face Hub
    "ORT_DISABLE_TELEMETRY": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DVC_NO_ANALYTICS": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}.items():
    os.environ.setdefault(_name, _value)
