"""A command as the first process of a space of its own, number 1, as a container's is."""

from __future__ import annotations

import subprocess

import pytest

AS_FIRST = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child")


def as_first(*command: str) -> list[str]:
    """The command that runs `command` so; skips the test where the kernel lets nobody do that."""
    try:
        allowed = subprocess.run([*AS_FIRST, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        allowed = False
    if not allowed:
        pytest.skip("needs spaces of process numbers that a user may make")
    return [*AS_FIRST, *command]
