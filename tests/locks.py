"""Read the lock files by what reads them elsewhere: `requirements/pins.py`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from packaging.markers import Marker

REQUIREMENTS = Path(__file__).parents[1] / "requirements"


def module(name: str) -> ModuleType:
    """Return a module of `requirements/`, which is no package."""
    spec = importlib.util.spec_from_file_location(f"requirements_{name}", REQUIREMENTS / f"{name}.py")
    assert spec
    assert spec.loader
    loaded = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(REQUIREMENTS))
    try:
        spec.loader.exec_module(loaded)
    finally:
        sys.path.remove(str(REQUIREMENTS))
    return loaded


def pinned(lock: str, environment: dict[str, str] | None = None) -> dict[str, str]:
    """Return name to version of a lock file as an environment gets it; by default as the one that runs this."""
    found: dict[str, str] = {}
    for pin in module("pins").read_lock((REQUIREMENTS / f"{lock}.lock").read_text(encoding="utf-8")):
        if not pin.marker or Marker(pin.marker).evaluate(environment):
            assert pin.name not in found, f"{lock}.lock has {pin.name} twice for one environment"
            found[pin.name] = pin.version
    return found
