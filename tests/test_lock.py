"""The lock files hold for every Python that is promised.

What a package asks for is read from the installed one, so no index is needed. A package that only another Python gets
is not installed here, and what it asks for is not seen.
"""

from __future__ import annotations

import functools
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.locks import REQUIREMENTS, module, pinned

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Debian 12 has 3.11.2, Ubuntu 24.04 3.12.3, Debian 13 3.13.5.
PROMISED = ["3.11.0", "3.11.2", "3.11.14", "3.12.3", "3.13.5", "3.14.0"]
LOCKS = {name: extras for name, (extras, _) in module("lock").LOCKS.items()}
LINUX = {
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "sys_platform": "linux",
}


def environment(python: str) -> dict[str, str]:
    return LINUX | {"python_full_version": python, "python_version": python.rpartition(".")[0]}


@functools.cache
def asked_by(name: str) -> tuple[list[Requirement], str, str]:
    """Return requirements, version and Python of an installed package."""
    found = metadata.metadata(name)
    asked = [Requirement(text) for text in found.get_all("Requires-Dist", [])]
    return asked, Version(found["Version"]).public, found.get("Requires-Python", "")


def gaps(lock: str, python: str, text: str = "") -> list[str]:
    """Return what a Python misses in a lock file."""
    markers = environment(python)
    pins = pinned(lock, markers, text) | dict(re.findall(r"^(torch)==(.+)$", (REQUIREMENTS / "torch.txt").read_text()))
    extras = PROJECT["optional-dependencies"]
    own = [*PROJECT["dependencies"], *(one for name in LOCKS[lock] for one in extras[name])]
    own += [line for line in (REQUIREMENTS / "build.in").read_text().splitlines() if not line.startswith("#")]
    todo = [("plumbline", Requirement(text), "") for text in own]
    found, seen = [], set()
    while todo:
        asker, requirement, asked_extra = todo.pop()
        if requirement.marker and not requirement.marker.evaluate(markers | {"extra": asked_extra}):
            continue
        name = canonicalize_name(requirement.name)
        if name not in pins:
            found.append(f"{asker} asks for {requirement}")
            continue
        if not requirement.specifier.contains(pins[name], prereleases=True):
            found.append(f"{asker} asks for {requirement}, {pins[name]} is there")
        for extra in {"", *requirement.extras} - {one for known, one in seen if known == name}:
            seen.add((name, extra))
            try:
                asked, version, pythons = asked_by(name)
            except metadata.PackageNotFoundError:
                assert name not in pinned("test"), f"{name} is not installed: make .venv/.test"
                continue
            assert version == pins[name], (
                f"{name} {version} is installed, {lock}.lock has {pins[name]}: make .venv/.test"
            )
            if python not in SpecifierSet(pythons):
                found.append(f"{name} {version} is for Python {pythons}")
            todo += [(name, one, extra) for one in asked]
    return found


@pytest.mark.parametrize("python", PROMISED)
def test_each_python_gets_all_that_its_packages_ask_for(python):
    assert {lock: missed for lock in LOCKS if (missed := gaps(lock, python))} == {}


def test_what_only_some_pythons_need_is_missed_there():
    lock = (REQUIREMENTS / "pipeline.lock").read_text()
    without = re.sub(r"^async-timeout==.*\n(?: .*\n)+", "", lock, flags=re.MULTILINE)
    asks = "redis asks for async-timeout>=4.0.3; python_full_version < '3.11.3'"
    assert gaps("pipeline", "3.11.2", without) == [asks.replace("'", '"')]
    assert gaps("pipeline", "3.11.3", without) == []
    older = re.sub(r"^redis==\S+", "redis==1.0", lock, flags=re.MULTILINE)
    with pytest.raises(AssertionError, match=r"pipeline.lock has 1.0"):
        gaps("pipeline", "3.11.2", older)


@pytest.mark.parametrize("python", PROMISED)
def test_each_lock_file_has_all_of_the_one_before(python):
    sets = [set(pinned(name, environment(python)).items()) for name in ("pipeline", "restoration", "test")]
    assert sets[0] < sets[1] < sets[2]


def test_lock_files_have_hashes_and_neither_an_index_nor_the_cuda_build():
    cuda = {line for line in (REQUIREMENTS / "cuda.txt").read_text().splitlines() if not line.startswith("#")}
    for name in [*LOCKS, "uv"]:
        text = (REQUIREMENTS / f"{name}.lock").read_text()
        pins = module("pins").read_lock(text)
        assert len(re.findall(r"^\S+==.* \\\n    --hash=sha256:", text, re.MULTILINE)) == len(pins) > 0
        assert "://" not in text
        assert not [pin.name for pin in pins if pin.name in {"torch", *cuda} or pin.name.startswith("nvidia-")]


def test_constraints_keep_their_markers():
    printed = subprocess.run(
        [sys.executable, REQUIREMENTS / "pins.py", REQUIREMENTS / "test.lock"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "async-timeout==5.0.1 ; python_full_version < '3.11.3'\n" in printed
    assert set(module("gpu").pins()) == {line for line in printed.splitlines() if not line.startswith("onnxruntime==")}


def test_the_promised_pythons_are_the_same_everywhere():
    pythons = SpecifierSet(PROJECT["requires-python"])
    assert [one for one in [*PROMISED, "3.10.19", "3.15.0"] if one in pythons] == PROMISED
    minors = sorted({int(one.split(".")[1]) for one in PROMISED})
    stated = [int(one.rpartition(".")[2]) for one in PROJECT["classifiers"] if "Python :: 3." in one]
    assert stated == minors == list(range(minors[0], minors[-1] + 1))
    assert f"3.{minors[0]}" == module("lock").LOWEST
    told = f"Python 3.{minors[0]} to 3.{minors[-1]}"
    for page in (
        "README.md",
        "CONTRIBUTING.md",
        "docs/install.md",
        "docs/operations.md",
        "src/plumbline/doctor/versions.py",
    ):
        assert told in (ROOT / page).read_text(), page
