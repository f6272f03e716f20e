"""Plumbline: which buildings are being damaged, where and how badly, from InSAR points."""

import os
import sys
from pathlib import Path

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

# QGIS and conda set these for libraries of their own, which have other versions. A folder of
# national grids alone has no database of PROJ: `plumbline.sources.crs` adds it, as rasterio would
# look for its database there and nowhere else.
for _name in ("PROJ_LIB", "PROJ_DATA", "GDAL_DATA", "GDAL_DRIVER_PATH"):
    _folders = os.environ.get(_name, sys.prefix).split(os.pathsep)
    if not all(Path(_folder).is_relative_to(sys.prefix) for _folder in _folders):
        del os.environ[_name]
        _grids = [path for path in filter(None, _folders) if not Path(path, "proj.db").exists()]
        if _grids and _name.startswith("PROJ"):
            os.environ["PLUMBLINE_GRIDS"] = os.pathsep.join(_grids)

# A company's proxy reaches no server on this machine. Where both names are set, the lower counts.
# Without a proxy, the variable would hide the one of a macOS system.
if any(
    _value and _name.lower().endswith("_proxy") and _name.lower() != "no_proxy"
    for _name, _value in os.environ.items()
):
    _direct = os.environ.get("no_proxy") or os.environ.get("NO_PROXY", "")
    if _direct != "*":
        _hosts = [*filter(None, _direct.split(",")), "127.0.0.1", "localhost"]
        _direct = ",".join(dict.fromkeys(_hosts))
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = _direct
