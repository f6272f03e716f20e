"""The lock files hold for every Python that is promised, and `make install` gives the reason where it fails.

What a package asks for is read from the installed one, so no index is needed. A package that only another Python gets
is not installed here, and what it asks for is not seen.
"""

from __future__ import annotations

import functools
import os
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


def gaps(lock: str, python: str) -> list[str]:
    """Return what a Python misses in a lock file."""
    markers = environment(python)
    pins = pinned(lock, markers) | dict(re.findall(r"^(torch)==(.+)$", (REQUIREMENTS / "torch.txt").read_text()))
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
        "docs/operations/machines.md",
        "src/plumbline/doctor/installation.py",
    ):
        assert told in (ROOT / page).read_text(), page


# --- make install ---


def fake(path: Path, before: str = "", version: str = "") -> Path:
    """A Python in which something is different: words of shell before it starts, or its version."""
    changed = f"import sys; sys.version_info = {tuple(map(int, version.split('.')))}; " if version else ""
    path.write_text(
        f"#!/bin/sh\n{before}\n"
        f'[ "$1" = --version ] && [ "{version}" ] && {{ echo "Python {version}"; exit; }}\n'
        f'[ "$1" = -c ] && {{ code=$2; shift 2; exec "{sys.executable}" -c "{changed}$code" "$@"; }}\n'
        f'exec "{sys.executable}" "$@"\n'
    )
    path.chmod(0o755)
    return path


def refused(python: object, folder: Path) -> str:
    """Words with which no environment is made in a folder."""
    command = ["sh", REQUIREMENTS / "environment.sh", str(python), folder]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    return ended.stderr


@pytest.mark.parametrize("version", ["3.10.13", "3.15.0"])
def test_another_python_is_refused_in_one_sentence(tmp_path, version):
    python = fake(tmp_path / "python", version=version)
    where = "Say where one is: make install PYTHON=/path/to/python3.11"
    wanted = f"Python 3.11 to 3.14 is needed; {python} is Python {version}. {where}\n"
    assert refused(python, tmp_path / "venv") == wanted
    assert refused("/no/such/python", tmp_path / "venv").startswith(
        "There is no Python that runs as /no/such/python. Say where one is: "
    )
    assert not (tmp_path / "venv").exists()


def test_a_python_without_venv_names_debians_package(tmp_path):
    python = fake(tmp_path / "python")
    python.write_text(python.read_text().replace('-c "', "-c \"import sys; sys.modules['ensurepip'] = None; "))
    package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    assert refused(python, tmp_path / "venv").endswith(
        f"cannot make environments. On Debian and Ubuntu, install its package: apt install {package}\n"
    )


def test_an_environment_that_cannot_be_made_is_not_left_half_made(tmp_path):
    taken = tmp_path / "file"
    taken.touch()
    assert refused(sys.executable, taken).endswith(
        "could not be made, for the reason above. Mend that, and run the same command again.\n"
    )
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv" / ".run").touch()
    assert "was made with is not there any more. Run `make clean`" in refused(sys.executable, tmp_path / "venv")


def test_the_first_python_that_works_is_taken(tmp_path):
    fake(tmp_path / "python3.11", "echo pyenv: python3.11: command not found >&2; exit 127")
    fake(tmp_path / "python3.12", version="3.10.0")
    right = fake(tmp_path / "python3.13")
    chosen = subprocess.run(
        ["sh", REQUIREMENTS / "environment.sh"],
        env=os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (chosen.stdout, chosen.stderr) == (f"{right}\n", "")


BROKEN = "Metadata-Version: 2.1\nName: broken\nVersion: 1.0\nRequires-Dist: no-such>=3\n"
CUDA_BUILD = "raise ImportError('libcudart.so.13: cannot open shared object file')"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        (
            "broken-1.0.dist-info/METADATA",
            BROKEN,
            r"^broken 1\.0 requires no-such, .*\nThese packages of .* do not fit",
        ),
        (
            "torch/__init__.py",
            CUDA_BUILD,
            r"^PyTorch cannot be imported: ImportError: libcudart.*\nIf this is not its CPU",
        ),
    ],
    ids=["a package that misses another", "CUDA build"],
)
def test_what_is_wrong_after_an_installation_is_said(tmp_path, file, content, told):
    (tmp_path / file).parent.mkdir()
    (tmp_path / file).write_text(content)
    ended = subprocess.run(
        [sys.executable, "-c", "import install; install.check_installed()"],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{REQUIREMENTS}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert re.search(told, ended.stderr), ended.stderr
    assert ended.returncode == 2
