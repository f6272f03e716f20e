"""Install a lock file and this clone into the environment that runs this: `python
requirements/install.py LOCK`.

`python requirements/install.py --extras NAME ...` adds extras of pyproject.toml to it, in
the versions of the lock files, and makes the clone's own source code the one that runs,
whatever was installed before.

uv installs in a quarter of pip's time. pip does it where uv cannot, or where PIP_ARGS has
arguments for pip. A step that fails says what failed and what to do, and the exit status is
2.

uv does not read pip's settings. What it is given here is what `pip config list` says, so
that a machine with an index or a folder of wheels of its own is set up once. A file named
`*.lock` is held to its hashes.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from pins import read_lock

ROOT = Path(__file__).parents[1]
TORCH, UV = "requirements/torch.txt", "requirements/uv.lock"
PINNED = ("requirements/test.lock", "requirements/serve.lock", TORCH)
"""Files with the versions of extras. They agree on what several of them have."""
# Python compiles what is imported, which is a small part of what is installed.
PIP_INSTALL = ["install", "--no-compile", "--no-deps"]
INDEX = (
    "If no package index is reached, set PIP_INDEX_URL, PIP_FIND_LINKS or HTTPS_PROXY. If the "
    "disk is full, make room. "
    "Then run the same command again."
)


def pip_settings() -> dict[str, list[str]]:
    """Pip's options, an environment variable before a file: name to words."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    )
    found: dict[str, list[str]] = {}
    for scope, name, value in re.findall(
        r"^(:env:|\w+)\.([\w-]+)=(['\"].*['\"])$", listed.stdout, re.MULTILINE
    ):
        if scope in (":env:", "global", "install") and (scope == ":env:" or name not in found):
            found[name] = value[1:-1].replace("\\n", " ").split()
    return found


def uv_environment(settings: dict[str, list[str]]) -> dict[str, str]:
    """Return the same for uv."""
    given = {
        "UV_DEFAULT_INDEX": " ".join(settings.get("index-url", [])),
        "UV_INDEX": " ".join(settings.get("extra-index-url", [])),
        "UV_FIND_LINKS": ",".join(settings.get("find-links", [])),
        "UV_INSECURE_HOST": " ".join(settings.get("trusted-host", [])),
        "SSL_CERT_FILE": " ".join(settings.get("cert", [])),
        "UV_NO_INDEX": "1"
        if settings.get("no-index", ["0"])[0].lower() in ("1", "true", "yes", "on")
        else "",
        # As pip does: whichever index has the version. Every file but torch is held to its hash.
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_HTTP_TIMEOUT": " ".join(
            settings.get("default-timeout", settings.get("timeout", ["180"]))
        ),
        # Beside the environment: files become links and not copies, and nothing stays behind.
        "UV_CACHE_DIR": str(Path(sys.prefix) / ".uv"),
    }
    return {name: value for name, value in given.items() if value}


def check_python() -> None:
    """Refuse an environment with a Python that the lock files are not for, as one made by
    hand may have."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    lowest, beyond = map(
        int, re.findall(r'^requires-python = ">=3\.(\d+),<3\.(\d+)"', project, re.MULTILINE)[0]
    )
    if not (3, lowest) <= sys.version_info[:2] < (3, beyond):
        found = sys.version.split()[0]
        _stop(
            f"{sys.prefix} has Python {found}; 3.{lowest} to 3.{beyond - 1} is needed. `make "
            "clean`, and again."
        )


def install_lock(lock: str, pip_args: list[str]) -> None:
    """Install PyTorch and a lock file."""
    if not pip_args:
        if _pip(*PIP_INSTALL, "--require-hashes", "-r", UV) == 0 and _uv(TORCH) and _uv(lock):
            return
        print(
            "uv could not install it, for the reason above. With pip:", file=sys.stderr, flush=True
        )
    for file in (TORCH, lock):
        hashes = ["--require-hashes"] if file.endswith(".lock") else []
        if _pip(*PIP_INSTALL, *pip_args, *hashes, "-r", file):
            _stop(f"{file} could not be installed, for the reason that pip gives above. {INDEX}")


def install_own() -> None:
    """Install this clone, so that a change of its code counts at once. What builds it is in
    every lock file."""
    if _pip("install", "--no-deps", "--no-build-isolation", "-e", "."):
        _stop(
            "This clone (pyproject.toml) could not be installed, for the reason above. `make "
            "clean`, and again."
        )


def runs_own() -> bool:
    """Return whether `import plumbline` gives this clone's source code, and not a copy of it."""
    command = [sys.executable, "-P", "-c", "import plumbline; print(plumbline.__file__)"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    imported = subprocess.run(
        command, capture_output=True, text=True, env=environment, check=False
    ).stdout.strip()
    return Path(imported).resolve() == (ROOT / "src/plumbline/__init__.py").resolve()


def check_extras(extras: list[str]) -> None:
    """Refuse an extra that pyproject.toml does not have; pip would only warn of it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    known = project["optional-dependencies"]
    if unknown := [name for name in extras if name not in known]:
        _stop(f"EXTRAS: {' '.join(unknown)} found, one or more of {', '.join(known)} needed.")


def install_extras(extras: list[str], pip_args: list[str]) -> None:
    """Install extras, and this clone so that a change of its code counts at once."""
    pins = [
        pin.requirement
        for file in PINNED
        for pin in read_lock((ROOT / file).read_text(encoding="utf-8"))
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as constraints:
        constraints.write("\n".join(dict.fromkeys(pins)))
        constraints.flush()
        words = [
            "--no-compile",
            "--no-build-isolation",
            *pip_args,
            "--constraint",
            constraints.name,
        ]
        if _pip("install", *words, "--editable", f".[{','.join(extras)}]"):
            _stop(
                f"The extras {' '.join(extras)} could not be installed, for the reason above. "
                f"{INDEX}"
            )


def check_installed() -> None:
    """Check that all packages have what they ask for, and that PyTorch is the build for CPUs."""
    check = [sys.executable, "-m", "pip", "--disable-pip-version-check", "check"]
    found = subprocess.run(check, capture_output=True, text=True, check=False)
    if found.returncode:
        _stop(
            f"{found.stdout}{found.stderr}These packages of {sys.prefix} do not fit together. If "
            "you installed one of "
            "them by hand, `make clean`, and again. If not, the lock file is wrong for this Python "
            f"({sys.version.split()[0]}): please report it with these lines."
        )
    tried = subprocess.run(
        [sys.executable, "-c", "import torch"], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        reason = tried.stderr.strip().rpartition("\n")[2]
        _stop(
            f"PyTorch cannot be imported: {reason}\nIf this is not its CPU build, set "
            "PIP_EXTRA_INDEX_URL as "
            "CONTRIBUTING.md says, `make clean`, and again."
        )


def _pip(*words: str) -> int:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *words]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def _uv(file: str) -> bool:
    hashes = ["--require-hashes"] if file.endswith(".lock") else []
    words = [
        "pip",
        "install",
        "--quiet",
        "--python",
        sys.executable,
        "--no-deps",
        *hashes,
        "-r",
        file,
    ]
    environment = os.environ | uv_environment(pip_settings())
    return not subprocess.run(
        [sys.executable, "-m", "uv", *words], env=environment, cwd=ROOT, check=False
    ).returncode


def _stop(message: str) -> None:
    print(message, file=sys.stderr)
    sys.exit(2)


def main() -> None:
    """Install, and check what is there then."""
    parser = argparse.ArgumentParser(
        description="Install a lock file and this clone, or add extras."
    )
    parser.add_argument("lock", nargs="?")
    parser.add_argument("--extras", nargs="*", default=[])
    arguments = parser.parse_args()
    pip_args = shlex.split(os.environ.get("PIP_ARGS", ""))
    check_python()
    if arguments.lock is None:
        check_extras(arguments.extras)
        if arguments.extras:
            print(f"Installing {', '.join(arguments.extras)} into {sys.prefix}", flush=True)
            install_extras(arguments.extras, pip_args)
        elif runs_own():
            return
        else:
            install_own()
    else:
        print(f"Installing {arguments.lock} into {sys.prefix}", flush=True)
        try:
            install_lock(arguments.lock, pip_args)
        finally:
            shutil.rmtree(Path(sys.prefix) / ".uv", ignore_errors=True)
        install_own()
    check_installed()


if __name__ == "__main__":
    main()
