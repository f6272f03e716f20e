"""Real servers for the tests: started, waited for, and ended with all they have started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence

from plumbline.doctor.probes import ask


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
        for _ in range(1200):
            if url is None:
                break
            with contextlib.suppress(OSError):
                ask(url)
                break
            assert process.poll() is None, f"{command[:4]} ended with {process.returncode}"
            time.sleep(0.2)
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
