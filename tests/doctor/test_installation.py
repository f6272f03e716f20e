"""Python, extras and runtimes: real metadata folders, first on the path."""

from __future__ import annotations

from pathlib import Path

import pytest

from plumbline.core.extras import LIBRARIES
from plumbline.core.extras import install as install_command
from plumbline.doctor.findings import CheckState
from plumbline.doctor.installation import (
    check_environment,
    check_extras,
    check_grids,
    check_onnxruntime,
    check_python,
    list_runtimes,
)
from tests.doctor.conftest import faults, states


@pytest.fixture
def install(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """Lay a distribution's metadata before those that are installed."""
    path = folder / "first"
    path.mkdir()
    monkeypatch.syspath_prepend(str(path))

    def lay(name: str, version: str, *lines: str) -> None:
        about = path / f"{name.replace('-', '_')}-{version}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(
            "\n".join(["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}", *lines, ""])
        )

    return lay


def test_what_each_extra_adds_is_told_and_its_absence_is_no_fault(folder: Path, monkeypatch) -> None:
    for extra, libraries in {"torch": ("numpy",), "pipeline": ("numpy", "no_dvc"), "serve": ("no_web",)}.items():
        monkeypatch.setitem(LIBRARIES, extra, libraries)
    (finding,) = check_extras()
    assert finding.state is CheckState.OK
    added, missing = finding.found.split("; not here: ")
    assert "torch" in added
    assert "pipeline" not in added
    assert "training to release, --model champion and the challenger (pipeline)" in missing
    assert missing.endswith(f"; to add one, {install_command('EXTRA')}")


def test_a_python_that_is_too_old(install) -> None:
    assert states(check_python) == [CheckState.OK]
    install("plumbline-insar", "0.1.0", "Requires-Python: >=3.99")
    assert ">=3.99 is needed" in faults(check_python)


def test_both_runtimes(install) -> None:
    assert states(check_onnxruntime) == [CheckState.OK]
    install("onnxruntime-gpu", "1.31.0")
    assert set(list_runtimes()) == {"onnxruntime", "onnxruntime-gpu"}
    message = faults(check_onnxruntime)
    assert "both installed" in message
    assert "pip uninstall onnxruntime onnxruntime-gpu" in message


def test_a_runtime_whose_files_are_gone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As pip leaves it when the other one is uninstalled: an empty folder."""
    (folder / "onnxruntime").mkdir()
    (folder / "onnxruntime" / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    assert "--force-reinstall" in faults(check_onnxruntime)


def test_the_libraries_and_data_of_another_installation(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert states(check_environment) == [CheckState.OK]
    for name in ("PROJ_DATA", "PROJ_LIB", "GDAL_DATA", "GDAL_DRIVER_PATH"):
        monkeypatch.setenv(name, str(folder))
    assert states(check_environment) == [CheckState.OK]  # they do not count
    (folder / "libstdc++.so.6").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    foreign, _ = check_environment()
    assert foreign.state is CheckState.WARNING
    assert "LD_LIBRARY_PATH" in foreign.found


def test_grids_that_are_not_installed_are_listed(folder: Path) -> None:
    (finding,) = check_grids()
    assert finding.state is CheckState.OK
    assert "British (uk_os_OSTN15_NTv2_OSGBtoETRS.tif)" in finding.found
