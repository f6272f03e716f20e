"""Versions: real metadata folders, first on the path, of packages that clash."""

from __future__ import annotations

from pathlib import Path

import pytest

from plumbline.core.extras import install as install_command
from plumbline.doctor.installation import (
    check_extras,
    check_onnxruntime,
    check_python,
    check_versions,
    installed_runtimes,
)
from plumbline.doctor.probes import State
from tests.doctor.conftest import PLACE, faults, states, warnings


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


def test_this_environment_has_no_clash(folder: Path) -> None:
    assert states(check_versions) == [State.OK]
    assert State.FAULT not in states(check_python)


@pytest.mark.parametrize(("name", "version"), [("fastapi", "0.155.0"), ("sqlalchemy", "2.1.0"), ("prefect", "3.9.0")])
def test_a_version_that_clashes_is_named_with_what_is_needed(install, name: str, version: str) -> None:
    install(name, version)
    said = faults(check_versions)
    assert said.startswith(f"{name} {version} is installed; {name}")
    assert f"pip install '{name}" in said


def test_an_extra_counts_where_it_is_installed(install) -> None:
    install("onnxruntime-gpu", "1.20.0")
    assert "onnxruntime-gpu 1.20.0 is installed; onnxruntime-gpu==1.31.*" in faults(check_versions)


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
    install("plumbline", "0.1.0", *own("torch: no-torch no-lightning", "pipeline: no-dvc no-prefect numpy"))
    assert states(check_versions) == [State.OK]
    (found,) = check_extras(PLACE)
    assert found.state is State.OK
    assert "added by extras: none" in found.found
    assert "adapt, adapters and --adapter (torch), training" in found.found
    assert found.found.endswith(f"; to add one, {install_command('EXTRA')}")


def test_an_extra_of_which_most_is_there_misses_the_rest(install) -> None:
    install("plumbline", "0.1.0", *own("torch: torch lightning no-such-thing"))
    assert "no-such-thing is not installed; no-such-thing" in faults(check_versions)
    (found,) = check_extras(PLACE)
    assert "added by extras: torch" in found.found


def test_the_runtime_for_gpus_takes_the_place_of_the_other(install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("plumbline", "0.1.0", *own(), "Requires-Dist: no-cpu-runtime==1.31.*")
    monkeypatch.setattr("plumbline.doctor.installation.CPU", "no-cpu-runtime")
    assert "no-cpu-runtime is not installed" in faults(check_versions)
    install("onnxruntime-gpu", "1.31.1")
    assert states(check_versions) == [State.OK]


def test_a_requirement_that_is_not_installed(install) -> None:
    install(
        "plumbline", "0.1.0", "Requires-Python: >=3.11", "Requires-Dist: numpy>=2", "Requires-Dist: no-such-thing>=4"
    )
    assert "no-such-thing is not installed; no-such-thing>=4 is needed" in faults(check_versions)


def test_a_clash_between_others_is_a_warning(install) -> None:
    install("starlette", "0.1.0")
    assert "fastapi needs starlette" in warnings(check_versions)
    assert faults(check_versions) == ""


def test_a_python_that_is_too_old(install) -> None:
    install("plumbline", "0.1.0", "Requires-Python: >=3.99")
    assert ">=3.99 is needed" in faults(check_python)


def test_an_installation_older_than_the_checkout(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[project]\nname = "plumbline"\ndependencies = ["new-thing>=1"]\n')
    assert "new-thing>=1" in warnings(check_versions)


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
