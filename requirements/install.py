"""Install by uv, from where pip is told to: `python requirements/install.py REQUIREMENTS…`, and nothing besides them.

uv does not read pip's settings. What it is given here is what `pip config list` says, so that a machine with an index
or a folder of wheels of its own is set up once. A file named `*.lock` is held to its hashes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path


def pip_settings() -> dict[str, list[str]]:
    """Pip's options, an environment variable before a file: name to words."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    found: dict[str, list[str]] = {}
    for scope, name, value in re.findall(r"^(:env:|\w+)\.([\w-]+)=(['\"].*['\"])$", listed.stdout, re.MULTILINE):
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
        "UV_NO_INDEX": "1" if settings.get("no-index", ["0"])[0].lower() in ("1", "true", "yes", "on") else "",
        # As pip does: whichever index has the version. Every file but torch is held to its hash.
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_HTTP_TIMEOUT": " ".join(settings.get("default-timeout", settings.get("timeout", ["180"]))),
        # Beside the environment: files become links and not copies, and nothing stays behind.
        "UV_CACHE_DIR": str(Path(sys.prefix) / ".uv"),
    }
    return {name: value for name, value in given.items() if value}


def main(files: list[str]) -> int:
    """uv's exit status."""
    environment = os.environ | uv_environment(pip_settings())
    for file in files:
        hashes = ["--require-hashes"] if file.endswith(".lock") else []
        command = ["uv", "pip", "install", "--quiet", "--python", sys.executable, "--no-deps", *hashes, "-r", file]
        if code := subprocess.run([sys.executable, "-m", *command], env=environment, check=False).returncode:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
