"""Python, extras and runtimes: real metadata folders, first on the path."""

from __future__ import annotations

from pathlib import Path

import pytest

from plumbline.core.extras import install as install_command
from plumbline.doctor.installation import (
    check_extras,
    check_onnxruntime,
    check_python,
    installed_runtimes,
)
from plumbline.doctor.probes import State
from tests.doctor.conftest import PLACE, faults, states


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


def test_this_python_is_supported(folder: Path) -> None:
    assert states(check_python) == [State.OK]


def own(*extras: str) -> list[str]:
    """Metadata of a Plumbline with these extras, each `NAME: PACKAGE ...`."""
    named = (extra.split(": ") for extra in extras)
    return [
        "Requires-Python: >=3.11",
        "Requires-Dist: numpy>=2",
        *(
            line
            for name, packages in named
            for line in (
                f"Provides-Extra: {name}",
                *(f'Requires-Dist: {package}; extra == "{name}"' for package in packages.split()),
            )
        ),
    ]


def test_an_extra_that_is_not_there_is_no_fault(install) -> None:
    install("plumbline-insar", "0.1.0", *own("torch: no-torch no-lightning", "pipeline: no-dvc no-prefect numpy"))
    (found,) = check_extras(PLACE)
    assert found.state is State.OK
    assert "added by extras: none" in found.found
    assert "adapt, adapters and --adapter (torch), training" in found.found
    assert found.found.endswith(f"; to add one, {install_command('EXTRA')}")


def test_an_extra_counts_where_most_of_it_is_there(install) -> None:
    install("plumbline-insar", "0.1.0", *own("torch: torch lightning no-such-thing"))
    (found,) = check_extras(PLACE)
    assert "added by extras: torch" in found.found


def test_a_python_that_is_too_old(install) -> None:
    install("plumbline-insar", "0.1.0", "Requires-Python: >=3.99")
    assert ">=3.99 is needed" in faults(check_python)


def test_both_runtimes(install) -> None:
    install("onnxruntime-gpu", "1.31.0")
    assert set(installed_runtimes()) == {"onnxruntime", "onnxruntime-gpu"}
    said = faults(check_onnxruntime)
    assert "both installed" in said
    assert "pip uninstall onnxruntime onnxruntime-gpu" in said


def test_one_runtime_works(folder: Path) -> None:
    assert states(check_onnxruntime) == [State.OK]


def test_a_runtime_whose_files_are_gone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As pip leaves it when the other one is uninstalled: an empty folder."""
    (folder / "onnxruntime").mkdir()
    (folder / "onnxruntime" / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    assert "--force-reinstall" in faults(check_onnxruntime)
