"""Plumbline: which buildings are being damaged, where and how badly, from InSAR points."""

import os
import sys

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

# QGIS and conda set these for libraries of their own, which have other versions.
for _name in ("PROJ_DATA", "PROJ_LIB", "GDAL_DATA", "GDAL_DRIVER_PATH"):
    if not os.environ.get(_name, sys.prefix).startswith(sys.prefix):
        del os.environ[_name]

# A company's proxy reaches no server on this machine. Where both names are set, the lower counts.
_direct = os.environ.get("no_proxy") or os.environ.get("NO_PROXY", "")
if _direct != "*":
    _direct = ",".join(dict.fromkeys([*filter(None, _direct.split(",")), "127.0.0.1", "localhost"]))
os.environ["no_proxy"] = os.environ["NO_PROXY"] = _direct
