"""Renew the lock files from pyproject.toml by uv: `python requirements/lock.py [MORE
ARGUMENTS FOR UV]`.

A lock file holds for every Python from LOWEST on, and for every system: a marker stands at
what only some of them need. Versions stay where they still fit. `--upgrade-package NAME`
renews one, `--upgrade` all.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from install import pip_settings, uv_environment

ROOT = Path(__file__).parents[1]
LOWEST = "3.11"
"""As in `requires-python`. uv takes it as 3.11.0."""
LOCKS: dict[str, tuple[list[str], str | None]] = {
    "pipeline": (["pipeline", "report"], None),
    "restoration": (["pipeline", "report", "restore"], "pipeline"),
    "test": (["pipeline", "report", "restore", "serve", "test", "docs"], "restoration"),
    "serve": (["serve", "report", "sign"], "test"),
}
"""Lock file -> its extras, and the lock file that has the same versions."""


def command(name: str, sources: list[str], extras: list[str], same_as: str | None) -> list[str]:
    """Return uv's arguments for one lock file. It names no index, and PyTorch stays in
    torch.txt."""
    words = [
        "pip",
        "compile",
        "--quiet",
        "--universal",
        "--python-version",
        LOWEST,
        "--fork-strategy",
        "fewest",
    ]
    words += [
        "--generate-hashes",
        "--no-emit-package",
        "torch",
        "--excludes",
        "requirements/cuda.txt",
    ]
    words += ["--custom-compile-command", "make lock", "--output-file", f"requirements/{name}.lock"]
    words += [word for extra in extras for word in ("--extra", extra)]
    words += ["--constraints", f"requirements/{same_as}.lock"] if same_as else []
    return [*words, *sources]


def main(more: list[str]) -> int:
    """Return uv's exit status."""
    environment = os.environ | uv_environment(pip_settings())
    own = ["pyproject.toml", "requirements/build.in"]
    commands = [command(name, own, extras, same_as) for name, (extras, same_as) in LOCKS.items()]
    for words in [*commands, command("uv", ["requirements/uv.in"], [], None)]:
        asked = [sys.executable, "-m", "uv", *words, *more]
        if code := subprocess.run(asked, env=environment, cwd=ROOT, check=False).returncode:
            file = words[words.index("--output-file") + 1]
            print(f"{file} was not renewed, for the reason that uv gives above.", file=sys.stderr)
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
