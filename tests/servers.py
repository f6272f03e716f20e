"""Real servers for the tests: started, waited for, and ended with all they have started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from urllib.request import urlopen

from tests.waiting import until


@contextlib.contextmanager
def answering(
    command: Sequence[str], url: str | None, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server for the block; enter it once `url` answers."""
    process = subprocess.Popen(
        list(command),
        env={**os.environ, **(environment or {})},
        process_group=0,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        if url is not None:
            until(lambda: _answers(url), f"an answer of {url}", needs=process, pause_s=0.2)
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _answers(url: str) -> bool:
    try:
        urlopen(url, timeout=5).close()
    except OSError:
        return False
    return True
